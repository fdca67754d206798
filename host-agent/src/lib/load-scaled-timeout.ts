// Timeouts for other processes of this host, which stretch under load: time counts less while there are more runnable
// tasks than CPUs.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

const TICK_MS = 250;
/** The stretch is bounded: a VMM may itself cause the load. */
const MAX_TASKS_PER_CPU = 30;

/** Runnable tasks per CPU, from 1 to 30. `loadavg` is the content of /proc/loadavg. */
export function parseTasksPerCpu(loadavg: string, cpus: number): number {
  const [lastMinute, , , tasks] = loadavg.split(' ');
  // Tasks that run or wait for a CPU now. The load average also counts tasks that wait for a disk, and it lags.
  const runnable = Number(tasks?.split('/', 1)[0]);
  const tasksPerCpu = Math.max(Number(lastMinute), runnable) / cpus;
  return Number.isFinite(tasksPerCpu) ? Math.min(MAX_TASKS_PER_CPU, Math.max(1, tasksPerCpu)) : 1;
}

function readTasksPerCpu(): number {
  try {
    return parseTasksPerCpu(readFileSync('/proc/loadavg', 'latin1'), availableParallelism());
  } catch {
    return 1;
  }
}

type LoadScaledTimeoutOptions = {
  /** The timeout on an idle host. */
  readonly timeoutMs: number;
  /** Creates the error of an expired timeout; `waitedMs` is the elapsed wall-clock time. */
  readonly reason: (waitedMs: number) => Error;
  readonly outer?: AbortSignal | undefined;
  readonly runnableTasksPerCpu?: () => number;
};

/**
 * A signal that fires when the scaled `timeoutMs` has passed, or with the outer signal. A tick counts once, however
 * late it comes, so time in which this process was not scheduled does not count. Disposing stops the timer.
 */
export function loadScaledTimeout(
  options: LoadScaledTimeoutOptions,
): { readonly signal: AbortSignal } & Disposable {
  const { timeoutMs, reason, outer, runnableTasksPerCpu = readTasksPerCpu } = options;
  const controller = new AbortController();
  const startedAt = performance.now();
  const tickMs = Math.min(TICK_MS, timeoutMs);
  let leftMs = timeoutMs;
  const timer = setInterval(() => {
    leftMs -= tickMs / runnableTasksPerCpu();
    if (leftMs > 0) return;
    clearInterval(timer);
    controller.abort(reason(Math.round(performance.now() - startedAt)));
  }, tickMs);
  const signal = outer === undefined ? controller.signal : AbortSignal.any([controller.signal, outer]);
  return { signal, [Symbol.dispose]: () => clearInterval(timer) };
}
