// Time as the supervisor sees it; tests have their own.
import { startTimer } from '@sandboxd/proto';

export type Clock = {
  /** Never goes back. */
  monotonicMs(): number;
  unixMs(): number;
  /** Calls back once; the returned function prevents it. */
  after(delayMs: number, callback: () => void): () => void;
};

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  unixMs: () => Date.now(),
  after: startTimer,
};
