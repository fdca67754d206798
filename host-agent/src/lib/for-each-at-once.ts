// Work on many items with a bounded number at a time, which also bounds how many are read ahead.

/**
 * Resolves when all are done. The first failure stops it: no further item begins, those that run get an aborted signal,
 * and it rejects with that failure once they have ended.
 */
export async function forEachAtOnce<T>(
  items: AsyncIterable<T> | Iterable<T>,
  atOnce: number,
  work: (item: T, signal: AbortSignal) => Promise<void>,
  outer?: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const signal = outer === undefined ? stop.signal : AbortSignal.any([stop.signal, outer]);
  const running = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const fail = (error: unknown): void => {
    failure ??= { error };
    stop.abort(error);
  };
  const start = (item: T): void => {
    const task = work(item, signal)
      .catch(fail)
      .finally(() => running.delete(task));
    running.add(task);
  };
  try {
    for await (const item of items) {
      if (signal.aborted) break;
      start(item);
      while (running.size >= atOnce) await Promise.race(running);
    }
  } catch (error) {
    fail(error);
  }
  await Promise.all(running);
  outer?.throwIfAborted();
  if (failure !== undefined) throw failure.error;
}
