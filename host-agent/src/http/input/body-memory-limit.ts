// Memory for the JSON bodies that are on their way: as much as one may have, all clients together must not.
import { AppError } from '../../lib/errors.ts';

/** Everybody has this much, whatever others send. */
const FREE_BYTES = 64 * 1024;
/** What larger ones have together. */
const SHARED_BYTES = 64 * 1024 * 1024;
const RETRY_AFTER_S = 5;

let sharedBytes = 0;

export class BodyMemoryLimit implements Disposable {
  #sizeBytes = 0;

  /** AppError exhausted when others have too much of it. */
  add(bytes: number): void {
    const before = Math.max(0, this.#sizeBytes - FREE_BYTES);
    const after = Math.max(0, this.#sizeBytes + bytes - FREE_BYTES);
    if (after > before && sharedBytes + after - before > SHARED_BYTES) {
      const message = 'too many large requests are on their way to this daemon; try again later';
      throw new AppError('exhausted', message, { stage: 'request', retryAfterS: RETRY_AFTER_S });
    }
    sharedBytes += after - before;
    this.#sizeBytes += bytes;
  }

  [Symbol.dispose](): void {
    sharedBytes -= Math.max(0, this.#sizeBytes - FREE_BYTES);
    this.#sizeBytes = 0;
  }
}
