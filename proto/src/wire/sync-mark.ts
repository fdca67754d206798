// The guest's first bytes on a connection. A virtio-serial port has no connections of its own: after a restore or a
// restart of the host agent the host may still receive the tail of an old frame, and skips to this mark. It holds the
// nonce of the hello just sent, so no program in the guest could have written it before.
import { ProtocolViolation } from '../errors.ts';

const MAGIC = Buffer.from('\nSBXSYNC1', 'latin1');

export function syncMark(nonce: Uint8Array): Buffer {
  return Buffer.concat([MAGIC, nonce]);
}

/** Finds the mark in a byte stream that is split anyhow. */
export class SyncScanner {
  readonly #mark: Buffer;
  readonly #limitBytes: number;
  #tail: Buffer = Buffer.alloc(0);
  #seenBytes = 0;

  /** Gives up (ProtocolViolation) after `limitBytes` without the mark. */
  constructor(nonce: Uint8Array, limitBytes: number) {
    this.#mark = syncMark(nonce);
    this.#limitBytes = limitBytes;
  }

  /** Returns the bytes behind the mark once it was seen. */
  push(chunk: Buffer): Buffer | undefined {
    const text = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    const at = text.indexOf(this.#mark);
    if (at >= 0) return text.subarray(at + this.#mark.length);
    this.#seenBytes += chunk.length;
    if (this.#seenBytes > this.#limitBytes) {
      throw new ProtocolViolation(`no sync mark within ${this.#limitBytes} bytes`);
    }
    this.#tail = Buffer.from(text.subarray(Math.max(0, text.length - this.#mark.length + 1)));
    return undefined;
  }
}
