// `sandbox commands`, `attach`, `wait` and `kill`: commands that do not depend on their client.
import type { CommandInfo } from '../../contract.ts';
import { attachTo, toExitCode } from '../attach.ts';
import { formatAge } from '../terminal.ts';
import { toSeconds } from '../units.ts';
import type { Verb } from '../verb.ts';

export const commands: Verb = {
  name: 'commands',
  operands: '<sandbox>',
  completes: ['sandbox'],
  summary: 'List the commands of a sandbox',
  details: 'It shows running commands, and those that have ended within the last hour.',
  flags: { quiet: { type: 'boolean', short: 'q', help: 'print ids only' } },
  example: 'sandbox commands $ID',
  async run({ operands: [id = ''], isSet }, { client, terminal, signal, isJson }) {
    const listed = await client.sandboxes.get(id).commands.list({ signal });
    if (isJson) terminal.printJson(listed);
    else if (isSet('quiet')) for (const command of listed) terminal.print(command.id);
    else
      terminal.table(
        ['COMMAND', 'STATE', 'STARTED', 'LINE'],
        listed.map((command) => [
          command.id,
          describe(command),
          formatAge(command.started_at),
          command.cmd.join(' ').slice(0, 60),
        ]),
      );
    return 0;
  },
};

export const attach: Verb = {
  name: 'attach',
  operands: '<sandbox> <command>',
  completes: ['sandbox'],
  summary: 'Attach to a detached command',
  details:
    'It shows the stored output first. On a terminal, Ctrl-P Ctrl-Q leaves the command, which continues. The exit code is the command’s.',
  flags: {
    'no-stdin': { type: 'boolean', help: 'only read the output' },
    take: { type: 'boolean', help: 'write in place of another client that does' },
  },
  example: 'sandbox attach $ID $CMD',
  async run({ operands: [id = '', cid = ''], isSet }, session) {
    const command = session.client.sandboxes.get(id).commands.get(cid);
    const input = isSet('no-stdin') ? 'none' : isSet('take') ? 'take' : 'write';
    return attachTo(command, input, session);
  },
};

export const wait: Verb = {
  name: 'wait',
  operands: '<sandbox> <command>',
  completes: ['sandbox'],
  summary: 'Wait for the end of a command',
  details: 'The exit code is the command’s.',
  flags: {},
  example: 'sandbox wait $ID $CMD',
  async run({ operands: [id = '', cid = ''] }, { client, terminal, signal, isJson, complain }) {
    const result = await client.sandboxes.get(id).commands.get(cid).wait({ signal });
    if (isJson) terminal.printJson(result);
    return toExitCode(result, (line) => complain(line));
  },
};

export const kill: Verb = {
  name: 'kill',
  operands: '<sandbox> <command>',
  completes: ['sandbox'],
  summary: 'End a command and all that it started',
  flags: {
    signal: {
      type: 'string',
      short: 's',
      placeholder: 'name',
      help: 'only send this signal, such as SIGUSR1',
    },
    grace: { type: 'string', placeholder: 'time', help: 'time from SIGTERM to SIGKILL; default: 10s' },
  },
  example: 'sandbox kill $ID $CMD',
  async run({ operands: [id = '', cid = ''], text }, { client, terminal, signal, isJson }) {
    const command = client.sandboxes.get(id).commands.get(cid);
    const [name, grace] = [text('signal'), text('grace')];
    if (name !== undefined) await command.signal(name, { signal });
    else await command.kill({ signal, ...(grace !== undefined && { graceS: toSeconds('grace', grace) }) });
    if (isJson) terminal.printJson(await command.info({ signal }));
    else terminal.print(cid);
    return 0;
  },
};

function describe({ state, detached, result }: CommandInfo): string {
  if (state === 'running') return detached ? 'running' : 'attached';
  return result?.signal ?? `exit ${result?.exit_code ?? -1}`;
}
