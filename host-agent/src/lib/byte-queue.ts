// A byte queue between a producer and a slower consumer, in memory blocks that are reused. At hundreds of MiB/s, new
// buffers would cost as much in garbage collection as the copying itself.

const BLOCK_BYTES = 256 * 1024;
/** Maximum number of free blocks kept for reuse, for all queues together. */
const SPARE_BLOCKS = 64;

type Block = {
  readonly memory: Buffer;
  readFrom: number;
  writtenTo: number;
  /** Number of chunks of this block that were taken and not yet released. */
  pins: number;
};

/** Bytes taken from a queue. Their memory is reused after `release`. */
export type Chunk = { readonly bytes: Buffer; release(): void };

/** A stream of bytes that one reader pulls at its own pace. */
export interface PullStream {
  /** The next bytes; undefined at the end. Rejects if the stream fails. Must not be called concurrently. */
  next(): Promise<Chunk | undefined>;
  /** Discards the rest. */
  cancel(): void;
  /** Makes a waiting `next` return filler bytes: sending them shows whether the reader is still connected. */
  keepalive?(): void;
}

/** A text that needs no release. */
export function toChunk(text: string): Chunk {
  return { bytes: Buffer.from(text), release: () => undefined };
}

const spares: Block[] = [];

export class ByteQueue {
  readonly #blocks: Block[] = [];
  #sizeBytes = 0;

  /** Number of bytes in the queue. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Appends a copy. */
  push(bytes: Uint8Array): void {
    this.#sizeBytes += bytes.length;
    for (let at = 0; at < bytes.length; ) {
      let block = this.#blocks.at(-1);
      if (block === undefined || block.writtenTo === BLOCK_BYTES) {
        block = spares.pop() ?? newBlock();
        this.#blocks.push(block);
      }
      const end = Math.min(bytes.length, at + BLOCK_BYTES - block.writtenTo);
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
    if (end === block.writtenTo && end > BLOCK_BYTES / 2) this.#blocks.shift();
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
        recycle(block);
      },
    };
  }

  /** Discards everything in the queue. */
  clear(): void {
    for (const block of this.#blocks.splice(0)) {
      block.readFrom = block.writtenTo;
      if (block.pins === 0) recycle(block);
    }
    this.#sizeBytes = 0;
  }
}

function newBlock(): Block {
  return { memory: Buffer.allocUnsafeSlow(BLOCK_BYTES), readFrom: 0, writtenTo: 0, pins: 0 };
}

function recycle(block: Block): void {
  if (spares.length >= SPARE_BLOCKS) return;
  block.readFrom = 0;
  block.writtenTo = 0;
  spares.push(block);
}
