// Queues stdin that waits for credit. Small chunks are joined: a client may send single bytes, and an entry for each
// would take some hundred times its size.

const BLOCK_BYTES = 4096;

export class StdinQueue {
  readonly #chunks: Uint8Array[] = [];
  /** The block that small chunks are appended to, and its used range; always the last chunk's memory. */
  #block: Buffer | undefined;
  #blockStart = 0;
  #blockEnd = 0;
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Number of memory chunks in the queue. */
  get chunkCount(): number {
    return this.#chunks.length + (this.#blockEnd > this.#blockStart ? 1 : 0);
  }

  push(chunk: Uint8Array): void {
    this.#sizeBytes += chunk.length;
    if (chunk.length >= BLOCK_BYTES) {
      this.#closeBlock();
      // A view keeps its whole buffer alive, so a small view of a large buffer is copied.
      this.#chunks.push(chunk.length * 4 >= chunk.buffer.byteLength ? chunk : new Uint8Array(chunk));
      return;
    }
    for (let rest = chunk; rest.length > 0; ) {
      this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES);
      const part = rest.subarray(0, BLOCK_BYTES - this.#blockEnd);
      this.#block.set(part, this.#blockEnd);
      this.#blockEnd += part.length;
      rest = rest.subarray(part.length);
      if (this.#blockEnd === BLOCK_BYTES) this.#closeBlock();
    }
  }

  /** The next 1 to `maxBytes` bytes, whose memory is not reused; undefined if the queue is empty. */
  take(maxBytes: number): Uint8Array | undefined {
    const first = this.#chunks[0];
    if (first === undefined) return this.#takeFromBlock(maxBytes);
    const bytes = first.subarray(0, maxBytes);
    if (bytes.length === first.length) this.#chunks.shift();
    else this.#chunks[0] = first.subarray(maxBytes);
    this.#sizeBytes -= bytes.length;
    return bytes;
  }

  clear(): void {
    this.#chunks.length = 0;
    this.#block = undefined;
    this.#blockStart = 0;
    this.#blockEnd = 0;
    this.#sizeBytes = 0;
  }

  #takeFromBlock(maxBytes: number): Uint8Array | undefined {
    const end = Math.min(this.#blockEnd, this.#blockStart + maxBytes);
    const bytes = this.#block?.subarray(this.#blockStart, end);
    if (bytes === undefined || bytes.length === 0) return undefined;
    this.#blockStart = end;
    this.#sizeBytes -= bytes.length;
    return bytes;
  }

  #closeBlock(): void {
    if (this.#block !== undefined && this.#blockEnd > this.#blockStart) {
      this.#chunks.push(this.#block.subarray(this.#blockStart, this.#blockEnd));
    }
    this.#block = undefined;
    this.#blockStart = 0;
    this.#blockEnd = 0;
  }
}
