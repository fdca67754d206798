// CPU time and disk bandwidth of the daemon and its VMMs when they are scarce.
import { readdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { constants, getPriority, setPriority } from 'node:os';
import { join } from 'node:path';
import { hostAddon } from '@sandboxd/rootfs-builder';
import { isRunning, listThreads } from '../lib/proc.ts';
import type { VmmIdentity } from './engine.ts';

/** Longer than this no VMM has low priority: on a host that is always busy, its work would never be done. */
const MAX_LOW_MS = 60_000;
/** Weights of its cgroup, for CPU time and for the disk; ordinary ones are 100 and more. */
const WEIGHT_FILES = ['cpu.weight', 'io.weight'];
const LOWEST_WEIGHT = '1';

/**
 * Gives a newly started VMM, which has one thread, the least CPU time and disk bandwidth while others want them; an
 * ordinary priority again after a minute.
 */
export async function lowerPriority(identity: VmmIdentity): Promise<void> {
  if (!isRunning(identity)) return;
  const { pid } = identity;
  const niceness = trySync(() => getPriority(pid)) ?? constants.priority.PRIORITY_NORMAL;
  // The kernel derives the priority of its disk accesses from it, too.
  trySync(() => setPriority(pid, constants.priority.PRIORITY_LOW));
  const weights = await lowerWeights(identity);
  const restore = async (): Promise<void> => {
    if (!isRunning(identity)) return;
    for (const thread of listThreads(pid)) trySync(() => setPriority(thread, niceness));
    for (const [path, value] of weights) await writeFile(path, value).catch(() => undefined);
  };
  setTimeout(() => void restore(), MAX_LOW_MS).unref();
}

/** The weights that its cgroup had, by path; without those that this host does not have. */
async function lowerWeights({ jail }: VmmIdentity): Promise<Map<string, string>> {
  const before = new Map<string, string>();
  if (jail?.cgroup === undefined) return before;
  for (const name of WEIGHT_FILES) {
    const path = join(jail.cgroup, name);
    try {
      const value = (await readFile(path, 'latin1')).trim();
      await writeFile(path, LOWEST_WEIGHT);
      before.set(path, value);
    } catch {
      // The controller is missing, or the process has exited already.
    }
  }
  return before;
}

/** Undefined if the process has exited already. */
function trySync<T>(change: () => T): T | undefined {
  try {
    return change();
  } catch {
    return undefined;
  }
}

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
