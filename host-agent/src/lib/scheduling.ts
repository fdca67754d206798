// How the kernel schedules the daemon and its VMMs where they compete for few cores. `chrt` is part of util-linux.
import { getPriority, setPriority } from 'node:os';
import { runProgram } from './programs.ts';

/** Before guests, which may compute for ever. */
const RAISED_NICENESS = -5;

/** Set while children inherit a scheduling that is not theirs. */
let ownNiceness: number | undefined;

/**
 * Makes the daemon a batch process: it does not preempt who wakes it, and finds more to read. A VMM that loses its core
 * after each 4 KiB that it writes makes a stream a third slower on two cores. So that the daemon need not wait for guests
 * instead, its priority is raised, unless it was given one. Returns why it is not so, where it may not be.
 */
export async function scheduleForThroughput(): Promise<string | undefined> {
  const niceness = getPriority();
  try {
    // First, as it may be refused: a batch process without it would wait for guests.
    if (niceness === 0) setPriority(RAISED_NICENESS);
    ownNiceness = niceness;
    await runProgram('chrt', ['--batch', '--all-tasks', '--pid', '0', String(process.pid)]);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

/** For a process that was started just now and has one thread. */
export function resetPriority(pid: number): void {
  if (ownNiceness === undefined) return;
  try {
    setPriority(pid, ownNiceness);
  } catch {
    // It may have ended already.
  }
}

/** Schedules the first thread of a process as usual, or all that it has so far; others stay batch threads. */
export async function resetScheduling(pid: number, which: 'first-thread' | 'all-threads'): Promise<void> {
  if (ownNiceness === undefined) return;
  const all = which === 'all-threads' ? ['--all-tasks'] : [];
  // It may have ended already.
  await runProgram('chrt', ['--other', ...all, '--pid', '0', String(pid)]).catch(() => undefined);
}
