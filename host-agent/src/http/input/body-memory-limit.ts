// Limits the memory of JSON bodies that are being received, over all clients.
import { AppError } from '../../lib/errors.ts';

/** Each request may use this much, regardless of other requests. */
const FREE_BYTES = 64 * 1024;
/** Shared by all requests for what exceeds FREE_BYTES. */
const SHARED_BYTES = 64 * 1024 * 1024;
const RETRY_AFTER_S = 5;

let sharedBytes = 0;

export class BodyMemoryLimit implements Disposable {
  #sizeBytes = 0;

  /** AppError exhausted if the shared memory is used up. */
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
