// Bytes on their way from one pace to another, in blocks of memory that are used again: at hundreds of MiB/s, new
// buffers for everything that passes would keep the garbage collector as busy as the copying keeps us.

const BLOCK_BYTES = 256 * 1024;
/** Blocks kept for reuse by all queues together. */
const SPARE_BLOCKS = 64;

type Block = {
  readonly memory: Buffer;
  readFrom: number;
  writtenTo: number;
  /** Pieces of it that were taken and not released. */
  pins: number;
};

/** Bytes taken out of a queue, whose memory is used again after `release`. */
export type Chunk = { readonly bytes: Buffer; release(): void };

/** Where the bytes for one reader come from, at the reader's pace. */
export interface PullStream {
  /** The next bytes, undefined at the end; rejects when they cannot go on. Not to be called twice at once. */
  next(): Promise<Chunk | undefined>;
  /** Nobody wants the rest. */
  cancel(): void;
  /** Has `next` give bytes without meaning where it waits for others: sending them shows whether the reader is there. */
  keepalive?(): void;
}

/** A text that nobody keeps. */
export function toChunk(text: string): Chunk {
  return { bytes: Buffer.from(text), release: () => undefined };
}

const spares: Block[] = [];

export class ByteQueue {
  readonly #blocks: Block[] = [];
  #sizeBytes = 0;

  /** What can be taken. */
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

  /** The next bytes, 1 to `maxBytes`, as far as they lie in one block; undefined when there are none. */
  take(maxBytes = Number.POSITIVE_INFINITY): Chunk | undefined {
    const block = this.#blocks[0];
    if (block === undefined || this.#sizeBytes === 0 || maxBytes < 1) return undefined;
    const end = Math.min(block.writtenTo, block.readFrom + maxBytes);
    const bytes = block.memory.subarray(block.readFrom, end);
    block.readFrom = end;
    block.pins += 1;
    this.#sizeBytes -= bytes.length;
    // One with much room takes what comes next, so that small pieces which wait for their reader do not have one each.
    if (end === block.writtenTo && end > BLOCK_BYTES / 2) this.#blocks.shift();
    let isReleased = false;
    return {
      bytes,
      release: () => {
        if (isReleased) return;
        isReleased = true;
        block.pins -= 1;
        if (block.pins > 0 || block.readFrom < block.writtenTo) return;
        // A queue that ran dry holds no memory.
        if (this.#blocks[0] === block) this.#blocks.shift();
        recycle(block);
      },
    };
  }

  /** Forgets what was not taken. */
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
