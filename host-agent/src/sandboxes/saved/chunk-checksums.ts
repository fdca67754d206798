// Checksums of a memory file, one for each chunk: after a few pages changed, only their chunks are read again.
import { readSync } from 'node:fs';
import { type FileHandle, open, readFile, writeFile } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { readExtents } from '../../lib/extents.ts';

const CHUNK_BYTES = 64 * 1024;
/** What is read at once. */
const READ_BYTES = 16 * CHUNK_BYTES;
const ENTRY_BYTES = 4;
type Range = { readonly offset: number; readonly length: number };
type Pages = { readonly offset: number; readonly pages: Buffer };

export class ChunkChecksums {
  /** CRC-32 of each chunk, little-endian, in the order of the file. */
  readonly #entries: Buffer;
  /** Of the file. */
  readonly sizeBytes: number;

  private constructor(entries: Buffer, sizeBytes: number) {
    this.#entries = entries;
    this.sizeBytes = sizeBytes;
  }

  /** Of a file's whole content. Rejects with the signal's reason. */
  static async of(path: string, signal?: AbortSignal): Promise<ChunkChecksums> {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    const entries = Buffer.alloc(Math.ceil(size / CHUNK_BYTES) * ENTRY_BYTES);
    const checksums = new ChunkChecksums(entries, size);
    checksums.#fillWithZeros();
    await checksums.#read(file, await readExtents(path), signal);
    return checksums;
  }

  /** Those that were stored for a file of `sizeBytes`. */
  static async load(path: string, sizeBytes: number): Promise<ChunkChecksums> {
    const stored = await readFile(path);
    const entries = stored.subarray(0, -ENTRY_BYTES);
    const isWhole = stored.length === (Math.ceil(sizeBytes / CHUNK_BYTES) + 1) * ENTRY_BYTES;
    if (!isWhole || stored.readUInt32LE(entries.length) !== crc32(entries))
      throw new Error(`the list of checksums ${path} is damaged`);
    return new ChunkChecksums(Buffer.from(entries), sizeBytes);
  }

  /** CRC-32 of the list: of files of the same size, those with the same content have the same. */
  get digest(): number {
    return crc32(this.#entries);
  }

  /** Writes the list with a checksum of its own; it is not flushed. */
  async store(path: string): Promise<void> {
    const end = Buffer.alloc(ENTRY_BYTES);
    end.writeUInt32LE(this.digest);
    await writeFile(path, Buffer.concat([this.#entries, end]), { mode: 0o600 });
  }

  /**
   * Takes the checksums of these ranges' chunks from the file again. They were written a moment ago: this thread reads
   * them from the page cache, in slices.
   */
  async update(path: string, ranges: readonly Range[]): Promise<void> {
    await using file = await open(path, 'r');
    await this.#read(file, ranges, undefined, true);
  }

  /** Takes those that the file would have with these pages in it, which come in the order of the file. */
  async overlay(path: string, changes: AsyncIterable<Pages>): Promise<void> {
    await using file = await open(path, 'r');
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    let chunk = buffer.subarray(0, 0);
    let start = -1;
    const end = (): void => {
      if (start >= 0) this.#entries.writeUInt32LE(crc32(chunk), (start / CHUNK_BYTES) * ENTRY_BYTES);
    };
    for await (const { offset, pages } of changes)
      for (let done = 0; done < pages.length; ) {
        const at = offset + done;
        const next = at - (at % CHUNK_BYTES);
        if (next < start) throw new Error('changed pages are out of order');
        if (next !== start) {
          end();
          chunk = buffer.subarray(0, Math.min(CHUNK_BYTES, this.sizeBytes - next));
          // As of `update`; what gives the changes reads a file, too.
          if (readSync(file.fd, chunk, 0, chunk.length, next) !== chunk.length)
            throw new Error('a memory file ends early');
          start = next;
        }
        done += pages.copy(chunk, at - start, done);
      }
    end();
  }

  /** Offset of the first chunk that differs; undefined when none does. */
  findDifference(other: ChunkChecksums): number | undefined {
    if (this.#entries.equals(other.#entries)) return undefined;
    for (let at = 0; at < this.#entries.length; at += ENTRY_BYTES)
      if (this.#entries.readUInt32LE(at) !== other.#entries.readUInt32LE(at))
        return (at / ENTRY_BYTES) * CHUNK_BYTES;
    return undefined;
  }

  #fillWithZeros(): void {
    const whole = crc32(Buffer.alloc(CHUNK_BYTES));
    const rest = this.sizeBytes % CHUNK_BYTES;
    for (let at = 0; at < this.#entries.length; at += ENTRY_BYTES) this.#entries.writeUInt32LE(whole, at);
    if (rest > 0) this.#entries.writeUInt32LE(crc32(Buffer.alloc(rest)), this.#entries.length - ENTRY_BYTES);
  }

  async #read(
    file: FileHandle,
    ranges: readonly Range[],
    signal?: AbortSignal,
    isCached = false,
  ): Promise<void> {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    let read = 0;
    let next = 0;
    for (const { offset, length } of [...ranges].sort((a, b) => a.offset - b.offset)) {
      const end = Math.min(offset + length, this.sizeBytes);
      for (let at = Math.max(next, offset - (offset % CHUNK_BYTES)); at < end; ) {
        signal?.throwIfAborted();
        const wanted = Math.min(
          READ_BYTES,
          Math.ceil((end - at) / CHUNK_BYTES) * CHUNK_BYTES,
          this.sizeBytes - at,
        );
        const bytesRead = isCached
          ? readSync(file.fd, buffer, 0, wanted, at)
          : (await file.read(buffer, 0, wanted, at)).bytesRead;
        if (bytesRead !== wanted) throw new Error('a memory file ends early');
        read += wanted;
        if (isCached && read >= READ_BYTES) {
          read = 0;
          await setImmediate();
        }
        for (let chunk = 0; chunk < wanted; chunk += CHUNK_BYTES)
          this.#entries.writeUInt32LE(
            crc32(buffer.subarray(chunk, Math.min(chunk + CHUNK_BYTES, wanted))),
            ((at + chunk) / CHUNK_BYTES) * ENTRY_BYTES,
          );
        at += wanted;
        next = at;
      }
    }
  }
}
