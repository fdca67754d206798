// Collects chunks in one growing buffer. An array of small chunks would cost hundreds of bytes of overhead per chunk.

const FIRST_BYTES = 1024;

export class GrowingBuffer {
  #block = Buffer.alloc(0);
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** The collected bytes. Nothing may be added after this call. */
  get bytes(): Buffer {
    return this.#block.subarray(0, this.#sizeBytes);
  }

  add(chunk: Uint8Array): void {
    const neededBytes = this.#sizeBytes + chunk.length;
    if (neededBytes > this.#block.length) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 * this.#sizeBytes, neededBytes));
      larger.set(this.bytes);
      this.#block = larger;
    }
    this.#block.set(chunk, this.#sizeBytes);
    this.#sizeBytes = neededBytes;
  }
}
