// Gives memory back that a burst of work has left as garbage: V8 collects by what is allocated, and an idle daemon
// allocates nothing, while its heap may grow far before it does (scripts/build-sandboxd.ts).
import { performance } from 'node:perf_hooks';
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const INTERVAL_MS = 2000;
/** Of an interval; whoever uses less can wait for a collection, which is some tens of milliseconds. */
const MAX_UTILIZATION = 0.05;
/** Worth a collection. */
const GROWTH_BYTES = 8 * 1024 * 1024;

/** Collects once after each time of work that made the process grow, when nothing is asked of it any more. */
export class MemoryTrim {
  readonly #timer: NodeJS.Timeout;
  readonly #collect: () => void;
  #utilization = performance.eventLoopUtilization();
  /** Resident, since the last collection of this one. */
  #leastBytes = 0;

  constructor(collect = makeCollector(), intervalMs = INTERVAL_MS) {
    this.#collect = collect;
    this.#timer = setInterval(() => this.#check(), intervalMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    const before = this.#utilization;
    this.#utilization = performance.eventLoopUtilization();
    if (performance.eventLoopUtilization(this.#utilization, before).utilization > MAX_UTILIZATION) return;
    const bytes = readResident();
    if (bytes === undefined) return;
    this.#leastBytes = Math.min(this.#leastBytes, bytes);
    if (bytes - this.#leastBytes < GROWTH_BYTES) return;
    this.#collect();
    this.#leastBytes = readResident() ?? bytes;
  }
}

/** Undefined when there is no descriptor left to read it with. */
function readResident(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

/**
 * Returns what collects all garbage, and returns when nothing of it is left to find. V8 gives the room that young objects had back only
 * as its last resort: some 30 MiB after a burst, for a third more time.
 */
export function makeCollector(): () => void {
  // There is no other way to have it than a flag, which contexts obey that are made after it.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  return () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
