// How slowly a body may come. Silence ends it, and so does a trickle that never falls silent.
import { MIN_BODY_BYTES_PER_S } from '@sandboxd/api';
import { HttpError } from '../errors.ts';

/** Counts only while the client is waited for, so that a slow guest is not taken for a slow client. */
export class BodyPace {
  readonly #idleMs: number;
  readonly #onLate: (error: HttpError) => void;
  /** What the client may still be waited for; bytes that come give of it back, at the least rate. */
  #leftMs: number;
  #waitingSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `onLate` is called once, with HttpError timeout. */
  constructor(idleMs: number, onLate: (error: HttpError) => void) {
    this.#idleMs = idleMs;
    this.#leftMs = idleMs;
    this.#onLate = onLate;
  }

  wait(): void {
    this.#waitingSince ??= performance.now();
    this.#timer ??= setTimeout(() => this.#onLate(this.#error()), this.#leftMs);
  }

  /** Bytes came, and the client is waited for no more. */
  took(sizeBytes: number): void {
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
    const message = `the body stopped for ${this.#idleMs} ms, or came at less than ${MIN_BODY_BYTES_PER_S} bytes a second; send it faster`;
    return new HttpError('timeout', message);
  }
}
