// A process of a sandbox's network, under a user id of its own. A record that the daemon writes before the start
// identifies it later. It outlives the daemon and ends with the sandbox.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Duplex } from 'node:stream';
import { AppError, errnoOf } from '../lib/errors.ts';
import { type ProcessId, readStartTicks } from '../lib/proc.ts';
import {
  endProcess,
  findRecorded,
  noteProcess,
  readProcessRecord,
  removeProcessRecord,
  writeProcessRecord,
} from '../lib/process-record.ts';
import { startProgram } from '../lib/programs.ts';
import { preferForOom, resetPriority } from '../lib/scheduling.ts';
import { deadline, raceSignal } from '../lib/wait.ts';

/** Of its control group; threads are processes as well. */
export type HeldLimits = { readonly memoryMib: number; readonly threads: number };

/** Allocates user ids that no other process of the host has. */
export type Users = {
  /** For the process of that record. AppError exhausted. */
  take(record: string): Promise<number>;
  /** A control group for a process of that user id, which `giveBack` removes; undefined: this host has none. */
  group(uid: number, limits: HeldLimits): Promise<string | undefined>;
  /** Marks the user id as used by that process. */
  handOver(uid: number, holder: ProcessId): Promise<void>;
  /** `holder`: only if it is still marked as used by that process. */
  giveBack(uid: number, holder?: ProcessId): Promise<void>;
};

/** A machine that is busy may take seconds. */
const READY_TIMEOUT_MS = 10_000;

type HeldOptions = {
  readonly program: string;
  readonly argv0: string;
  /** Path of the process record; its directory is created. */
  readonly record: string;
  readonly users: Users;
  /** Absent: those of the daemon. */
  readonly limits?: HeldLimits;
  /** What the next daemon wants to know of it. */
  readonly about?: unknown;
  readonly toArguments: (uid: number) => readonly string[];
  /** Gets a connection to its descriptor 3, where given. */
  readonly onChannel?: (channel: Duplex) => void;
  /** From what it reported before it ended. */
  readonly toError: (errorText: string) => AppError;
};

/** Resolves with its user id when it is ready. Rejects with the error of `toError`, or AppError exhausted, internal. */
export async function startHeld(options: HeldOptions): Promise<number> {
  const { program, argv0, record, users, limits, about, toArguments, onChannel, toError } = options;
  const uid = await users.take(record);
  try {
    const group = limits && (await users.group(uid, limits));
    await mkdir(dirname(record), { recursive: true, mode: 0o700 });
    writeProcessRecord(record, { what: argv0, uid, about });
    const child = startProgram(program, toArguments(uid), {
      argv0,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', onChannel === undefined ? 'ignore' : 'pipe'],
    });
    // 0 would be the daemon itself.
    if (group !== undefined && child.pid !== undefined) joinGroup(group, child.pid);
    const channel = child.stdio[3];
    if (channel instanceof Duplex) onChannel?.(channel);
    const pid = child.pid ?? 0;
    // What it does is up to guests and clients, as with a VMM.
    if (pid > 0) {
      resetPriority(pid);
      preferForOom(pid);
    }
    // If the process has exited already, its error message is read below.
    const process = { pid, startTicks: readStartTicks(pid) ?? -1 };
    noteProcess(record, process);
    await waitUntilReady(child, toError);
    await users.handOver(uid, process);
    return uid;
  } catch (error) {
    // What cannot be ended keeps its record and its user id; why it failed is what the caller should know.
    await undoStart(record, uid, users).catch(() => undefined);
    throw error;
  }
}

async function undoStart(record: string, uid: number, users: Users): Promise<void> {
  await Promise.all(findHeld(record).map(endProcess));
  await removeRecord(record);
  await users.giveBack(uid);
}

/** What it has used before stays the daemon's. */
function joinGroup(group: string, pid: number): void {
  try {
    writeFileSync(join(group, 'cgroup.procs'), String(pid));
  } catch (error) {
    // One that has exited already has a reason of its own.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}

async function waitUntilReady(child: ChildProcess, toError: HeldOptions['toError']): Promise<void> {
  const { stdout, stderr } = child;
  if (stdout === null || stderr === null) throw new AppError('internal', `${child.spawnfile} has no output`);
  child.unref();
  let output = '';
  let errorText = '';
  stdout.on('data', (text) => {
    output += text;
  });
  stderr.on('data', (text) => {
    errorText += text;
  });
  const failed = new Promise<never>((_, reject) => {
    child.once('error', (cause) =>
      reject(new AppError('internal', `cannot start ${child.spawnfile}: ${cause.message}`)),
    );
    child.once('close', () => {
      if (!output.includes('ready')) reject(toError(errorText.trim()));
    });
  });
  const tooLate = () => new AppError('internal', `${child.spawnfile} was not ready in time`);
  using limit = deadline(READY_TIMEOUT_MS, tooLate);
  try {
    await raceSignal(Promise.race([once(stdout, 'data'), failed]), limit.signal);
  } finally {
    stdout.destroy();
    stderr.destroy();
  }
}

const [CONTROL, GATE] = ['.control', '.gate'];

/** The socket that controls it, beside its record. */
export function controlOf(record: string): string {
  return `${record}${CONTROL}`;
}

/** The socket where a gateway reaches it. */
export function gateOf(record: string): string {
  return `${record}${GATE}`;
}

export function isControl(path: string): boolean {
  return path.endsWith(CONTROL) || path.endsWith(GATE);
}

async function removeRecord(record: string): Promise<void> {
  await rm(controlOf(record), { force: true });
  await rm(gateOf(record), { force: true });
  removeProcessRecord(record);
}

/** Resolves when it has ended. Rejects if a process does not end. */
export async function endHeld(record: string, users: Users): Promise<void> {
  const { uid, process } = readProcessRecord(record) ?? {};
  const held = findHeld(record);
  for (const each of held) await endProcess(each);
  await removeRecord(record);
  if (uid === undefined) return;
  // If none was running, its user id may already have been given to another process.
  if (held.length > 0) await users.giveBack(uid);
  else if (process !== undefined) await users.giveBack(uid, process);
}

/** Whether a process of this run directory runs. */
export function isHeld(record: string): boolean {
  return findHeld(record).length > 0;
}

function findHeld(path: string): ProcessId[] {
  const record = readProcessRecord(path);
  return record === undefined ? [] : findRecorded(record);
}
