// Waiting for a turn in a queue, for as long as somebody wants it.
import type PQueue from 'p-queue';

/**
 * Runs `task` when the queue has room. `signal` ends the waiting only: the queue's own signal would give up a task that
 * runs, too, before it has undone what it began.
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
