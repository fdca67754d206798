// How a VMM is started with less than the daemon may do: no capability, and no way to get one.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { toError } from '../../lib/errors.ts';

const WITHOUT_PRIVILEGES = [
  'setpriv',
  '--no-new-privs',
  // A program that root starts would have all that is in here.
  ...['--bounding-set', '-all'],
  ...['--inh-caps', '-all'],
  ...['--ambient-caps', '-all'],
  '--',
];

export type Launcher = {
  /** What comes before the program; empty where it starts as it is. */
  readonly prefix: readonly string[];
  /** Why it starts with the daemon's own privileges; undefined when it does not. */
  readonly obstacle: string | undefined;
};

/** Tries it: containers exist where a process may not give up what it has. */
export async function findLauncher(): Promise<Launcher> {
  // Who is not root has no capabilities to lose, and may not lose those that it could have.
  const [program = '', ...args] =
    process.getuid?.() === 0 ? WITHOUT_PRIVILEGES : WITHOUT_PRIVILEGES.slice(0, 2);
  const end = args.at(-1) === '--' ? [] : ['--'];
  try {
    await promisify(execFile)(program, [...args, ...end, 'true']);
    return { prefix: [program, ...args, ...end], obstacle: undefined };
  } catch (error) {
    return { prefix: [], obstacle: toError(error).message.trim().split('\n').at(-1) ?? 'setpriv failed' };
  }
}
