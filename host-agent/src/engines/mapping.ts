// Where a VMM process maps its guest's memory, and which pages differ from the file.

import type { Stats } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import process from 'node:process';
import { copySparse } from '@sandboxd/rootfs-builder';
import { openProcessFile } from '../lib/untrusted-path.ts';
import { writeFully } from '../lib/write-fully.ts';
import type { GuestMemory } from './engine.ts';

export type Mapping = {
  readonly startAddress: number;
  readonly sizeBytes: number;
  /** Offset in the file. */
  readonly fileOffset: number;
};
export type Range = { readonly offset: number; readonly length: number };
type GrowingRange = { readonly offset: number; length: number };

export const PAGE_BYTES = 4096;
const ENTRY_BYTES = 8;
/** Bits 63 and 62 of a pagemap entry: present, swapped; bit 61: of a file or shared. In the upper 32-bit half. */
const PRESENT = 1 << 31;
const SWAPPED = 1 << 30;
const FILE_OR_SHARED = 1 << 29;
/** Of a large guest most blocks of this many entries are the same: nothing is there. */
const BLOCK_ENTRIES = 512;
/** Entries that are read at once: 1 MiB of them, of 512 MiB of memory. A multiple of a block. */
const CHUNK_ENTRIES = 256 * BLOCK_ENTRIES;
/**
 * Maximum number of unchanged pages between two changed ones that are copied along: one larger read is faster than two
 * small ones.
 */
const MAX_GAP_PAGES = 8;

/** Finds the private mapping of `path` in the text of /proc/<pid>/maps; a deleted file still counts. */
export function findMapping(maps: string, path: string): Mapping | undefined {
  return privateMappings(maps).find(({ name }) => name === path);
}

/** All private, writable mappings of files, with their names in the process. */
export function privateMappings(maps: string): (Mapping & { readonly name: string })[] {
  return maps.split('\n').flatMap((line) => {
    const match = /^([0-9a-f]+)-([0-9a-f]+) rw.p ([0-9a-f]+) \S+ \d+ +(.*?)(?: \(deleted\))?$/.exec(line);
    if (match === null) return [];
    const [startAddress = 0, end = 0, fileOffset = 0] = match
      .slice(1, 4)
      .map((text) => Number.parseInt(text, 16));
    return [{ name: match[4] ?? '', startAddress, sizeBytes: end - startAddress, fileOffset }];
  });
}

/** The only private, writable, anonymous mapping of this size; undefined if there is none, or several. */
export function findAnonymous(maps: string, sizeBytes: number): Mapping | undefined {
  const found = maps.split('\n').flatMap((line) => {
    const match = /^([0-9a-f]+)-([0-9a-f]+) rw.p 0+ 00:00 0 *$/.exec(line);
    const [startAddress = 0, end = 0] = (match ?? []).slice(1).map((text) => Number.parseInt(text, 16));
    return match !== null && end - startAddress === sizeBytes ? [startAddress] : [];
  });
  const [startAddress] = found;
  return startAddress === undefined || found.length > 1
    ? undefined
    : { startAddress, sizeBytes, fileOffset: 0 };
}

export async function readMapping(pid: number, path: string): Promise<Mapping> {
  const mapping = findMapping(await readFile(`/proc/${pid}/maps`, 'utf8'), path);
  if (mapping === undefined) throw new Error(`process ${pid} has no mapping of ${path}`);
  return mapping;
}

/** A path for the file of a mapping that works even if the file was deleted. */
export function mappedFile(pid: number, { startAddress, sizeBytes }: Mapping): string {
  return `/proc/${pid}/map_files/${startAddress.toString(16)}-${(startAddress + sizeBytes).toString(16)}`;
}

/**
 * Appends the ranges of a private mapping with pages of the process's own, from its pagemap entries (little-endian).
 * `firstPage` is the page of the first entry, at the beginning of a block.
 */
export function addChangedRanges(ranges: GrowingRange[], pagemap: Buffer, firstPage = 0): Range[] {
  const pages = Math.floor(pagemap.length / ENTRY_BYTES);
  for (let page = 0; page < pages; page++) {
    const at = page * ENTRY_BYTES;
    const high = pagemap.readInt32LE(at + 4);
    if ((high & (PRESENT | SWAPPED)) === 0 || (high & FILE_OR_SHARED) !== 0) {
      const isFirst = page % BLOCK_ENTRIES === 0;
      if (isFirst && isUniform(pagemap.subarray(at, at + BLOCK_ENTRIES * ENTRY_BYTES)))
        page += BLOCK_ENTRIES - 1;
      continue;
    }
    const offset = (firstPage + page) * PAGE_BYTES;
    const last = ranges.at(-1);
    if (last !== undefined && offset - (last.offset + last.length) <= MAX_GAP_PAGES * PAGE_BYTES) {
      last.length = offset + PAGE_BYTES - last.offset;
    } else {
      ranges.push({ offset, length: PAGE_BYTES });
    }
  }
  return ranges;
}

/** Whether all entries are equal. */
function isUniform(entries: Buffer): boolean {
  return entries.compare(entries, ENTRY_BYTES, entries.length, 0, entries.length - ENTRY_BYTES) === 0;
}

