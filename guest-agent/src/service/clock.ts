// The supervisor's clock; tests use their own.
import { startTimer } from '@sandboxd/proto';

export type Clock = {
  /** Monotonic. */
  monotonicMs(): number;
  unixMs(): number;
  /** Calls back once, unless the returned function is called before. */
  after(delayMs: number, callback: () => void): () => void;
};

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  unixMs: () => Date.now(),
  after: startTimer,
};
