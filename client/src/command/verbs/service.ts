// `sandbox service`: manages the supervised service of a sandbox.

import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { ServiceStatus } from '../../contract.ts';
import { toEnvironment, toSeconds } from '../units.ts';
import type { Session, Verb } from '../verb.ts';

const ACTIONS = ['status', 'set', 'start', 'stop', 'restart', 'logs'] as const;
const POLICIES = ['never', 'on-failure', 'always'] as const;

export const service: Verb = {
  name: 'service',
  operands: `<${ACTIONS.join('|')}> <sandbox> [command…]`,
  completes: [ACTIONS, 'sandbox', 'path'],
  summary: 'Manage the supervised service of a sandbox',
  flags: {
    env: {
      type: 'string',
      short: 'e',
      multiple: true,
      placeholder: 'NAME=value',
      help: 'with set: set a variable',
    },
    workdir: { type: 'string', short: 'w', placeholder: 'path', help: 'with set: working directory' },
    user: { type: 'string', short: 'u', placeholder: 'name[:group]', help: 'with set: user of the service' },
    restart: {
      type: 'string',
      placeholder: 'policy',
      values: POLICIES,
      help: 'with set: never, on-failure or always',
    },
    grace: { type: 'string', placeholder: 'time', help: 'with stop: time from the stop signal to SIGKILL' },
    follow: { type: 'boolean', short: 'f', help: 'with logs: follow new output' },
  },
  commandFrom: 2,
  example: 'sandbox service set $ID sleep 1000',
  async run(input, session) {
    const [action = '', id = '', ...cmd] = input.operands;
    const { client, terminal, signal, isJson } = session;
    if (action === 'logs') return followLogs(input, session, id);
    const target = client.sandboxes.get(id).service;
    const grace = input.text('grace');
    const calls: Readonly<Record<string, () => Promise<ServiceStatus>>> = {
      status: () => target.status({ signal }),
      set: () => target.configure(toSpec(input, cmd), { signal }),
      start: () => target.start({ signal }),
      stop: () => target.stop({ signal, ...(grace !== undefined && { graceS: toSeconds('grace', grace) }) }),
      restart: () => target.restart({ signal }),
    };
    const call = Object.hasOwn(calls, action) ? calls[action] : undefined;
    if (call === undefined)
      throw new UsageError(`there is no ${JSON.stringify(action)}; known are ${ACTIONS.join(', ')}`);
    const status = await call();
    if (isJson) terminal.printJson(status);
    else terminal.print(describe(status));
    return 0;
  },
};

function toSpec({ text, texts }: Input, cmd: readonly string[]) {
  const [cwd, user] = [text('workdir'), text('user')];
  const policy = (text('restart') ?? 'never') as (typeof POLICIES)[number];
  if (cmd.length === 0)
    throw new UsageError('an argument is missing: sandbox service set <sandbox> <command…>');
  return {
    cmd,
    env: toEnvironment(texts('env')),
    restart: { policy },
    ...(cwd !== undefined && { cwd }),
    ...(user !== undefined && { user }),
  };
}

async function followLogs(
  { isSet }: Input,
  { client, terminal, signal, isJson }: Session,
  id: string,
): Promise<number> {
  const chunks = client.sandboxes.get(id).service.logs({ follow: isSet('follow'), signal });
  for await (const { stream, data, text } of chunks) {
    if (isJson) await terminal.writeJson({ stream, text });
    else await terminal.write(data, stream);
  }
  return 0;
}

function describe({ state, pid, restarts, uptime_ms, last_exit }: ServiceStatus): string {
  const parts = [
    state,
    pid === undefined ? '' : `pid ${pid}`,
    uptime_ms === undefined ? '' : `for ${Math.round(uptime_ms / 1000)} s`,
    restarts ? `${restarts} restarts` : '',
    last_exit === undefined ? '' : `last exit ${last_exit.error ?? last_exit.signal ?? last_exit.exit_code}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}
