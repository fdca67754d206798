// Contents of files, put into an image one behind the other as they come.
import { ftruncateSync, writeSync } from 'node:fs';
import { BLOCK_BYTES } from './format.ts';
import { type Content, HOLE } from './inode.ts';

const BUFFER_BYTES = 4 << 20;

/** The first block is the super block's. */
const FIRST_BLOCK = 1;

export class DataWriter {
  readonly #fd: number;
  readonly #buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #buffered = 0;
  /** Of the image, where the buffer belongs. */
  #position = FIRST_BLOCK * BLOCK_BYTES;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Where the next byte goes. */
  get position(): number {
    return this.#position + this.#buffered;
  }

  get nextBlock(): number {
    return this.position / BLOCK_BYTES;
  }

  write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const length = Math.min(bytes.length - at, BUFFER_BYTES - this.#buffered);
      bytes.copy(this.#buffer, this.#buffered, at, at + length);
      this.#buffered += length;
      at += length;
      if (this.#buffered === BUFFER_BYTES) this.flush();
    }
  }

  zeros(count: number): void {
    for (let left = count; left > 0; ) {
      const length = Math.min(left, BUFFER_BYTES - this.#buffered);
      this.#buffer.fill(0, this.#buffered, this.#buffered + length);
      this.#buffered += length;
      left -= length;
      if (this.#buffered === BUFFER_BYTES) this.flush();
    }
  }

  /** Up to the next block. */
  pad(): void {
    const over = this.position % BLOCK_BYTES;
    if (over > 0) this.zeros(BLOCK_BYTES - over);
  }

  flush(): void {
    for (let at = 0; at < this.#buffered; )
      at += writeSync(this.#fd, this.#buffer, at, this.#buffered - at, this.#position + at);
    this.#position += this.#buffered;
    this.#buffered = 0;
  }

  /** What was there before does not show behind the end. */
  end(sizeBytes: number): void {
    this.flush();
    ftruncateSync(this.#fd, sizeBytes);
  }
}

/** One file's content, in pieces with growing positions. */
export class FileContent {
  readonly #data: DataWriter;
  readonly #sizeBytes: number;
  readonly #firstBlock: number;
  /** First block of the file, its block in the image; the piece goes on to the next one. */
  readonly #pieces: { readonly at: number; readonly block: number; blocks: number }[] = [];
  #end = 0;

  constructor(data: DataWriter, sizeBytes: number) {
    this.#data = data;
    this.#sizeBytes = sizeBytes;
    this.#firstBlock = data.nextBlock;
  }

  add(bytes: Buffer, position: number): void {
    if (bytes.length === 0) return;
    if (position !== this.#end || this.#pieces.length === 0) this.#jump(position);
    this.#data.write(bytes);
    this.#end = position + bytes.length;
  }

  finish(): Content {
    this.#close();
    const blocks = Math.ceil(this.#sizeBytes / BLOCK_BYTES);
    const [first] = this.#pieces;
    if (blocks === 0) return { kind: 'plain', block: 0 };
    if (this.#pieces.length === 1 && first?.at === 0 && first.blocks === blocks)
      return { kind: 'plain', block: this.#firstBlock };
    const map = new Uint32Array(blocks).fill(HOLE);
    for (const { at, block, blocks: count } of this.#pieces)
      for (let n = 0; n < count; n++) map[at + n] = block + n;
    return { kind: 'sparse', blocks: map };
  }

  /** Zeros within a block that has data; whole blocks between are holes. */
  #jump(position: number): void {
    const block = Math.floor(position / BLOCK_BYTES);
    const last = this.#pieces.at(-1);
    if (last !== undefined && this.#end % BLOCK_BYTES > 0 && block === Math.floor(this.#end / BLOCK_BYTES)) {
      this.#data.zeros(position - this.#end);
      return;
    }
    this.#close();
    this.#pieces.push({ at: block, block: this.#data.nextBlock, blocks: 0 });
    this.#data.zeros(position - block * BLOCK_BYTES);
  }

  #close(): void {
    const last = this.#pieces.at(-1);
    this.#data.pad();
    if (last !== undefined) last.blocks = this.#data.nextBlock - last.block;
  }
}
