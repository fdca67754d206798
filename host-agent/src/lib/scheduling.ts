// CPU time and memory of the daemon, and of the processes that work for guests, when they are scarce.
import { readdirSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { hostAddon } from '@sandboxd/rootfs-builder';

/** Higher priority than guests, which may use all CPUs. */
const RAISED_NICENESS = -5;

/** Set while children inherit the daemon's scheduling policy and must be reset. */
let ownNiceness: number | undefined;

/**
 * Makes the daemon a SCHED_BATCH process: it does not preempt the process that wakes it, and finds more to read. If a
 * VMM loses its core after each 4 KiB that it writes, a stream is a third slower on two cores. The daemon's priority is
 * raised, unless it was set already, so that it does not wait for guests. Returns the reason if this is not permitted.
 */
export function scheduleForThroughput(): string | undefined {
  const niceness = getPriority();
  try {
    // Before the policy, as it may be refused: a batch process with normal priority would wait for guests.
    if (niceness === 0) setPriority(RAISED_NICENESS);
    ownNiceness = niceness;
    for (const thread of threadsOf(process.pid)) hostAddon().setBatch(thread, true);
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
export function resetScheduling(pid: number, which: 'first-thread' | 'all-threads'): void {
  if (ownNiceness === undefined) return;
  try {
    for (const thread of which === 'all-threads' ? threadsOf(pid) : [pid])
      hostAddon().setBatch(thread, false);
  } catch {
    // The process may have exited already.
  }
}

const threadsOf = (pid: number): number[] => readdirSync(`/proc/${pid}/task`).map(Number);

/** If the host runs out of memory, a guest is killed before the daemon and other programs. */
const OOM_SCORE = 300;

/** Raising the score needs no privilege; if it is refused, the kernel uses its default. */
export function preferForOom(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE));
  } catch {
    // The process may have exited already.
  }
}
