// Splits a byte stream into length-delimited frames. Allocates only for a frame that spans two chunks.

import { ProtocolViolation } from '../errors.ts';
import { MAX_FRAME_BYTES } from '../limits.ts';

/**
 * Treatment of zero-length frames. `skip`: padding; a frame that ends in a zero byte was truncated and padded, and is
 * dropped. `refuse`: both are protocol violations, because no valid peer pads in this direction, and endless padding
 * would keep the receiver busy.
 */
export type Padding = 'skip' | 'refuse';

/** Splits a byte stream into encoded frames of at most MAX_FRAME_BYTES. */
export class FrameDecoder {
  readonly #onFrame: (encoded: Buffer) => void;
  readonly #padding: Padding;
  #length = 0;
  #shift = 0;
  #partial: Buffer | undefined;
  readonly #isLending: boolean;
  /** With `isLending`: the buffer that assembles each frame that spans chunks, from the first of them on. */
  #sharedBuffer: Buffer | undefined;
  #filled = 0;
  #generation = 0;

  /**
   * `onFrame` gets a view into the pushed chunk, or a separate buffer for a frame that spans chunks. With `isLending`,
   * that buffer is reused after `onFrame` has returned.
   */
  constructor(padding: Padding, onFrame: (encoded: Buffer) => void, isLending = false) {
    this.#padding = padding;
    this.#onFrame = onFrame;
    this.#isLending = isLending;
  }

  /** Minimum number of bytes missing from the current frame; 0 at a frame boundary. */
  get missingBytes(): number {
    if (this.#partial !== undefined) return this.#partial.length - this.#filled;
    return this.#shift === 0 ? 0 : 1;
  }

  /** Drops an unfinished frame. A push in progress (reset called from onFrame) drops the rest of its chunk. */
  reset(): void {
    this.#length = 0;
    this.#shift = 0;
    this.#partial = undefined;
    this.#generation += 1;
  }

  /** Throws ProtocolViolation for a length above the limit, and for padding where it is refused. */
  push(chunk: Buffer): void {
    const generation = this.#generation;
    let at = 0;
    while (at < chunk.length && generation === this.#generation) {
      if (this.#partial !== undefined) {
        at = this.#fill(chunk, at, this.#partial);
        continue;
      }
      const byte = chunk[at++] ?? 0;
      this.#length += (byte & 0x7f) * 2 ** this.#shift;
      if (byte & 0x80) {
        this.#shift += 7;
        if (this.#shift > 21) throw new ProtocolViolation('a frame length has more than four bytes');
        continue;
      }
      const length = this.#length;
      this.#length = 0;
      this.#shift = 0;
      if (length === 0) {
        if (this.#padding === 'refuse') throw new ProtocolViolation('an empty frame');
        continue;
      }
      if (length > MAX_FRAME_BYTES) {
        throw new ProtocolViolation(`a frame of ${length} bytes is over the limit of ${MAX_FRAME_BYTES}`);
      }
      if (at + length <= chunk.length) {
        at += length;
        this.#deliver(chunk.subarray(at - length, at));
      } else {
        this.#partial = this.#takeBuffer(length);
        this.#filled = 0;
      }
    }
  }

  #takeBuffer(length: number): Buffer {
    if (!this.#isLending) return Buffer.allocUnsafe(length);
    this.#sharedBuffer ??= Buffer.allocUnsafeSlow(MAX_FRAME_BYTES);
    return this.#sharedBuffer.subarray(0, length);
  }

  #fill(chunk: Buffer, at: number, partial: Buffer): number {
    const take = Math.min(partial.length - this.#filled, chunk.length - at);
    chunk.copy(partial, this.#filled, at, at + take);
    this.#filled += take;
    if (this.#filled === partial.length) {
      this.#partial = undefined;
      this.#deliver(partial);
    }
    return at + take;
  }

  #deliver(encoded: Buffer): void {
    if (encoded[encoded.length - 1] !== 0) this.#onFrame(encoded);
    else if (this.#padding === 'refuse') throw new ProtocolViolation('a frame that ends in a zero byte');
  }
}
