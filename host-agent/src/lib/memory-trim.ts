// Returns memory to the system after a burst of work. V8 collects garbage on allocation, and an idle daemon allocates
// nothing, while its heap limit is large (scripts/build-sandboxd.ts).
import { performance } from 'node:perf_hooks';
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const INTERVAL_MS = 2000;
/** Event loop utilization below which the process counts as idle. A collection takes some tens of milliseconds. */
const MAX_UTILIZATION = 0.05;
/** Consecutive idle intervals before a collection: what it frees, a create in each second would need again. */
const IDLE_INTERVALS = 5;
/** Growth that is worth a collection. */
const GROWTH_BYTES = 8 * 1024 * 1024;

/** Collects garbage once after each busy phase that made the process grow, when it is idle again. */
export class MemoryTrim {
  readonly #timer: NodeJS.Timeout;
  readonly #collect: () => void;
  #utilization = performance.eventLoopUtilization();
  #idleIntervals = 0;
  /** Lowest resident size since the last collection by this class. */
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
    const { utilization } = performance.eventLoopUtilization(this.#utilization, before);
    this.#idleIntervals = utilization > MAX_UTILIZATION ? 0 : this.#idleIntervals + 1;
    if (this.#idleIntervals < IDLE_INTERVALS) return;
    const bytes = readResident();
    if (bytes === undefined) return;
    this.#leastBytes = Math.min(this.#leastBytes, bytes);
    if (bytes - this.#leastBytes < GROWTH_BYTES) return;
    this.#collect();
    this.#leastBytes = readResident() ?? bytes;
  }
}

/** Undefined if no descriptor is left to read it with. */
function readResident(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

/**
 * Returns a function that collects all garbage. V8 returns the memory of the young generation only in a last-resort
 * collection: some 30 MiB after a burst, for a third more time.
 */
export function makeCollector(): () => void {
  // The `gc` function is available only through a flag, which applies to contexts that are created later.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => void;
  return () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
