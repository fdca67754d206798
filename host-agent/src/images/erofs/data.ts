// Writes file contents into an image, one after the other in order of arrival.
import { ftruncateSync, writeSync } from 'node:fs';
import { BLOCK_BYTES } from './format.ts';
import { type Content, HOLE } from './inode.ts';

const BUFFER_BYTES = 4 << 20;

/** The first block holds the superblock. */
const FIRST_BLOCK = 1;

export class DataWriter {
  readonly #fd: number;
  readonly #buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
  #buffered = 0;
  /** Offset in the image at which the buffer begins. */
  #position = FIRST_BLOCK * BLOCK_BYTES;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Offset of the next byte. */
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

  /** Fills the current block with zeros. */
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

  /** Truncates the file, so that no older bytes follow the image. */
  end(sizeBytes: number): void {
    this.flush();
    ftruncateSync(this.#fd, sizeBytes);
  }
}

/** The content of one file, written in chunks with increasing positions. */
export class FileContent {
  readonly #data: DataWriter;
  readonly #sizeBytes: number;
  readonly #firstBlock: number;
  /** Extents: first block within the file, first block in the image, number of blocks. */
  readonly #extents: { readonly at: number; readonly block: number; blocks: number }[] = [];
  #end = 0;

  constructor(data: DataWriter, sizeBytes: number) {
    this.#data = data;
    this.#sizeBytes = sizeBytes;
    this.#firstBlock = data.nextBlock;
  }

  add(bytes: Buffer, position: number): void {
    if (bytes.length === 0) return;
    if (position !== this.#end || this.#extents.length === 0) this.#jump(position);
    this.#data.write(bytes);
    this.#end = position + bytes.length;
  }

  finish(): Content {
    this.#close();
    const blocks = Math.ceil(this.#sizeBytes / BLOCK_BYTES);
    const [first] = this.#extents;
    if (blocks === 0) return { kind: 'plain', block: 0 };
    if (this.#extents.length === 1 && first?.at === 0 && first.blocks === blocks)
      return { kind: 'plain', block: this.#firstBlock };
    const map = new Uint32Array(blocks).fill(HOLE);
    for (const { at, block, blocks: count } of this.#extents)
      for (let n = 0; n < count; n++) map[at + n] = block + n;
    return { kind: 'sparse', blocks: map };
  }

  /** Fills gaps within a data block with zeros; whole blocks in a gap become holes. */
  #jump(position: number): void {
    const block = Math.floor(position / BLOCK_BYTES);
    const last = this.#extents.at(-1);
    if (last !== undefined && this.#end % BLOCK_BYTES > 0 && block === Math.floor(this.#end / BLOCK_BYTES)) {
      this.#data.zeros(position - this.#end);
      return;
    }
    this.#close();
    this.#extents.push({ at: block, block: this.#data.nextBlock, blocks: 0 });
    this.#data.zeros(position - block * BLOCK_BYTES);
  }

  #close(): void {
    const last = this.#extents.at(-1);
    this.#data.pad();
    if (last !== undefined) last.blocks = this.#data.nextBlock - last.block;
  }
}
