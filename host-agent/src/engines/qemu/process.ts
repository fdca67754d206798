// The QEMU process: its own session so that it outlives us, its end observed.
import { spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import { AppError, toError } from '../../lib/errors.ts';
import { isRunning, readStartTicks, signalProcess } from '../../lib/proc.ts';

/** How often a process that is not our child is looked at. */
const ADOPTED_POLL_MS = 250;

export type ProcessEnd = { readonly exitCode: number | null; readonly signal: string | null };

export interface VmmProcess {
  readonly pid: number;
  readonly startTicks: number;
  readonly ended: Promise<ProcessEnd>;
  /** False when it is gone already. */
  signal(name: NodeJS.Signals): boolean;
}

/** Number under which the process finds the descriptor that it inherits. */
export const INHERITED_FD = 3;

/**
 * Starts the program with stdout and stderr in a log file, and `inheritedFd`, if given, as descriptor INHERITED_FD.
 * AppError `internal` when it is not there.
 */
export async function spawnVmm(
  program: string,
  args: readonly string[],
  logPath: string,
  inheritedFd?: number,
): Promise<VmmProcess> {
  await using log = await open(logPath, 'a', 0o600);
  const inherited = inheritedFd === undefined ? [] : [inheritedFd];
  const child = spawn(program, args, {
    detached: true,
    stdio: ['ignore', log.fd, log.fd, ...inherited],
    cwd: '/',
  });
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }));
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', (cause) => {
      reject(
        new AppError('internal', `cannot start ${program}: ${toError(cause).message}; is it installed?`, {
          cause,
        }),
      );
    });
  });
  child.unref();
  const pid = child.pid ?? 0;
  // A child that ended already is a zombie or gone: no signal will find it.
  const startTicks = readStartTicks(pid) ?? -1;
  return { pid, startTicks, ended, signal: (name) => signalProcess({ pid, startTicks }, name) };
}

/** Watches a process that another daemon started; null when it is gone. */
export function watchVmm(pid: number, startTicks: number): VmmProcess | null {
  if (!isRunning({ pid, startTicks })) return null;
  const ended = new Promise<ProcessEnd>((resolve) => {
    const timer = setInterval(() => {
      if (isRunning({ pid, startTicks })) return;
      clearInterval(timer);
      resolve({ exitCode: null, signal: null });
    }, ADOPTED_POLL_MS);
    timer.unref();
  });
  return { pid, startTicks, ended, signal: (name) => signalProcess({ pid, startTicks }, name) };
}
