// Bytes that wait to be written: copied into blocks that are used again and again. A buffer for each piece would be
// garbage that lives until a collection, and leave holes in the heap when it goes.

const BLOCK_BYTES = 65_536;
/** Blocks that are kept for the next, all queues together. */
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
      const block = this.#roomy();
      const piece = bytes.subarray(at, at + BLOCK_BYTES - block.end);
      block.bytes.set(piece, block.end);
      block.end += piece.length;
      at += piece.length;
    }
    this.#sizeBytes += bytes.length;
  }

  /** The oldest bytes, as many as lie together; valid until the next call. */
  first(): Buffer | undefined {
    const block = this.#blocks[0];
    return block?.bytes.subarray(block.start, block.end);
  }

  /** Forgets the oldest bytes, at most as many as `first` gave. */
  drop(bytes: number): void {
    const block = this.#blocks[0];
    if (block === undefined) return;
    block.start += bytes;
    this.#sizeBytes -= bytes;
    if (block.start < block.end) return;
    this.#blocks.shift();
    release(block);
  }

  /** Forgets everything; returns how much it was. */
  clear(): number {
    const sizeBytes = this.#sizeBytes;
    for (const block of this.#blocks.splice(0)) release(block);
    this.#sizeBytes = 0;
    return sizeBytes;
  }

  #roomy(): Block {
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
