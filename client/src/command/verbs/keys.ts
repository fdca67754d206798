// `sandbox keys`: shows the permissions of the current key. Keys are created and revoked on the daemon's host: there is
// no route for it, so that a key's owner cannot create further keys.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import { suggest } from '@sandboxd/api/suggest';
import type { WhoAmI } from '../../contract.ts';
import type { Session, Verb } from '../verb.ts';

const ACTIONS = ['create', 'list', 'show', 'revoke'] as const;
const PROGRAM = 'sandboxd';
const SIGNALLED = 128;
const COLUMNS = 16;

export const keys: Verb = {
  name: 'keys',
  operands: `[${ACTIONS.join('|')} …]`,
  completes: [ACTIONS],
  summary: 'Show the permissions of your key; on the daemon’s host, manage keys',
  details:
    'The API cannot create or revoke keys. With further arguments it runs `sandboxd keys` on this machine, which needs root, and the daemon’s --data-dir unless that is the default.',
  flags: {},
  commandFrom: 0,
  example: 'sandbox keys',
  async run({ operands: args }, session) {
    const [action] = args;
    if (action !== undefined) return manage(action, args, session);
    const { client, terminal, signal, isJson } = session;
    const me = await client.whoami({ signal });
    if (isJson) terminal.printJson(me);
    else for (const line of describe(me)) terminal.print(line);
    return 0;
  },
};

function describe(me: WhoAmI): string[] {
  const { key, usage = [] } = me;
  const rows: [string, unknown][] = [
    ...(key === undefined ? [] : ([['key', key.name]] satisfies [string, string][])),
    ...Object.entries({ tenant: key?.tenant, 'expires at': key?.expires_at }),
    ...(me.scoped ? Object.entries(me.policy) : []),
    ...usage.map(({ limit, of, used, max }): [string, string] => [
      `${of} ${limit.replace(/^max_/, '')}`,
      `${used} of ${max}`,
    ]),
  ];
  const lines = rows.flatMap(([name, value]) => {
    if (value === undefined) return [];
    return `${name.padEnd(COLUMNS)} ${Array.isArray(value) ? value.join(', ') || 'none' : value}`;
  });
  return me.scoped ? lines : ['everything is allowed', ...lines];
}

/** Runs `sandboxd keys …` on this machine; resolves with its exit code. UsageError when the daemon is remote. */
async function manage(action: string, args: readonly string[], { host, terminal }: Session): Promise<number> {
  if (!ACTIONS.some((each) => each === action))
    throw new UsageError(
      `there is no ${JSON.stringify(action)}${suggest(action, ACTIONS) || `; known are ${ACTIONS.join(', ')}`}`,
    );
  const there = `as root, \`${PROGRAM} keys ${args.join(' ')}\``;
  if (!isLocal(host))
    throw new UsageError(`keys of the daemon at ${host} are managed on its own host: there, ${there}`);
  const program = findProgram();
  if (program === undefined)
    throw new UsageError(
      `keys are managed by ${PROGRAM}, which is not in PATH here: on the daemon’s host, ${there}`,
    );
  terminal.note(`on this machine: ${PROGRAM} keys ${args.join(' ')}`);
  const child = spawn(program, ['keys', ...args], { stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, by) => resolve(code ?? SIGNALLED + constants.signals[by ?? 'SIGKILL']));
  });
}

function isLocal(host: string): boolean {
  return host.startsWith('unix:') || /^https?:\/\/(?:localhost|127\.[\d.]+|\[::1\])(?:[:/]|$)/.test(host);
}

/** In this program's directory, if both are one file, or in PATH. */
function findProgram(): string | undefined {
  const places = [dirname(process.execPath), ...(process.env.PATH ?? '').split(delimiter)];
  return places.map((place) => join(place, PROGRAM)).find((path) => existsSync(path));
}
