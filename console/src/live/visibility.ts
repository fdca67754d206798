// Whether the page can be seen. A hidden tab sends nothing.
import { Store } from './store.ts';

export const isVisible = new Store(!document.hidden);
document.addEventListener('visibilitychange', () => isVisible.set(!document.hidden));

/** Runs `work` while the page is visible, from the start each time; returns how to end it. */
export function whileVisible(work: (signal: AbortSignal) => Promise<void>): () => void {
  let running: AbortController | undefined;
  const update = (): void => {
    if (isVisible.value && running === undefined) {
      running = new AbortController();
      const { signal } = running;
      work(signal).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
    } else if (!isVisible.value) {
      running?.abort();
      running = undefined;
    }
  };
  const leave = isVisible.subscribe(update);
  update();
  return () => {
    leave();
    running?.abort();
  };
}

/** Resolves after a time; rejects when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
