// A VMM process. It has its own session, so that it outlives the daemon; its exit is observed. Its record is written
// before it starts, so that the next daemon finds it.
import { constants, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { AppError, toError } from '../lib/errors.ts';
import { isRunning, listInheritable, readStartTicks, signalProcess } from '../lib/proc.ts';
import { findRecorded, readProcessRecord, removeProcessRecord } from '../lib/process-record.ts';
import { startProgram } from '../lib/programs.ts';
import { preferForOom, resetPriority } from '../lib/scheduling.ts';
import { openRegular } from '../lib/untrusted-path.ts';
import type { VmmKind } from './control.ts';
import type { FoundVmm, VmPaths } from './engine.ts';

const { O_WRONLY, O_APPEND, O_CREAT } = constants;

/** Poll interval for a process that is not our child. */
const ADOPTED_POLL_MS = 250;
/** Poll interval when its exit is expected at any moment. */
const ENDING_POLL_MS = 5;

export type ProcessEnd = { readonly exitCode: number | null; readonly signal: string | null };

export interface VmmProcess {
  readonly pid: number;
  readonly startTicks: number;
  /** Exit code and signal are known only for a process that we started. */
  readonly ended: Promise<ProcessEnd>;
  /** False if it has exited already. */
  signal(name: NodeJS.Signals): boolean;
  /** The process may have exited: check now. */
  poll(): void;
  /** Stops observing its exit. */
  detach(): void;
}

/** Number of the first inherited descriptor in the process; the others follow. */
export const FIRST_INHERITED_FD = 3;

type SpawnOptions = {
  /** Become descriptors FIRST_INHERITED_FD and up, in this order. */
  readonly inheritedFds?: readonly number[];
  /** argv[0] of the process, instead of the program's path. */
  readonly argv0?: string;
};

/**
 * Descriptors that the program would inherit by accident: the registry's, which its library opens without
 * close-on-exec, and those that our parent left open. They exist before the first VMM, and stay.
 */
let strays: readonly number[] | undefined;

/** The program's descriptors by number; each stray one is replaced by the log. */
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

/** Starts the program with stdout and stderr in a log file. AppError `internal` if it does not exist. */
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
  // A child that has exited already is a zombie or gone: no signal will reach it.
  const startTicks = readStartTicks(pid) ?? -1;
  return {
    pid,
    startTicks,
    ended,
    signal: (name) => signalProcess({ pid, startTicks }, name),
    poll: () => undefined,
    detach: () => child.removeAllListeners('exit'),
  };
}

/** Watches a process that another daemon started; null if it has exited. */
export function watchVmm(pid: number, startTicks: number): VmmProcess | null {
  if (!isRunning({ pid, startTicks })) return null;
  let timer: NodeJS.Timeout | undefined;
  let everyMs = ADOPTED_POLL_MS;
  let poll = (): void => undefined;
  const ended = new Promise<ProcessEnd>((resolve) => {
    poll = () => {
      clearTimeout(timer);
      if (isRunning({ pid, startTicks })) timer = setTimeout(poll, everyMs).unref();
      else resolve({ exitCode: null, signal: null });
    };
    poll();
  });
  return {
    pid,
    startTicks,
    ended,
    signal: (name) => {
      // Its exit is expected now.
      everyMs = ENDING_POLL_MS;
      const isSent = signalProcess({ pid, startTicks }, name);
      poll();
      return isSent;
    },
    poll: () => {
      everyMs = ENDING_POLL_MS;
      poll();
    },
    detach: () => clearTimeout(timer),
  };
}

const SUFFIX = '.vmm';
/** Sockets of a probe are in `<run-dir>/probe/<trial>`. */
const DEPTH = 2;

/** Beside the socket directory, which the VMM may own for a while; the directory above belongs to the daemon only. */
export function vmmRecordPath({ socketDir }: Pick<VmPaths, 'socketDir'>): string {
  return `${socketDir}${SUFFIX}`;
}

/**
 * Running VMMs of this kind whose socket directory is in `dir`, found by their records. The record of a VMM that has
 * exited is removed.
 */
export function findVmms({ name }: Pick<VmmKind, 'name'>, dir: string): FoundVmm[] {
  return listRecords(dir, DEPTH).flatMap((path) => {
    const record = readProcessRecord(path);
    if (record?.what !== name) return [];
    const found = findRecorded(record);
    if (found.length === 0) removeProcessRecord(path);
    return found.map((process) => ({ ...process, socketDir: path.slice(0, -SUFFIX.length) }));
  });
}

function listRecords(dir: string, depth: number): string[] {
  return listNames(dir).flatMap((name) => {
    const path = join(dir, name);
    if (name.endsWith(SUFFIX)) return [path];
    return depth > 0 && lstatSync(path, { throwIfNoEntry: false })?.isDirectory()
      ? listRecords(path, depth - 1)
      : [];
  });
}

function listNames(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
