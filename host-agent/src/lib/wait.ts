// Timeouts, polling, and waiting for several promises.
import { setTimeout as sleep } from 'node:timers/promises';

/** Calls `attempt` every `everyMs` until it returns a value; rejects with the signal's reason. */
export async function poll<T>(
  attempt: () => Promise<T | undefined>,
  everyMs: number,
  signal: AbortSignal,
): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    const value = await attempt();
    if (value !== undefined) return value;
    await sleep(everyMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

/** A signal that fires with `reason()` after `timeoutMs`, or with the outer signal. Disposing stops the timer. */
export function deadline(
  timeoutMs: number,
  reason: () => Error,
  outer?: AbortSignal,
): { readonly signal: AbortSignal } & Disposable {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(reason()), timeoutMs);
  const signal = outer === undefined ? controller.signal : AbortSignal.any([controller.signal, outer]);
  return { signal, [Symbol.dispose]: () => clearTimeout(timer) };
}

/** The promise, or a rejection with the signal's reason if that comes first. The work itself continues. */
export function raceSignal<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** Rejects with the first failure, but only after all work has ended: nothing still writes to what is removed next. */
export async function everyOne(work: readonly (Promise<unknown> | undefined)[]): Promise<void> {
  const results = await Promise.allSettled(work);
  const failure = results.find((result) => result.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
}
