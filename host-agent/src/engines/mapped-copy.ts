// Copies guest memory that a VMM maps privately from a file. The file never changes, so it is copied while the guest
// runs; the VMM's own pages are copied while it is paused.
import type { Stats } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import process from 'node:process';
import { copySparse } from '@sandboxd/rootfs-builder';
import { openProcessFile } from '../lib/untrusted-path.ts';
import { writeFully } from '../lib/write-fully.ts';
import type { GuestMemory } from './engine.ts';
import { type Mapping, mappedFile, PAGE_BYTES, type Range, readChangedRanges } from './mapping.ts';

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
  const ranges: { offset: number; length: number }[] = [];
  for (let offset = 0; offset < pages.length; offset += BLOCK_BYTES) {
    const length = Math.min(BLOCK_BYTES, pages.length - offset);
    if (pages.compare(ZEROS, 0, length, offset, offset + length) === 0) continue;
    const last = ranges.at(-1);
    if (last !== undefined && last.offset + last.length === offset) last.length += length;
    else ranges.push({ offset, length });
  }
  return ranges;
}
