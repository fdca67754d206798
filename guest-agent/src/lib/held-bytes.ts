// Bytes that wait to be written, copied into reusable blocks. One buffer for each chunk would fragment the heap and
// stay in memory until a garbage collection.

const BLOCK_BYTES = 65_536;
/** Free blocks kept for reuse, shared by all queues. */
const MAX_FREE = 12;

const free: Buffer[] = [];

type Block = { readonly bytes: Buffer; start: number; end: number };

export class HeldBytes {
  readonly #blocks: Block[] = [];
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      const block = this.#blockWithSpace();
      const chunk = bytes.subarray(at, at + BLOCK_BYTES - block.end);
      block.bytes.set(chunk, block.end);
      block.end += chunk.length;
      at += chunk.length;
    }
    this.#sizeBytes += bytes.length;
  }

  /** The oldest contiguous bytes; valid until the next call. */
  first(): Buffer | undefined {
    const block = this.#blocks[0];
    return block?.bytes.subarray(block.start, block.end);
  }

  /** Removes the oldest bytes, at most as many as `first` returned. */
  drop(bytes: number): void {
    const block = this.#blocks[0];
    if (block === undefined) return;
    block.start += bytes;
    this.#sizeBytes -= bytes;
    if (block.start < block.end) return;
    this.#blocks.shift();
    release(block);
  }

  /** Removes everything; returns the byte count. */
  clear(): number {
    const sizeBytes = this.#sizeBytes;
    for (const block of this.#blocks.splice(0)) release(block);
    this.#sizeBytes = 0;
    return sizeBytes;
  }

  #blockWithSpace(): Block {
    const last = this.#blocks.at(-1);
    if (last !== undefined && last.end < BLOCK_BYTES) return last;
    const block = { bytes: free.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES), start: 0, end: 0 };
    this.#blocks.push(block);
    return block;
  }
}

function release({ bytes }: Block): void {
  if (free.length < MAX_FREE) free.push(bytes);
}
