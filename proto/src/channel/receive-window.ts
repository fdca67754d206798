// What a stream has received and passed on, and the credit that its peer is owed for it.
import { FRAME_CREDIT_BYTES } from '../limits.ts';

/**
 * Share of the window that is worth a frame of credit: each wakes the other end. What is held back keeps the other end
 * sending until the frame is there.
 */
const RETURN_SHARE = 1 / 2;

export class ReceiveWindow {
  readonly #sizeBytes: number;
  /** What the peer may still send. */
  #left: number;
  /** Received and not yet passed on. */
  #heldBytes = 0;
  #heldFrames = 0;
  #due = 0;

  constructor(sizeBytes: number) {
    this.#sizeBytes = sizeBytes;
    this.#left = sizeBytes;
  }

  /** So many payload bytes arrived, in so many frames. False when the peer had no credit for them. */
  received(bytes: number, frames: number): boolean {
    this.#left -= bytes + frames * FRAME_CREDIT_BYTES;
    this.#heldBytes += bytes;
    this.#heldFrames += frames;
    return this.#left >= 0;
  }

  /** So many of the bytes were passed on. Gives the credit that is to be sent now, with the frames' share; 0 for none yet. */
  passedOn(bytes: number): number {
    // Never more than was received: credit out of nothing would be a violation at the other end.
    const passed = Math.min(bytes, this.#heldBytes);
    const isAll = passed === this.#heldBytes;
    const frames = isAll ? this.#heldFrames : Math.floor((this.#heldFrames * passed) / this.#heldBytes);
    this.#heldBytes -= passed;
    this.#heldFrames -= frames;
    this.#due += passed + frames * FRAME_CREDIT_BYTES;
    if (this.#due < this.#sizeBytes * RETURN_SHARE) return 0;
    const credit = this.#due;
    this.#due = 0;
    this.#left += credit;
    return credit;
  }
}
