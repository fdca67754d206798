// A byte queue between a producer and a slower consumer, in memory blocks that are reused. At hundreds of MiB/s, new
// buffers would cost as much in garbage collection as the copying itself; small ones would also fragment the heap.

type Block = {
  readonly memory: Buffer;
  readFrom: number;
  writtenTo: number;
  /** Number of chunks of this block that were taken and not yet released. */
  pins: number;
};

/** Bytes taken from a queue. Their memory is reused after `release`. */
export type Chunk = { readonly bytes: Buffer; release(): void };

/** Memory that queues share. */
export class BlockPool {
  readonly blockBytes: number;
  readonly #maxSpare: number;
  readonly #spares: Buffer[] = [];

  /** `maxSpare`: free blocks that are kept for reuse. */
  constructor(blockBytes: number, maxSpare: number) {
    this.blockBytes = blockBytes;
    this.#maxSpare = maxSpare;
  }

  acquire(): Block {
    const memory = this.#spares.pop() ?? Buffer.allocUnsafeSlow(this.blockBytes);
    return { memory, readFrom: 0, writtenTo: 0, pins: 0 };
  }

  release(block: Block): void {
    if (this.#spares.length < this.#maxSpare) this.#spares.push(block.memory);
  }
}

export class ByteQueue {
  readonly #pool: BlockPool;
  readonly #blocks: Block[] = [];
  #sizeBytes = 0;

  constructor(pool: BlockPool) {
    this.#pool = pool;
  }

  /** Number of bytes in the queue. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Appends a copy. */
  push(bytes: Uint8Array): void {
    const { blockBytes } = this.#pool;
    this.#sizeBytes += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      let block = this.#blocks.at(-1);
      if (block === undefined || block.writtenTo === blockBytes) {
        block = this.#pool.acquire();
        this.#blocks.push(block);
      }
      const end = Math.min(bytes.length, at + blockBytes - block.writtenTo);
      block.memory.set(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end), block.writtenTo);
      block.writtenTo += end - at;
      at = end;
    }
  }

  /** The next 1 to `maxBytes` bytes, as far as they are contiguous in one block; undefined if the queue is empty. */
  take(maxBytes = Number.POSITIVE_INFINITY): Chunk | undefined {
    const block = this.#blocks[0];
    if (block === undefined || this.#sizeBytes === 0 || maxBytes < 1) return undefined;
    const end = Math.min(block.writtenTo, block.readFrom + maxBytes);
    const bytes = block.memory.subarray(block.readFrom, end);
    block.readFrom = end;
    block.pins += 1;
    this.#sizeBytes -= bytes.length;
    // A block with much free space stays writable, so that small chunks share a block.
    if (end === block.writtenTo && end > this.#pool.blockBytes / 2) this.#blocks.shift();
    let isReleased = false;
    return {
      bytes,
      release: () => {
        if (isReleased) return;
        isReleased = true;
        block.pins -= 1;
        if (block.pins > 0 || block.readFrom < block.writtenTo) return;
        // An empty queue holds no memory.
        if (this.#blocks[0] === block) this.#blocks.shift();
        this.#pool.release(block);
      },
    };
  }

  /** The bytes that the next `take` returns, which stay in the queue. */
  first(): Buffer | undefined {
    const block = this.#blocks[0];
    return this.#sizeBytes === 0 ? undefined : block?.memory.subarray(block.readFrom, block.writtenTo);
  }

  /** Removes the oldest bytes, at most as many as `first` returned. */
  drop(bytes: number): void {
    this.take(bytes)?.release();
  }

  /** Discards everything in the queue; returns how many bytes that were. */
  clear(): number {
    const sizeBytes = this.#sizeBytes;
    for (const block of this.#blocks.splice(0)) {
      block.readFrom = block.writtenTo;
      if (block.pins === 0) this.#pool.release(block);
    }
    this.#sizeBytes = 0;
    return sizeBytes;
  }
}
