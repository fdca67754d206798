// Copies memory that a VMM has as private mappings of a file: the file, which never changes, while its guest runs, and the pages that
// the VMM has of its own while it stands still.
import { open } from 'node:fs/promises';
import process from 'node:process';
import { copySparse } from '@sandboxd/rootfs-builder';
import { openProcessFile } from '../lib/untrusted-path.ts';
import { type Mapping, mappedFile, readChangedRanges } from './mapping.ts';

const CHUNK_BYTES = 1 << 20;

/** The rest of a copy, to be made while the guest stands still. */
export type FinishCopy = () => Promise<void>;

/** What a process has may be made up by a guest that took it over. */
export function checkSize(sizeBytes: number, memoryBytes: number): void {
  if (sizeBytes === memoryBytes) return;
  throw new Error(`its VMM has ${sizeBytes} bytes as the guest's memory, which has ${memoryBytes}`);
}

/** Copies a regular file of just this size, by its link beneath /proc. */
export async function copyProcessFile(path: string, memoryBytes: number, target: string): Promise<void> {
  await using file = await openProcessFile(path);
  checkSize((await file.stat()).size, memoryBytes);
  await copySparse(`/proc/${process.pid}/fd/${file.fd}`, target);
}

/** The whole file, whichever part of it this is a mapping of. */
export function copyMappedFile(
  pid: number,
  mapping: Mapping,
  memoryBytes: number,
  target: string,
): Promise<void> {
  return copyProcessFile(mappedFile(pid, mapping), memoryBytes, target);
}

/** Into a copy of the file. The process must not change them meanwhile. */
export async function copyOwnPages(pid: number, mappings: readonly Mapping[], target: string): Promise<void> {
  await using source = await open(`/proc/${pid}/mem`, 'r');
  await using sink = await open(target, 'r+');
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (const mapping of mappings) {
    for (const range of await readChangedRanges(pid, mapping)) {
      for (let at = range.offset; at < range.offset + range.length; ) {
        const length = Math.min(CHUNK_BYTES, range.offset + range.length - at);
        const { bytesRead } = await source.read(buffer, 0, length, mapping.startAddress + at);
        if (bytesRead === 0) throw new Error(`cannot read the memory of process ${pid}`);
        await sink.write(buffer, 0, bytesRead, mapping.fileOffset + at);
        at += bytesRead;
      }
    }
  }
}
