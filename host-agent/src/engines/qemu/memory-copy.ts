// Copies a running guest's memory to a file that others can map. As much as possible is copied while the guest runs.
import { open, readdir, readlink } from 'node:fs/promises';
import process from 'node:process';
import { copySparse } from '@sandboxd/rootfs-builder';
import type { FileVersion, VmmIdentity } from '../engine.ts';
import { checkSize, copyMappedFile, copyOwnPages, copyProcessFile, type FinishCopy } from '../mapped-copy.ts';
import { readMapping } from '../mapping.ts';
import { versionKey } from './sealed-memory.ts';

/**
 * Starts a copy of the guest's memory to the new file `target`; not needed if the guest keeps its memory in that file.
 * A compromised VMM may present another object: it must be a file of exactly the guest's memory size.
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
  // The file of a private mapping never changes: only the guest's own pages must be copied during the pause.
  const mapping = await readMapping(pid, memory.path);
  checkSize(mapping.sizeBytes, memoryBytes);
  const isCopied = memory.origin !== undefined && (await copyOrigin(memory.origin, target));
  if (!isCopied) await copyMappedFile(pid, mapping, memoryBytes, target);
  return () => copyOwnPages(pid, [mapping], target);
}

/** Shares the file's extents if the file system supports it. False if the file was replaced. */
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