export async function readChangedRanges(pid: number, mapping: Mapping): Promise<Range[]> {
  await using pagemap = await open(`/proc/${pid}/pagemap`, 'r');
  const pages = mapping.sizeBytes / PAGE_BYTES;
  const position = (mapping.startAddress / PAGE_BYTES) * ENTRY_BYTES;
  // A buffer for all entries of a guest of 256 GiB would have 512 MiB.
  const buffer = Buffer.allocUnsafe(Math.min(pages, CHUNK_ENTRIES) * ENTRY_BYTES);
  const ranges: GrowingRange[] = [];
  for (let page = 0; page < pages; page += CHUNK_ENTRIES) {
    const length = Math.min(buffer.length, (pages - page) * ENTRY_BYTES);
    for (let have = 0; have < length; ) {
      const at = position + page * ENTRY_BYTES + have;
      const { bytesRead } = await pagemap.read(buffer, have, length - have, at);
      if (bytesRead === 0) throw new Error(`the page map of process ${pid} ends early`);
      have += bytesRead;
    }
    addChangedRanges(ranges, buffer.subarray(0, length), page);
  }
  return ranges;
}

/**
 * Rejects if this kernel does not let the daemon read the process's pages, or has pages of another size. To be called
 * while the guest runs.
 */
export async function assertReadable(pid: number, { startAddress, sizeBytes }: Mapping): Promise<void> {
  const last = startAddress + sizeBytes - PAGE_BYTES;
  await readChangedRanges(pid, { startAddress: last, sizeBytes: PAGE_BYTES, fileOffset: 0 });
  await (await open(`/proc/${pid}/mem`, 'r')).close();
}

// Copies guest memory that a VMM maps privately from a file. The file never changes, so it is copied while the guest
// runs; the VMM's own pages are copied while it is paused.

const CHUNK_BYTES = 4 << 20;
/** Zeros are left out in such blocks: of an idle guest that is all but 4 MiB of them, in a tenth of the time. */
const BLOCK_BYTES = 16 * PAGE_BYTES;
const ZEROS = Buffer.alloc(BLOCK_BYTES);

/** Changes when the file is replaced or modified. */
export function versionKey({ dev, ino, size, mtimeMs }: Stats): string {
  return [dev, ino, size, mtimeMs].join();
}

/** Whether the memory is a private mapping of this file as it is now. */
export async function mapsFile(memory: GuestMemory, path: string): Promise<boolean> {
  if (memory.kind !== 'copy-on-write' || memory.origin?.path !== path) return false;
  const stats = await stat(path).catch(() => undefined);
  return stats !== undefined && versionKey(stats) === memory.origin.key;
}

/** The rest of a copy, to be made while the guest is paused. */
export type FinishCopy = () => Promise<void>;

/** A compromised VMM may present memory of any size. */
export function checkSize(sizeBytes: number, memoryBytes: number): void {
  if (sizeBytes === memoryBytes) return;
  throw new Error(`its VMM has ${sizeBytes} bytes as the guest's memory, which has ${memoryBytes}`);
}

/** Copies a regular file of exactly this size, by its link beneath /proc. */
export async function copyProcessFile(path: string, memoryBytes: number, target: string): Promise<void> {
  await using file = await openProcessFile(path);
  checkSize((await file.stat()).size, memoryBytes);
  await copySparse(`/proc/${process.pid}/fd/${file.fd}`, target);
}

/** Copies the whole file, whichever part of it is mapped. */
export function copyMappedFile(
  pid: number,
  mapping: Mapping,
  memoryBytes: number,
  target: string,
): Promise<void> {
  return copyProcessFile(mappedFile(pid, mapping), memoryBytes, target);
}

/** Copies the process's own pages into a copy of the file. The process must not change them meanwhile. */
export function copyOwnPages(pid: number, mappings: readonly Mapping[], target: string): Promise<void> {
  return copyPages(pid, mappings, target, (pages) => [{ offset: 0, length: pages.length }]);
}

/** Copies the pages of an anonymous mapping to a new file, in which zeros need no disk space. Otherwise the same. */
export async function copyAnonymous(pid: number, mapping: Mapping, target: string): Promise<void> {
  await using file = await open(target, 'wx', 0o600);
  await file.truncate(mapping.sizeBytes);
  await copyPages(pid, [mapping], target, nonZeroRanges);
}

/** `choose`: which parts of the pages are written. */
async function copyPages(
  pid: number,
  mappings: readonly Mapping[],
  target: string,
  choose: (pages: Buffer) => readonly Range[],
): Promise<void> {
  await using source = await open(`/proc/${pid}/mem`, 'r');
  await using sink = await open(target, 'r+');
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (const mapping of mappings) {
    for (const range of await readChangedRanges(pid, mapping)) {
      for (let at = range.offset; at < range.offset + range.length; ) {
        const length = Math.min(CHUNK_BYTES, range.offset + range.length - at);
        const { bytesRead } = await source.read(buffer, 0, length, mapping.startAddress + at);
        if (bytesRead === 0) throw new Error(`cannot read the memory of process ${pid}`);
        for (const { offset, length } of choose(buffer.subarray(0, bytesRead)))
          await writeFully(sink, buffer.subarray(offset, offset + length), mapping.fileOffset + at + offset);
        at += bytesRead;
      }
    }
  }
}

/** By whole blocks; the last one may be shorter. */
export function nonZeroRanges(pages: Buffer): Range[] {
  const ranges: GrowingRange[] = [];
  for (let offset = 0; offset < pages.length; offset += BLOCK_BYTES) {
    const length = Math.min(BLOCK_BYTES, pages.length - offset);
    if (pages.compare(ZEROS, 0, length, offset, offset + length) === 0) continue;
    const last = ranges.at(-1);
    if (last !== undefined && last.offset + last.length === offset) last.length += length;
    else ranges.push({ offset, length });
  }
  return ranges;
}
