// `sandbox exec`: runs a command in a sandbox.
import type { Sandbox } from '../../sandbox.ts';
import { type AttachOptions, attach, attachJson, toExitCode } from '../attach.ts';
import { toSeconds } from '../units.ts';
import type { Session, Verb } from '../verb.ts';
import { EXEC_FLAGS, toExecOptions } from './exec-flags.ts';

export const exec: Verb = {
  name: 'exec',
  operands: '<sandbox> <command…>',
  completes: ['sandbox', 'path'],
  summary: 'Run a command in a sandbox',
  details:
    'The exit code is the command’s: 128 + n after signal n, 124 after a timeout, 127 for an unknown program. The first Ctrl-C goes to the command, the second kills it.',
  flags: {
    ...EXEC_FLAGS,
    detach: {
      type: 'boolean',
      short: 'd',
      help: 'print the id of the command, which continues without this terminal; -i keeps its input open',
    },
    timeout: {
      type: 'string',
      placeholder: 'time',
      help: 'kill the command after this time, such as 30s or 10m',
    },
  },
  commandFrom: 1,
  example: 'sandbox exec -it $ID bash',
  async run(input, session) {
    const [id = '', ...cmd] = input.operands;
    const timeout = input.text('timeout');
    const limit = timeout === undefined ? {} : { timeoutS: toSeconds('timeout', timeout) };
    const options = { ...toExecOptions(input), ...limit };
    const sandbox = session.client.sandboxes.get(id);
    if (input.isSet('detach')) return detach(sandbox, cmd, options, session);
    return (session.isJson ? attachJson : attach)(sandbox, cmd, options, session);
  },
};

async function detach(
  sandbox: Sandbox,
  cmd: readonly string[],
  { env, cwd, user, timeoutS, isInteractive, hasTerminal }: AttachOptions,
  { terminal, signal, isJson }: Session,
): Promise<number> {
  const command = await sandbox.commands.start(cmd, {
    ...(env && { env }),
    ...(cwd !== undefined && { cwd }),
    ...(user !== undefined && { user }),
    ...(timeoutS !== undefined && { timeoutS }),
    ...(hasTerminal && { tty: terminal.size }),
    stdin: isInteractive,
    signal,
  });
  const { result } = await command.info({ signal });
  if (isJson) terminal.printJson(await command.info({ signal }));
  else terminal.print(command.id);
  if (result?.error === undefined) return 0;
  terminal.complain(result.error);
  return toExitCode(result, () => undefined);
}
