// Where a VMM process maps its guest's memory, and which pages differ from the file.
import { open, readFile } from 'node:fs/promises';

export type Mapping = {
  readonly startAddress: number;
  readonly sizeBytes: number;
  /** Offset in the file. */
  readonly fileOffset: number;
};
export type Range = { readonly offset: number; readonly length: number };

export const PAGE_BYTES = 4096;
const ENTRY_BYTES = 8;
/** Bits 63 and 62 of a pagemap entry: present, swapped; bit 61: of a file or shared. In the upper 32-bit half. */
const PRESENT = 1 << 31;
const SWAPPED = 1 << 30;
const FILE_OR_SHARED = 1 << 29;
/** Of a large guest most blocks of this many entries are the same: nothing is there. */
const BLOCK_ENTRIES = 512;
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

/** Ranges of a private mapping with pages of the process's own, from pagemap entries (little-endian). */
export function changedRanges(pagemap: Buffer): Range[] {
  const ranges: { offset: number; length: number }[] = [];
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
    const offset = page * PAGE_BYTES;
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
  const length = (mapping.sizeBytes / PAGE_BYTES) * ENTRY_BYTES;
  const position = (mapping.startAddress / PAGE_BYTES) * ENTRY_BYTES;
  const buffer = Buffer.allocUnsafe(length);
  for (let have = 0; have < length; ) {
    const { bytesRead } = await pagemap.read(buffer, have, length - have, position + have);
    if (bytesRead === 0) throw new Error(`the page map of process ${pid} ends early`);
    have += bytesRead;
  }
  return changedRanges(buffer);
}
