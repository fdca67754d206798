// Flow control of a stream's receiver: received and consumed bytes, and the credit to return to the peer.
import { FRAME_CREDIT_BYTES } from '../limits.ts';

/**
 * Share of the window that justifies a credit frame, because each wakes the peer. The remaining credit lets the peer
 * keep sending until the frame arrives.
 */
const RETURN_SHARE = 1 / 2;

export class ReceiveWindow {
  readonly sizeBytes: number;
  /** Credit that the peer has left. */
  #left: number;
  /** Received bytes that are not consumed yet. */
  #heldBytes = 0;
  #heldFrames = 0;
  #due = 0;

  constructor(sizeBytes: number) {
    this.sizeBytes = sizeBytes;
    this.#left = sizeBytes;
  }

  /** Records received payload bytes and frames. False when the peer exceeded its credit. */
  received(bytes: number, frames: number): boolean {
    this.#left -= bytes + frames * FRAME_CREDIT_BYTES;
    this.#heldBytes += bytes;
    this.#heldFrames += frames;
    return this.#left >= 0;
  }

  /** Records consumed bytes. Returns the credit to send now, including the frames' share; 0 for none yet. */
  passedOn(bytes: number): number {
    // At most what was received: excess credit would be a protocol violation for the peer.
    const passed = Math.min(bytes, this.#heldBytes);
    const isAll = passed === this.#heldBytes;
    const frames = isAll ? this.#heldFrames : Math.floor((this.#heldFrames * passed) / this.#heldBytes);
    this.#heldBytes -= passed;
    this.#heldFrames -= frames;
    this.#due += passed + frames * FRAME_CREDIT_BYTES;
    if (this.#due < this.sizeBytes * RETURN_SHARE) return 0;
    const credit = this.#due;
    this.#due = 0;
    this.#left += credit;
    return credit;
  }
}
