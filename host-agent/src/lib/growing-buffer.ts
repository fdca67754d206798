// Bytes that are collected until all are there, however small the pieces are that they come in: each of those costs hundreds of
// bytes beside its own.

const FIRST_BYTES = 1024;

export class GrowingBuffer {
  #block = Buffer.alloc(0);
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** What was added; it is not to be added to after that. */
  get bytes(): Buffer {
    return this.#block.subarray(0, this.#sizeBytes);
  }

  add(piece: Uint8Array): void {
    const neededBytes = this.#sizeBytes + piece.length;
    if (neededBytes > this.#block.length) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 * this.#sizeBytes, neededBytes));
      larger.set(this.bytes);
      this.#block = larger;
    }
    this.#block.set(piece, this.#sizeBytes);
    this.#sizeBytes = neededBytes;
  }
}
