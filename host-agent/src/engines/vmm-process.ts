// A VMM process: its own session so that it outlives us, its end observed.
import { constants, writeFileSync } from 'node:fs';
import { AppError, toError } from '../lib/errors.ts';
import { isRunning, listInheritable, readStartTicks, signalProcess } from '../lib/proc.ts';
import { startProgram } from '../lib/programs.ts';
import { resetPriority } from '../lib/scheduling.ts';
import { openRegular } from '../lib/untrusted-path.ts';

const { O_WRONLY, O_APPEND, O_CREAT } = constants;

/** How often a process that is not our child is looked at. */
const ADOPTED_POLL_MS = 250;
/** The same when its end is expected at any moment. */
const ENDING_POLL_MS = 5;

export type ProcessEnd = { readonly exitCode: number | null; readonly signal: string | null };

export interface VmmProcess {
  readonly pid: number;
  readonly startTicks: number;
  /** Its exit code and signal are known only of one that we started. */
  readonly ended: Promise<ProcessEnd>;
  /** False when it is gone already. */
  signal(name: NodeJS.Signals): boolean;
  /** It may have ended just now. */
  look(): void;
  /** Its end is not watched any more. */
  detach(): void;
}

/** When the host has no memory left, a guest goes before the daemon and before others' programs. */
const OOM_SCORE = 300;

/** Number under which the process finds the first descriptor that it inherits; the others follow. */
export const FIRST_INHERITED_FD = 3;

export type SpawnOptions = {
  /** Become descriptors FIRST_INHERITED_FD and up, in this order. */
  readonly inheritedFds?: readonly number[];
  /** What the process finds as its own name, instead of the program's path. */
  readonly argv0?: string;
};

/**
 * Descriptors that the program would get without being meant to: the store's, which its library opens so, and what our own
 * parent left open. They are there before the first VMM is, and stay.
 */
let strays: readonly number[] | undefined;

/** What the program finds under each number; a stray's is the log's once more. */
export function layOut(
  log: number,
  inherited: readonly number[],
  strays: readonly number[],
): (number | 'ignore')[] {
  const stdio: (number | 'ignore')[] = ['ignore', log, log];
  for (const fd of strays) stdio[fd] = log;
  for (const [index, fd] of inherited.entries()) stdio[FIRST_INHERITED_FD + index] = fd;
  return Array.from(stdio, (fd) => fd ?? 'ignore');
}

/** Starts the program with stdout and stderr in a log file. AppError `internal` when it is not there. */
export async function spawnVmm(
  program: string,
  args: readonly string[],
  logPath: string,
  options: SpawnOptions = {},
): Promise<VmmProcess> {
  const { inheritedFds = [], argv0 } = options;
  await using log = await openRegular(logPath, O_WRONLY | O_APPEND | O_CREAT);
  strays ??= listInheritable();
  const child = startProgram(program, args, {
    detached: true,
    stdio: layOut(log.fd, inheritedFds, strays),
    ...(argv0 !== undefined && { argv0 }),
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
  resetPriority(pid);
  preferForOom(pid);
  // A child that ended already is a zombie or gone: no signal will find it.
  const startTicks = readStartTicks(pid) ?? -1;
  return {
    pid,
    startTicks,
    ended,
    signal: (name) => signalProcess({ pid, startTicks }, name),
    look: () => undefined,
    detach: () => child.removeAllListeners('exit'),
  };
}

/** Raising it needs no privilege; where it is refused, the kernel chooses as it likes. */
function preferForOom(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE));
  } catch {
    // It may have ended already.
  }
}

/** Watches a process that another daemon started; null when it is gone. */
export function watchVmm(pid: number, startTicks: number): VmmProcess | null {
  if (!isRunning({ pid, startTicks })) return null;
  let timer: NodeJS.Timeout | undefined;
  let everyMs = ADOPTED_POLL_MS;
  let look = (): void => undefined;
  const ended = new Promise<ProcessEnd>((resolve) => {
    look = () => {
      clearTimeout(timer);
      if (isRunning({ pid, startTicks })) timer = setTimeout(look, everyMs).unref();
      else resolve({ exitCode: null, signal: null });
    };
    look();
  });
  return {
    pid,
    startTicks,
    ended,
    signal: (name) => {
      // Its end is waited for now.
      everyMs = ENDING_POLL_MS;
      const isSent = signalProcess({ pid, startTicks }, name);
      look();
      return isSent;
    },
    look: () => {
      everyMs = ENDING_POLL_MS;
      look();
    },
    detach: () => clearTimeout(timer),
  };
}
