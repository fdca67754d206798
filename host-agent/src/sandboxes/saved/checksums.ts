// Takes the checksums of what was saved when nobody waits for them, of one guest after the other.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';
import type { SavedGuest } from './saved-guest.ts';

export class Checksums {
  readonly #queue = new PQueue({ concurrency: 1 });
  readonly #log: Logger;
  readonly #stopping = new AbortController();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Those that a daemon which ended before it came to them has left, too. */
  add(saved: SavedGuest): void {
    void this.#queue.add(() =>
      saved.addChecksums(this.#stopping.signal).catch((error) => {
        this.#log.error({ dir: saved.dir, err: toError(error) }, 'a saved guest has no checksums');
      }),
    );
  }

  /** Resolves when nothing is read or written any more; the next daemon goes on. */
  stop(): Promise<void> {
    this.#stopping.abort();
    return this.#queue.onIdle();
  }
}
