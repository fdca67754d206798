// Enforces the idle timeout and the minimum rate of a request body (slowloris).
import { MIN_BODY_BYTES_PER_S } from '@sandboxd/api';
import { HttpError } from '../errors.ts';

/** Counts only while the daemon waits for the client, so that a slow guest does not cause a timeout. */
export class BodyPace {
  readonly #idleMs: number;
  readonly #onTimeout: (error: HttpError) => void;
  /** Remaining waiting time. Received bytes add to it at the minimum rate. */
  #leftMs: number;
  #waitingSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `onTimeout` is called once, with HttpError timeout. */
  constructor(idleMs: number, onTimeout: (error: HttpError) => void) {
    this.#idleMs = idleMs;
    this.#leftMs = idleMs;
    this.#onTimeout = onTimeout;
  }

  wait(): void {
    this.#waitingSince ??= performance.now();
    this.#timer ??= setTimeout(() => this.#onTimeout(this.#error()), this.#leftMs);
  }

  /** Bytes arrived; stops the timer. */
  received(sizeBytes: number): void {
    const waitedMs = this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince;
    this.#leftMs = Math.min(
      this.#idleMs,
      Math.max(0, this.#leftMs - waitedMs) + (sizeBytes * 1000) / MIN_BODY_BYTES_PER_S,
    );
    this.stop();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waitingSince = undefined;
  }

  #error(): HttpError {
    const message =
      `the body stopped for ${this.#idleMs} ms, or came at less than ${MIN_BODY_BYTES_PER_S} bytes a second; send ` +
      'it faster';
    return new HttpError('timeout', message);
  }
}
