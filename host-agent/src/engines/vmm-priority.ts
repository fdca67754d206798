// CPU time and disk bandwidth of VMMs when they are scarce.
import { readFile, writeFile } from 'node:fs/promises';
import { getPriority, constants as osConstants, setPriority } from 'node:os';
import { join } from 'node:path';
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
  const niceness = trySync(() => getPriority(pid)) ?? osConstants.priority.PRIORITY_NORMAL;
  // The kernel derives the priority of its disk accesses from it, too.
  trySync(() => setPriority(pid, osConstants.priority.PRIORITY_LOW));
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
