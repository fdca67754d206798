// Turns a running guest's memory into a file that others can map. What can be copied while the guest still runs is.
import { open, readdir, readlink } from 'node:fs/promises';
import process from 'node:process';
import { copySparse } from '@sandboxd/rootfs-builder';
import { openProcessFile } from '../../lib/untrusted-path.ts';
import type { FileVersion, VmmIdentity } from '../engine.ts';
import { type Mapping, mappedFile, readChangedRanges, readMapping } from '../mapping.ts';
import { versionKey } from './sealed-memory.ts';

const CHUNK_BYTES = 1 << 20;

/** The rest of the copy, to be made while the guest stands still. */
export type FinishCopy = () => Promise<void>;

/**
 * Begins a copy of the guest's memory to the new file `target`; a guest that keeps its memory in that very file needs
 * none. What its process has may be made up by now: it must be a file, and as long as the guest's memory.
 */
export async function beginMemoryCopy(
  { pid, memory }: Pick<VmmIdentity, 'pid' | 'memory'>,
  memoryBytes: number,
  target: string,
): Promise<FinishCopy> {
  if (memory.kind === 'anonymous')
    return async () => copyProcessFile(await memoryDescriptor(pid), memoryBytes, target);
  if (memory.kind === 'file') {
    return memory.path === target ? async () => undefined : () => copySparse(memory.path, target);
  }
  // What is behind a private mapping never changes: only the guest's own pages must wait for the pause.
  const mapping = await readMapping(pid, memory.path);
  checkSize(mapping.sizeBytes, memoryBytes);
  const isCopied = memory.origin !== undefined && (await copyOrigin(memory.origin, target));
  if (!isCopied) await copyProcessFile(mappedFile(pid, mapping), memoryBytes, target);
  return () => copyChangedPages(pid, mapping, target);
}

function checkSize(sizeBytes: number, memoryBytes: number): void {
  if (sizeBytes === memoryBytes) return;
  throw new Error(`its VMM has ${sizeBytes} bytes as the guest's memory, which has ${memoryBytes}`);
}

async function copyProcessFile(path: string, memoryBytes: number, target: string): Promise<void> {
  await using file = await openProcessFile(path);
  checkSize((await file.stat()).size, memoryBytes);
  await copySparse(`/proc/${process.pid}/fd/${file.fd}`, target);
}

/** Where the file system can, that shares its extents. False when the file is not what it was. */
async function copyOrigin({ path, key }: FileVersion, target: string): Promise<boolean> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return false;
  await using _file = file;
  if (versionKey(await file.stat()) !== key) return false;
  await copySparse(`/proc/${process.pid}/fd/${file.fd}`, target);
  return true;
}

async function memoryDescriptor(pid: number): Promise<string> {
  for (const fd of await readdir(`/proc/${pid}/fd`)) {
    const path = `/proc/${pid}/fd/${fd}`;
    if ((await readlink(path).catch(() => '')).startsWith('/memfd:memory-backend-memfd')) return path;
  }
  throw new Error(`process ${pid} has no memory descriptor`);
}

async function copyChangedPages(pid: number, mapping: Mapping, target: string): Promise<void> {
  const ranges = await readChangedRanges(pid, mapping);
  await using source = await open(`/proc/${pid}/mem`, 'r');
  await using sink = await open(target, 'r+');
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (const range of ranges) {
    for (let at = range.offset; at < range.offset + range.length; ) {
      const length = Math.min(CHUNK_BYTES, range.offset + range.length - at);
      const { bytesRead } = await source.read(buffer, 0, length, mapping.startAddress + at);
      if (bytesRead === 0) throw new Error(`cannot read the memory of process ${pid}`);
      await sink.write(buffer, 0, bytesRead, at);
      at += bytesRead;
    }
  }
}
