// CPU scheduling of the daemon and its VMMs when cores are scarce. `chrt` is part of util-linux.
import { getPriority, setPriority } from 'node:os';
import { runProgram } from './programs.ts';

/** Higher priority than guests, which may use all CPUs. */
const RAISED_NICENESS = -5;

/** Set while children inherit the daemon's scheduling policy and must be reset. */
let ownNiceness: number | undefined;

/**
 * Makes the daemon a SCHED_BATCH process: it does not preempt the process that wakes it, and finds more to read. If a
 * VMM loses its core after each 4 KiB that it writes, a stream is a third slower on two cores. The daemon's priority is
 * raised, unless it was set already, so that it does not wait for guests. Returns the reason if this is not permitted.
 */
export async function scheduleForThroughput(): Promise<string | undefined> {
  const niceness = getPriority();
  try {
    // Before the policy, as it may be refused: a batch process with normal priority would wait for guests.
    if (niceness === 0) setPriority(RAISED_NICENESS);
    ownNiceness = niceness;
    await runProgram('chrt', ['--batch', '--all-tasks', '--pid', '0', String(process.pid)]);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

/** For a newly started process with one thread. */
export function resetPriority(pid: number): void {
  if (ownNiceness === undefined) return;
  try {
    setPriority(pid, ownNiceness);
  } catch {
    // The process may have exited already.
  }
}

/** Resets the policy of the first thread, or of all existing threads, to SCHED_OTHER. */
export async function resetScheduling(pid: number, which: 'first-thread' | 'all-threads'): Promise<void> {
  if (ownNiceness === undefined) return;
  const all = which === 'all-threads' ? ['--all-tasks'] : [];
  // The process may have exited already.
  await runProgram('chrt', ['--other', ...all, '--pid', '0', String(pid)]).catch(() => undefined);
}
