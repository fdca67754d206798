// What goes on for ever outlives a restart of the daemon: it asks again, and waits twice as long each time.
import { ConnectionError, UnavailableError } from '../errors.ts';
import { pause } from './requests.ts';

const FIRST_WAIT_MS = 200;
const MAX_WAIT_MS = 10_000;

export class Comeback {
  #wasThere = false;
  #waitMs = FIRST_WAIT_MS;

  /** It answered: from now on it is waited for. */
  answered(): void {
    this.#wasThere = true;
  }

  /** What it sends is new: the next wait is short. */
  progressed(): void {
    this.#waitMs = FIRST_WAIT_MS;
  }

  /** Resolves when it is time to ask again. Throws what no waiting mends, a daemon that never was there included. */
  async wait(error: unknown, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const isPassing = error instanceof ConnectionError || error instanceof UnavailableError;
    if (error !== undefined && !(isPassing && this.#wasThere)) throw error;
    await pause(this.#waitMs, signal);
    this.#waitMs = Math.min(MAX_WAIT_MS, 2 * this.#waitMs);
  }
}
