// Reconnects an endless stream after a restart of the daemon, with exponential backoff.
import { ConnectionError, UnavailableError } from '../errors.ts';
import { pause } from './requests.ts';

const FIRST_WAIT_MS = 200;
const MAX_WAIT_MS = 10_000;

export class Reconnect {
  #hasAnswered = false;
  #waitMs = FIRST_WAIT_MS;

  /** Records that the daemon has answered, so that later failures are retried. */
  answered(): void {
    this.#hasAnswered = true;
  }

  /** Records new data, which resets the backoff. */
  progressed(): void {
    this.#waitMs = FIRST_WAIT_MS;
  }

  /** Resolves when it is time to reconnect. Throws permanent errors, and the failure of a first connection. */
  async wait(error: unknown, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const isPassing = error instanceof ConnectionError || error instanceof UnavailableError;
    if (error !== undefined && !(isPassing && this.#hasAnswered)) throw error;
    await pause(this.#waitMs, signal);
    this.#waitMs = Math.min(MAX_WAIT_MS, 2 * this.#waitMs);
  }
}
