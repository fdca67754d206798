// Runs a child program until it exits: collects its output, reports lines, explains failures.
import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { BuilderError, hasErrno } from '../errors.ts';

export type CommandOptions = {
  cwd?: string;
  /** Variables in addition to the default environment. */
  env?: NodeJS.ProcessEnv;
  onLine?: (line: string) => void;
  /** Called when its process has started. */
  onStart?: ((program: ChildProcess) => void) | undefined;
  signal?: AbortSignal | undefined;
  /** A directory that the program sees as `SCRATCH`, for its temporary files. Its mounts end with it. */
  scratch?: string;
};

const TAIL_LINES = 12;
/** The path of a program's scratch directory. */
export const SCRATCH = '/var/tmp';
/** $0 is the directory, the rest is the command, which may drop root's rights for some of its work. */
const IN_SCRATCH = `chmod 755 "$0" && mount --bind "$0" ${SCRATCH} && exec env TMPDIR=${SCRATCH} "$@"`;

/** The Debian package of a program, where the names differ. */
const PACKAGES: Readonly<Record<string, string>> = {
  mke2fs: 'e2fsprogs',
  debugfs: 'e2fsprogs',
  xz: 'xz-utils',
  'apt-get': 'apt',
  'apt-cache': 'apt',
  'apt-config': 'apt',
  'dpkg-deb': 'dpkg',
};

/** The part of the environment that every program gets. The rest may contain secrets of a daemon or a user. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
}

/** For apt and programs that run it: proxy variables for access to mirrors. */
export function mirrorEnvironment(): NodeJS.ProcessEnv {
  const names = ['http_proxy', 'https_proxy', 'ftp_proxy', 'all_proxy', 'no_proxy'];
  const passed = [...names, ...names.map((name) => name.toUpperCase()), 'APT_CONFIG', 'HOME'];
  return Object.fromEntries(
    passed.flatMap((name) => (name in process.env ? [[name, process.env[name]]] : [])),
  );
}

/**
 * Returns standard output as text. `signal` ends the program and all of its children; its reason is thrown after they
 * have exited. Throws `tool_missing`, `host_disk_full`, or `command_failed` with the last lines of both streams.
 */
export function runCommand(program: string, args: string[], options: CommandOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const { scratch } = options;
    const child = spawn(
      scratch === undefined ? program : 'unshare',
      scratch === undefined ? args : ['--mount', 'sh', '-c', IN_SCRATCH, scratch, program, ...args],
      {
        cwd: options.cwd,
        env: { ...plainEnvironment(), ...options.env },
        stdio: ['ignore', 'pipe', 'pipe'],
        // A process group of its own can be killed as a whole: mmdebstrap alone would wait for its children.
        detached: options.signal !== undefined,
      },
    );
    if (child.pid !== undefined) options.onStart?.(child);
    const stop = () => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGTERM');
      } catch (error) {
        // All processes have exited already; only the rest of the output is pending.
        if (!hasErrno(error, 'ESRCH')) throw error;
      }
    };
    options.signal?.addEventListener('abort', stop);
    if (options.signal?.aborted) stop();
    const output: string[] = [];
    const tail: string[] = [];
    const onLine = (line: string) => {
      if (line.trim() === '') return;
      tail.push(line);
      if (tail.length > TAIL_LINES) tail.shift();
      options.onLine?.(line);
    };
    createInterface(child.stderr).on('line', onLine);
    createInterface(child.stdout).on('line', (line) => {
      output.push(line);
      onLine(line);
    });
    child.on('error', (error) => {
      reject(hasErrno(error, 'ENOENT') ? toolMissing(program, error) : error);
    });
    child.on('close', (code, signal) => {
      options.signal?.removeEventListener('abort', stop);
      if (options.signal?.aborted) reject(options.signal.reason);
      else if (code === 0) resolve(output.join('\n'));
      else reject(commandFailed(program, code === null ? `signal ${signal}` : `exit code ${code}`, tail));
    });
  });
}

/** Throws `tool_missing` for the first program that PATH lacks, before any work starts. */
export async function requirePrograms(programs: readonly string[]): Promise<void> {
  const directories = (process.env.PATH ?? '').split(':').filter((directory) => directory !== '');
  for (const program of programs) {
    const found = await Promise.all(
      directories.map((directory) =>
        access(join(directory, program), constants.X_OK).then(
          () => true,
          () => false,
        ),
      ),
    );
    if (!found.includes(true)) throw toolMissing(program);
  }
}

function toolMissing(program: string, cause?: Error): BuilderError {
  const message = `the program ${program} was not found; as root: apt-get install ${PACKAGES[program] ?? program} (it may be in /usr/sbin, which PATH has to name)`;
  return new BuilderError('tool_missing', message, { cause });
}

function commandFailed(program: string, ending: string, tail: string[]): BuilderError {
  // The first line is sufficient.
  const last = tail.length > 0 ? `: ${tail.at(-1)?.trim()}` : '';
  const lines = `${last}${tail
    .slice(0, -1)
    .map((line) => `\n  before that: ${line}`)
    .join('')}`;
  const isFull = tail.some((line) => /No space left on device|Disk quota exceeded/.test(line));
  return new BuilderError(
    isFull ? 'host_disk_full' : 'command_failed',
    `${program} ended with ${ending}${lines}`,
  );
}
