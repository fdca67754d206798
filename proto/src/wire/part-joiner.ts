// Joins the parts of long messages, bounded per stream and per connection.

import { ProtocolViolation } from '../errors.ts';
import { MAX_MESSAGE_BYTES, MAX_PARTS_BYTES, PART_BYTES } from '../limits.ts';
import { type Frame, FrameCodec, type Part } from '../messages.ts';

type Pending = { chunks: Uint8Array[]; sizeBytes: number };

export class PartJoiner {
  readonly #pending = new Map<number, Pending>();
  #heldBytes = 0;

  /** Adds a frame with a part; returns the joined frame with the last one. Throws ProtocolViolation as `add`. */
  join({ stream, part }: Frame): Frame | undefined {
    const { bytes, last } = part as Part;
    const whole = this.add(stream, bytes, last);
    if (whole === undefined) return undefined;
    const joined = FrameCodec.decode(whole);
    if (joined.body === 'part' || joined.stream !== stream) {
      throw new ProtocolViolation('parts that are not one frame of their stream');
    }
    return joined;
  }

  /**
   * Adds one part; returns the complete encoded frame with the last one. Throws ProtocolViolation above the limits, and
   * for a short part that is not the last: many tiny parts would cost far more memory than their bytes.
   */
  add(stream: number, bytes: Uint8Array, isLast: boolean): Buffer | undefined {
    if (isLast ? bytes.length === 0 || bytes.length > PART_BYTES : bytes.length !== PART_BYTES) {
      throw new ProtocolViolation(`a part of ${bytes.length} bytes`);
    }
    const pending = this.#pending.get(stream);
    const sizeBytes = (pending?.sizeBytes ?? 0) + bytes.length;
    if (sizeBytes > MAX_MESSAGE_BYTES || this.#heldBytes + bytes.length > MAX_PARTS_BYTES) {
      throw new ProtocolViolation('the parts of a message are over the limit');
    }
    if (isLast) {
      this.drop(stream);
      return Buffer.concat([...(pending?.chunks ?? []), bytes]);
    }
    this.#heldBytes += bytes.length;
    if (pending === undefined) this.#pending.set(stream, { chunks: [Buffer.from(bytes)], sizeBytes });
    else {
      pending.chunks.push(Buffer.from(bytes));
      pending.sizeBytes = sizeBytes;
    }
    return undefined;
  }

  /** Drops the parts of a stream. */
  drop(stream: number): void {
    const pending = this.#pending.get(stream);
    if (pending === undefined) return;
    this.#pending.delete(stream);
    this.#heldBytes -= pending.sizeBytes;
  }
}
