// Turns a running guest's memory into a file that others can map. What can be copied while the guest still runs is.
import { open, readdir, readlink } from 'node:fs/promises';
import { copySparse } from '@sandboxd/rootfs-builder';
import type { GuestMemory } from '../engine.ts';
import { type Mapping, mappedFile, readChangedRanges, readMapping } from './mapping.ts';

const CHUNK_BYTES = 1 << 20;

/** The rest of the copy, to be made while the guest stands still. */
export type FinishCopy = () => Promise<void>;

/**
 * Begins a copy of the guest's memory to the new file `target`; a guest that keeps its memory in that very file needs
 * none.
 */
export async function beginMemoryCopy(pid: number, memory: GuestMemory, target: string): Promise<FinishCopy> {
  if (memory.kind === 'anonymous') return async () => copySparse(await memoryDescriptor(pid), target);
  if (memory.kind === 'file') {
    return memory.path === target ? async () => undefined : () => copySparse(memory.path, target);
  }
  // The file behind a private mapping never changes: only the guest's own pages must wait for the pause.
  const mapping = await readMapping(pid, memory.path);
  await copySparse(mappedFile(pid, mapping), target);
  return () => copyChangedPages(pid, mapping, target);
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
