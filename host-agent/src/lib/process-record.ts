// Records of processes that outlive the daemon: one file each, in a directory that only the daemon writes to. The file
// is written before the process starts, so the next daemon can find the process by what the kernel reports. Its
// arguments are not evidence: any process of the host can set the same.
import { appendFileSync, lstatSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import {
  isRunning,
  listPidsOfUser,
  type ProcessId,
  readBootId,
  readStartTicks,
  signalProcess,
} from './proc.ts';
import { deadline, poll } from './wait.ts';

/** Timeout for a killed process to end. */
const END_TIMEOUT_MS = 5000;
const END_POLL_MS = 5;

/** JSON-safe. */
type ProcessRecord = {
  /** Description for a person who reads the file. */
  readonly what: string;
  /** A user id that only this process has; absent: it runs as the daemon's user. */
  readonly uid?: number | undefined;
  /** What its owner wants to know of it again. */
  readonly about?: unknown;
  /** Absent: the process is about to be started. */
  readonly process?: ProcessId;
};

/** Creates or replaces the record. */
export function writeProcessRecord(path: string, { what, uid, about, process }: ProcessRecord): void {
  const bootId = readBootId();
  writeFileSync(path, `${JSON.stringify({ what, uid, about, bootId })}\n`, { mode: 0o600 });
  if (process !== undefined) noteProcess(path, process);
}

/** Appends the identity of the started process. */
export function noteProcess(path: string, { pid, startTicks }: ProcessId): void {
  appendFileSync(path, `${JSON.stringify({ pid, startTicks })}\n`);
}

export function removeProcessRecord(path: string): void {
  rmSync(path, { force: true });
}

/** Undefined if there is no record of this boot, or the file was not written by a daemon. */
export function readProcessRecord(path: string): ProcessRecord | undefined {
  try {
    const file = lstatSync(path);
    if (!file.isFile() || file.nlink !== 1 || file.uid !== process.geteuid?.()) return undefined;
    const [first = '', second = ''] = readFileSync(path, 'utf8').split('\n');
    const { what, uid, about, bootId } = JSON.parse(first) as ProcessRecord & { readonly bootId: string };
    if (bootId !== readBootId()) return undefined;
    return {
      what,
      uid,
      ...(about !== undefined && { about }),
      ...(second !== '' && { process: JSON.parse(second) as ProcessId }),
    };
  } catch {
    return undefined;
  }
}

/** Running processes of the record: zero or one, or more if the user id was given to other processes as well. */
export function findRecorded({ process, uid }: ProcessRecord): ProcessId[] {
  if (process !== undefined) return isRunning(process) ? [process] : [];
  // The daemon was killed between the start of the process and the update of the record.
  if (uid === undefined) return [];
  return listPidsOfUser(uid).flatMap((pid) => {
    const startTicks = readStartTicks(pid);
    return startTicks === undefined ? [] : [{ pid, startTicks }];
  });
}

/** Whether the record in that file is of this process. */
export function isRecorded(path: string, { pid, startTicks }: ProcessId): boolean {
  const record = readProcessRecord(path);
  if (record === undefined) return false;
  return findRecorded(record).some((each) => each.pid === pid && each.startTicks === startTicks);
}

/**
 * Sends SIGKILL; resolves when the process has ended. Rejects if it does not end, as in uninterruptible disk sleep, so
 * that a daemon start does not hang.
 */
export async function endProcess(target: ProcessId): Promise<void> {
  if (!signalProcess(target, 'SIGKILL')) return;
  const tooLate = () =>
    new Error(`process ${target.pid} was killed and has not ended for ${END_TIMEOUT_MS} ms`);
  using limit = deadline(END_TIMEOUT_MS, tooLate);
  await poll(async () => (isRunning(target) ? undefined : true), END_POLL_MS, limit.signal);
}
