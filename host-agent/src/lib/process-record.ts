// Processes of ours that outlive the daemon, each by a file in a directory that only the daemon writes to. The file is there before
// the process is, so that the next daemon finds it by what the kernel says of it. What it says of itself, its arguments, counts
// for nothing: any process of the host can say the same.
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

/** Most that a process may take to end that was killed. */
const END_TIMEOUT_MS = 5000;
const END_POLL_MS = 5;

/** JSON-safe. */
export type ProcessRecord = {
  /** What it is, for who reads the file. */
  readonly what: string;
  /** A user that only this process has; absent: it has the daemon's. */
  readonly uid?: number | undefined;
  /** Absent: it is about to be started. */
  readonly process?: ProcessId;
};

/** Makes or replaces the record. */
export function writeProcessRecord(path: string, { what, uid, process }: ProcessRecord): void {
  writeFileSync(path, `${JSON.stringify({ what, uid, bootId: readBootId() })}\n`, { mode: 0o600 });
  if (process !== undefined) noteProcess(path, process);
}

/** It has been started. */
export function noteProcess(path: string, { pid, startTicks }: ProcessId): void {
  appendFileSync(path, `${JSON.stringify({ pid, startTicks })}\n`);
}

export function removeProcessRecord(path: string): void {
  rmSync(path, { force: true });
}

/** Undefined where there is none of this boot of the host, or what is there was not written by a daemon. */
export function readProcessRecord(path: string): ProcessRecord | undefined {
  try {
    const file = lstatSync(path);
    if (!file.isFile() || file.nlink !== 1 || file.uid !== process.geteuid?.()) return undefined;
    const [first = '', second = ''] = readFileSync(path, 'utf8').split('\n');
    const { what, uid, bootId } = JSON.parse(first) as ProcessRecord & { readonly bootId: string };
    if (bootId !== readBootId()) return undefined;
    return { what, uid, ...(second !== '' && { process: JSON.parse(second) as ProcessId }) };
  } catch {
    return undefined;
  }
}

/** What still runs of it: none or one, but for a user that somebody gave to others. */
export function findRecorded({ process, uid }: ProcessRecord): ProcessId[] {
  if (process !== undefined) return isRunning(process) ? [process] : [];
  // Its daemon was killed in the moment in which it started it.
  if (uid === undefined) return [];
  return listPidsOfUser(uid).flatMap((pid) => {
    const startTicks = readStartTicks(pid);
    return startTicks === undefined ? [] : [{ pid, startTicks }];
  });
}

/** SIGKILL; resolves when it is gone. Rejects when it does not end, as one may that waits for a disk: a start does not wait for that. */
export async function endProcess(target: ProcessId): Promise<void> {
  if (!signalProcess(target, 'SIGKILL')) return;
  const tooLate = () =>
    new Error(`process ${target.pid} was killed and has not ended for ${END_TIMEOUT_MS} ms`);
  using limit = deadline(END_TIMEOUT_MS, tooLate);
  await poll(async () => (isRunning(target) ? undefined : true), END_POLL_MS, limit.signal);
}
