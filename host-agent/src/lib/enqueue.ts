// Enqueues a task whose wait can be aborted.
import type PQueue from 'p-queue';

/**
 * Runs `task` when the queue has capacity. `signal` aborts only the wait. The queue's own signal option would also
 * abandon a running task before it has rolled back.
 */
export function enqueue<T>(queue: PQueue, task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  const waiting = new AbortController();
  const onAbort = (): void => waiting.abort(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  const begin = (): Promise<T> => {
    signal?.removeEventListener('abort', onAbort);
    return task();
  };
  return queue.add(begin, { signal: waiting.signal });
}
