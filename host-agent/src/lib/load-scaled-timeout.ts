// Limits on what other processes of this host do: they count slower while more wants to run than there are CPUs.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

const TICK_MS = 250;
/** A limit comes in the end, however busy the host is: a VMM may itself be what keeps it so. */
const MAX_TASKS_PER_CPU = 30;

/** How many tasks share one CPU, from 1 to 30; `loadavg` is the content of that file. */
export function parseTasksPerCpu(loadavg: string, cpus: number): number {
  const [lastMinute, , , tasks] = loadavg.split(' ');
  // What runs or waits for a CPU now; the average also has what waits for a disk, but is late.
  const runnable = Number(tasks?.split('/', 1)[0]);
  const crowding = Math.max(Number(lastMinute), runnable) / cpus;
  return Number.isFinite(crowding) ? Math.min(MAX_TASKS_PER_CPU, Math.max(1, crowding)) : 1;
}

function readTasksPerCpu(): number {
  try {
    return parseTasksPerCpu(readFileSync('/proc/loadavg', 'latin1'), availableParallelism());
  } catch {
    return 1;
  }
}

export type LoadScaledTimeoutOptions = {
  /** On a host that is not busy. */
  readonly timeoutMs: number;
  /** What a limit that passed means; `waitedMs` is the time that it really took. */
  readonly reason: (waitedMs: number) => Error;
  readonly outer?: AbortSignal | undefined;
  readonly runnableTasksPerCpu?: () => number;
};

/**
 * A signal that fires when `timeoutMs` were long enough, or with the outer one. A tick counts once, however late it comes:
 * time in which this process itself did not run counts for nothing. Nothing is counted any more after `dispose`.
 */
export function loadScaledTimeout(
  options: LoadScaledTimeoutOptions,
): { readonly signal: AbortSignal } & Disposable {
  const { timeoutMs, reason, outer, runnableTasksPerCpu: crowding = readTasksPerCpu } = options;
  const controller = new AbortController();
  const startedAt = performance.now();
  const tickMs = Math.min(TICK_MS, timeoutMs);
  let leftMs = timeoutMs;
  const timer = setInterval(() => {
    leftMs -= tickMs / crowding();
    if (leftMs > 0) return;
    clearInterval(timer);
    controller.abort(reason(Math.round(performance.now() - startedAt)));
  }, tickMs);
  const signal = outer === undefined ? controller.signal : AbortSignal.any([controller.signal, outer]);
  return { signal, [Symbol.dispose]: () => clearInterval(timer) };
}
