// Computes checksums of saved guests in the background, one guest at a time.
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

  /** Also used for guests that an earlier daemon left without checksums. */
  add(saved: SavedGuest): void {
    void this.#queue.add(() =>
      saved.addChecksums(this.#stopping.signal).catch((error) => {
        this.#log.error(
          { dir: saved.dir, err: toError(error) },
          'cannot compute the checksums of a saved guest',
        );
      }),
    );
  }

  /** Resolves when no file is read or written any more; the next daemon continues. */
  stop(): Promise<void> {
    this.#stopping.abort();
    return this.#queue.onIdle();
  }
}
