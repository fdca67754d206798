// A redo log of guest pages: what differs between the memory of a VMM and a file, which it maps privately, or which is
// an earlier copy. Written while the VMM exists, when the file must not change; applied after its end, as often as a
// crash demands.
import { readSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { readExtents } from '../lib/extents.ts';
import { openProcessFile } from '../lib/untrusted-path.ts';
import { writeFully } from '../lib/write-fully.ts';
import { checkSize, type Mapping, PAGE_BYTES, type Range, readChangedRanges } from './mapping.ts';

/*
 * Little-endian. The file begins with MAGIC and the memory's size (u64). Each record is a header, which is the offset
 * of its pages (u64), their length (u32) and CRC-32 (u32), and the pages. The last record has no pages, the number of
 * the others as its offset, and as its CRC-32 that of their headers.
 */
const MAGIC = Buffer.from('sbxpages');
const HEADER_BYTES = 16;
/** Maximum length of a record, and of what is read at once. */
const CHUNK_BYTES = 1 << 20;
const ENDS_EARLY = 'the memory of a guest or its file ends early';
/** What is collected before it is written. */
const WRITE_BYTES = 4 * CHUNK_BYTES;

export type PageLogOptions = {
  readonly pid: number;
  /** Private mappings that together are the guest's memory; `base` has what those have that are not their process's. */
  readonly mappings: readonly Mapping[];
  readonly memoryBytes: number;
  readonly base: string;
  /** The new log. */
  readonly target: string;
  /**
   * `base` was written a moment ago, and is in the page cache: this thread reads both, in slices, as the many small
   * reads of a pool of threads take several times as long.
   */
  readonly isCached?: boolean;
};

/** In the order of the file. The process must not change its pages meanwhile. The log is not flushed. */
export async function logOwnPages({
  pid,
  mappings,
  memoryBytes,
  base,
  target,
  isCached = false,
}: PageLogOptions): Promise<void> {
  await using memory = await open(`/proc/${pid}/mem`, 'r');
  await using file = await openBase(base, memoryBytes);
  await using log = await open(target, 'w', 0o600);
  const writer = new LogWriter(log, memoryBytes);
  const own = Buffer.allocUnsafe(CHUNK_BYTES);
  const old = Buffer.allocUnsafe(CHUNK_BYTES);
  const inOrder = mappings.toSorted((a, b) => a.fileOffset - b.fileOffset);
  for (const { startAddress, fileOffset, ...mapping } of inOrder) {
    const ranges = await readChangedRanges(pid, { startAddress, fileOffset, ...mapping });
    for (const batch of batches(ranges)) {
      const reads = batch.flatMap(({ offset, length, at }): Read[] => [
        [memory, own.subarray(at, at + length), startAddress + offset],
        [file, old.subarray(at, at + length), fileOffset + offset],
      ]);
      if (isCached) for (const each of reads) readFullySync(...each);
      else await Promise.all(reads.map((each) => readFully(...each)));
      if (isCached) await setImmediate();
      for (const { offset, length, at } of batch)
        for (const different of differences(own.subarray(at, at + length), old.subarray(at, at + length)))
          await writer.add(fileOffset + offset + different.offset, different.pages);
    }
  }
  await writer.end();
}

type FileLogOptions = Omit<PageLogOptions, 'pid' | 'mappings' | 'isCached'> & {
  /** The guest's memory, by a link beneath /proc. */
  readonly memoryPath: string;
};

/**
 * The same for memory that processes share, of which all is read; `base` is in the page cache. The pause of the guest
 * is for the function that it resolves with.
 */
export async function beginSharedLog(options: Omit<FileLogOptions, 'memoryPath'>): Promise<SharedLog> {
  // A file system fills its cache with zeros for each hole that is read.
  const chunks = new Set<number>();
  for (const { offset, length } of await readExtents(options.base)) {
    const end = Math.ceil((offset + length) / CHUNK_BYTES);
    for (let chunk = Math.floor(offset / CHUNK_BYTES); chunk < end; chunk++) chunks.add(chunk);
  }
  return (memoryPath) => logSharedPages({ ...options, memoryPath }, (chunk) => chunks.has(chunk));
}

type SharedLog = (memoryPath: string) => Promise<void>;

async function logSharedPages(
  { memoryPath, memoryBytes, base, target }: FileLogOptions,
  hasData: (chunk: number) => boolean,
): Promise<void> {
  await using memory = await openProcessFile(memoryPath);
  checkSize((await memory.stat()).size, memoryBytes);
  await using file = await openBase(base, memoryBytes);
  await using log = await open(target, 'w', 0o600);
  const writer = new LogWriter(log, memoryBytes);
  const own = Buffer.allocUnsafe(CHUNK_BYTES);
  const old = Buffer.allocUnsafe(CHUNK_BYTES);
  for (let offset = 0; offset < memoryBytes; offset += CHUNK_BYTES) {
    const length = Math.min(CHUNK_BYTES, memoryBytes - offset);
    const [now, before] = [own.subarray(0, length), old.subarray(0, length)];
    readFullySync(memory, now, offset);
    if (hasData(offset / CHUNK_BYTES)) readFullySync(file, before, offset);
    else before.fill(0);
    for (const different of differences(now, before))
      await writer.add(offset + different.offset, different.pages);
    await setImmediate();
  }
  await writer.end();
}

async function openBase(base: string, memoryBytes: number): Promise<FileHandle> {
  const file = await open(base, 'r');
  if ((await file.stat()).size === memoryBytes) return file;
  await file.close();
  throw new Error(`${base} has not the size of the guest's memory`);
}

/** What a log changes, in the order of the file; each is valid until the next. Rejects if the log is damaged. */
export async function* readPageLog(logPath: string, memoryBytes: number): AsyncGenerator<LoggedPages> {
  await using log = await open(logPath, 'r');
  for await (const records of readLog(log, logPath, memoryBytes)) yield* records;
}

/**
 * Makes the file what the guest's memory was, and flushes it; returns the ranges that were written. Rejects before it
 * changes anything if the log is damaged.
 */
export async function applyPageLog(logPath: string, memoryPath: string): Promise<Range[]> {
  await using log = await open(logPath, 'r');
  await using memory = await open(memoryPath, 'r+');
  const { size } = await memory.stat();
  for await (const _ of readLog(log, logPath, size));
  const ranges: Range[] = [];
  for await (const records of readLog(log, logPath, size)) {
    await Promise.all(records.map(({ offset, pages }) => writeFully(memory, pages, offset)));
    for (const { offset, pages } of records) ranges.push({ offset, length: pages.length });
  }
  await memory.sync();
  return ranges;
}

type Part = Range & {
  /** Its place in the buffer. */
  readonly at: number;
};

/** Cuts ranges into parts, and groups these so that each group fits into a buffer. */
function* batches(ranges: readonly Range[]): Generator<readonly Part[]> {
  let batch: Part[] = [];
  let at = 0;
  for (const range of ranges) {
    for (let done = 0; done < range.length; ) {
      const length = Math.min(range.length - done, CHUNK_BYTES - at);
      batch.push({ offset: range.offset + done, length, at });
      done += length;
      at += length;
      if (at < CHUNK_BYTES) continue;
      yield batch;
      batch = [];
      at = 0;
    }
  }
  if (batch.length > 0) yield batch;
}

/** Runs of pages that differ. */
function* differences(
  own: Buffer,
  old: Buffer,
): Generator<{ readonly offset: number; readonly pages: Buffer }> {
  if (own.equals(old)) return;
  let start = -1;
  for (let page = 0; page <= own.length; page += PAGE_BYTES) {
    const end = page + PAGE_BYTES;
    const isDifferent = page < own.length && own.compare(old, page, end, page, end) !== 0;
    if (isDifferent && start < 0) start = page;
    if (isDifferent || start < 0) continue;
    yield { offset: start, pages: own.subarray(start, page) };
    start = -1;
  }
}

class LogWriter {
  readonly #file: FileHandle;
  readonly #buffer = Buffer.allocUnsafe(WRITE_BYTES);
  #used = 0;
  #position = 0;
  #records = 0;
  #headersCrc = 0;

  constructor(file: FileHandle, memoryBytes: number) {
    this.#file = file;
    this.#used = MAGIC.copy(this.#buffer);
    this.#used = this.#buffer.writeBigUInt64LE(BigInt(memoryBytes), this.#used);
  }

  async add(offset: number, pages: Buffer): Promise<void> {
    if (this.#used + HEADER_BYTES + pages.length > WRITE_BYTES) await this.#write();
    const header = this.#header(offset, pages.length, crc32(pages));
    this.#headersCrc = crc32(header, this.#headersCrc);
    this.#records += 1;
    this.#used += pages.copy(this.#buffer, this.#used);
  }

  async end(): Promise<void> {
    if (this.#used + HEADER_BYTES > WRITE_BYTES) await this.#write();
    this.#header(this.#records, 0, this.#headersCrc);
    await this.#write();
  }

  #header(offset: number, length: number, crc: number): Buffer {
    const start = this.#used;
    this.#used = this.#buffer.writeBigUInt64LE(BigInt(offset), this.#used);
    this.#used = this.#buffer.writeUInt32LE(length, this.#used);
    this.#used = this.#buffer.writeUInt32LE(crc, this.#used);
    return this.#buffer.subarray(start, this.#used);
  }

  async #write(): Promise<void> {
    await writeFully(this.#file, this.#buffer.subarray(0, this.#used), this.#position);
    this.#position += this.#used;
    this.#used = 0;
  }
}

export type LoggedPages = { readonly offset: number; readonly pages: Buffer };

/** Records in groups, valid until the next group. Rejects if the log is damaged or of a memory of another size. */
async function* readLog(
  file: FileHandle,
  path: string,
  memoryBytes: number,
): AsyncGenerator<readonly LoggedPages[]> {
  const check = (isGood: boolean, what: string): void => {
    if (!isGood) throw new Error(`the log of changed pages ${path} is damaged: ${what}`);
  };
  const { size } = await file.stat();
  const buffer = Buffer.allocUnsafe(WRITE_BYTES);
  const start = Buffer.alloc(HEADER_BYTES);
  if (size >= HEADER_BYTES) await readFully(file, start, 0);
  check(start.subarray(0, MAGIC.length).equals(MAGIC), 'it is not such a log');
  check(Number(start.readBigUInt64LE(MAGIC.length)) === memoryBytes, 'it is of a memory of another size');
  let headersCrc = 0;
  let count = 0;
  for (let position = HEADER_BYTES; ; ) {
    const have = Math.min(WRITE_BYTES, size - position);
    check(have >= HEADER_BYTES, 'it ends early');
    const part = buffer.subarray(0, have);
    await readFully(file, part, position);
    const records: LoggedPages[] = [];
    let at = 0;
    while (at + HEADER_BYTES <= have) {
      const offset = Number(part.readBigUInt64LE(at));
      const length = part.readUInt32LE(at + 8);
      const crc = part.readUInt32LE(at + 12);
      if (length === 0) {
        check(
          offset === count && crc === headersCrc && position + at + HEADER_BYTES === size,
          'its end is wrong',
        );
        yield records;
        return;
      }
      const isInside = length <= CHUNK_BYTES && offset + length <= memoryBytes;
      check(isInside && (offset | length) % PAGE_BYTES === 0, 'a record is impossible');
      const next = at + HEADER_BYTES + length;
      if (next > have) break;
      const pages = part.subarray(at + HEADER_BYTES, next);
      check(crc32(pages) === crc, `the pages at ${offset} have another checksum`);
      headersCrc = crc32(part.subarray(at, at + HEADER_BYTES), headersCrc);
      count += 1;
      records.push({ offset, pages });
      at = next;
    }
    check(at > 0, 'it ends early');
    yield records;
    position += at;
  }
}

type Read = [file: FileHandle, into: Buffer, position: number];

function readFullySync(file: FileHandle, into: Buffer, position: number): void {
  for (let have = 0; have < into.length; ) {
    const bytesRead = readSync(file.fd, into, have, into.length - have, position + have);
    if (bytesRead === 0) throw new Error(ENDS_EARLY);
    have += bytesRead;
  }
}

async function readFully(file: FileHandle, into: Buffer, position: number): Promise<void> {
  for (let have = 0; have < into.length; ) {
    const { bytesRead } = await file.read(into, have, into.length - have, position + have);
    if (bytesRead === 0) throw new Error(ENDS_EARLY);
    have += bytesRead;
  }
}
