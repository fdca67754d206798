// Starts a command: descriptors, user, environment, program. On failure every descriptor is closed again.
import { constants, fchmodSync, fchownSync } from 'node:fs';
import type { Exec } from '@sandboxd/proto';
import { trustVariables } from '../machine/trust/index.ts';
import { addon } from '../native/addon.ts';
import type { Cgroup } from './cgroups.ts';
import { completeEnvironment, DEFAULT_PATH, environmentValue, programCandidates } from './environment.ts';
import { findProgramFile } from './program-file.ts';
import { describeSpawnFailure, parseSpawnFailure } from './spawn-failure.ts';
import { type ResolvedUser, readUserFiles, resolveUser } from './users.ts';

/** Pipe capacity between the command and the agent; the kernel allocates pages only for buffered bytes. */
const PIPE_BYTES = 1024 * 1024;

/** The agent's side of the pipes. With a terminal, input and output share one descriptor and `err` is absent. */
export type Descriptors = {
  readonly input: number | undefined;
  readonly output: number;
  readonly error: number | undefined;
};

export type Launched = { readonly pid: number; readonly descriptors: Descriptors };

/** The command did not start. The exit frame carries the message. */
export class LaunchError extends Error {
  override readonly name = 'LaunchError';
}

type Opened = { readonly ours: Descriptors; readonly theirs: readonly [number, number, number] };

let nullFd = -1;

/** A command. `isExact`: of a login, only PATH and HOME are added to its environment. */
export type Command = Omit<Exec, 'id' | 'detach' | 'outputBufferBytes'> & { readonly isExact?: boolean };

/** Throws LaunchError. */
export function launch(exec: Command, cgroup: Cgroup): Launched {
  const program = exec.cmd[0] ?? '';
  if (program === '') throw new LaunchError('cmd is empty: name a program');
  if ([...exec.cmd, ...exec.env, exec.cwd].some((text) => text.includes('\0'))) {
    throw new LaunchError('cmd, env and cwd must not contain zero bytes');
  }
  const user = findUser(exec);
  const hasTerminal = exec.tty !== undefined && exec.tty !== null;
  const isExact = exec.isExact === true;
  const env = completeEnvironment(exec.env, { user, hasTerminal, isExact, shared: trustVariables() });
  const path = environmentValue(env, 'PATH') ?? DEFAULT_PATH;
  const cwd = exec.cwd === '' ? '/' : exec.cwd;
  const candidates = programCandidates(program, path);
  const { ours, theirs } = openDescriptors(exec, user);
  let result: number;
  try {
    result = addon.spawn({
      candidates: toList(candidates),
      argv: toList(exec.cmd),
      env: toList(env),
      cwd,
      stdin: theirs[0],
      stdout: theirs[1],
      stderr: theirs[2],
      terminal: ours.error === undefined ? 1 : 0,
      cgroup: cgroup.fd,
      uid: user.uid,
      gid: user.gid,
      groups: user.groups,
    });
  } finally {
    for (const fd of new Set(theirs)) if (fd !== nullFd) addon.close(fd);
  }
  if (result > 0) return { pid: result, descriptors: ours };
  for (const fd of new Set([ours.input, ours.output, ours.error])) if (fd !== undefined) addon.close(fd);
  const failure = parseSpawnFailure(result);
  const file = failure.stage === 'program' ? findProgramFile(candidates, cwd) : undefined;
  throw new LaunchError(describeSpawnFailure(failure, { program, cwd, path, file }));
}

function findUser(exec: Command): ResolvedUser {
  const found = resolveUser(exec.user, readUserFiles());
  if ('error' in found) throw new LaunchError(found.error);
  return found.user;
}

function openDescriptors(exec: Command, user: ResolvedUser): Opened {
  const opened: number[] = [];
  try {
    if (exec.tty) {
      const [master, slave] = addon.openTerminal(exec.tty.cols ?? 80, exec.tty.rows ?? 24);
      opened.push(master, slave);
      if (user.uid !== 0) fchownSync(slave, user.uid, user.gid);
      return { ours: { input: master, output: master, error: undefined }, theirs: [slave, slave, slave] };
    }
    const pipe = (ours: 0 | 1): [number, number] => {
      const ends = addon.pipe(ours, PIPE_BYTES);
      opened.push(...ends);
      // The command can then reopen /dev/stdout and similar files after it changed its user (su, gosu, php-fpm). A
      // process without the descriptor cannot reach the pipe: /proc/<pid>/fd is readable only for processes that may
      // trace <pid>.
      if (user.uid !== 0) fchownSync(ends[0], user.uid, user.gid);
      fchmodSync(ends[0], 0o666);
      return ends;
    };
    const input = exec.stdin ? pipe(1) : undefined;
    const output = pipe(0);
    const error = pipe(0);
    return {
      ours: { input: input?.[1], output: output[0], error: error[0] },
      theirs: [input?.[0] ?? nullDevice(), output[1], error[1]],
    };
  } catch (cause) {
    for (const fd of opened) addon.close(fd);
    throw new LaunchError(`no descriptors for the command: ${(cause as Error).message}`, { cause });
  }
}

function nullDevice(): number {
  if (nullFd < 0) nullFd = addon.open('/dev/null', constants.O_RDONLY);
  return nullFd;
}

function toList(items: readonly string[]): string {
  return items.length === 0 ? '' : `${items.join('\0')}\0`;
}
