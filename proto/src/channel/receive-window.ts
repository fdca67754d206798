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

  /** Credit that is due to the peer and not yet worth a frame. */
  get due(): number {
    return this.#due;
  }

  /** From how much on it is. */
  get worth(): number {
    return this.#sizeBytes * RETURN_SHARE;
  }

  /** So many payload bytes arrived, in so many frames. False when the peer had no credit for them. */
  received(bytes: number, frames: number): boolean {
    this.#left -= bytes + frames * FRAME_CREDIT_BYTES;
    this.#heldBytes += bytes;
    this.#heldFrames += frames;
    return this.#left >= 0;
  }

  /** So many of them were passed on. Gives the credit that is to be sent now, with the frames' share; 0 for none yet. */
  passedOn(bytes: number): number {
    // Never more than was received: credit out of nothing would be a violation at the other end.
    const passed = Math.min(bytes, this.#heldBytes);
    const isAll = passed === this.#heldBytes;
    const frames = isAll ? this.#heldFrames : Math.floor((this.#heldFrames * passed) / this.#heldBytes);
    this.#heldBytes -= passed;
    this.#heldFrames -= frames;
    this.#due += passed + frames * FRAME_CREDIT_BYTES;
    if (this.#due < this.worth) return 0;
    const credit = this.#due;
    this.returned(credit);
    return credit;
  }

  /** So much credit was sent. */
  returned(credit: number): void {
    this.#due -= credit;
    this.#left += credit;
  }
}
