// The guest's first bytes on a connection. A virtio-serial port has no connections: after a restore or a restart of the
// host agent, the host may receive the tail of an old frame, and skips to this mark. The mark contains the nonce of the
// last hello, so no program in the guest can have written it before.
import { ProtocolViolation } from '../errors.ts';

const MAGIC = Buffer.from('\nSBXSYNC1', 'latin1');

export function syncMark(nonce: Uint8Array): Buffer {
  return Buffer.concat([MAGIC, nonce]);
}

/** Finds the mark in a byte stream, across chunk boundaries. */
export class SyncScanner {
  readonly #mark: Buffer;
  readonly #limitBytes: number;
  #tail: Buffer = Buffer.alloc(0);
  #seenBytes = 0;

  /** Throws ProtocolViolation after `limitBytes` without the mark. */
  constructor(nonce: Uint8Array, limitBytes: number) {
    this.#mark = syncMark(nonce);
    this.#limitBytes = limitBytes;
  }

  /** Returns the bytes after the mark once it was found. */
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
