// Saves the memory of a fork that maps its source's file privately (see mapped-memory.ts). The daemon copies it while
// the guest is paused, because the VMM would write every page, zeros included.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { copyMappedFile, copyOwnPages, type FinishCopy } from '../mapped-copy.ts';
import { type Mapping, privateMappings } from '../mapping.ts';
import { MEMORY_FILE } from './saved-files.ts';

/**
 * Starts a copy of the memory to the new file `target`. Undefined if the memory is not mapped as expected: contiguous
 * private mappings of exactly the guest's memory size.
 */
export async function beginMappedGuest(
  pid: number,
  memoryBytes: number,
  target: string,
): Promise<FinishCopy | undefined> {
  const mappings = findMemory(await readFile(`/proc/${pid}/maps`, 'utf8'), memoryBytes);
  const first = mappings?.[0];
  if (mappings === undefined || first === undefined) return undefined;
  await copyMappedFile(pid, first, memoryBytes, target);
  return () => copyOwnPages(pid, mappings, target);
}

/** From the text of /proc/<pid>/maps. A large guest has two mappings, because of the address hole below 4 GiB. */
export function findMemory(maps: string, memoryBytes: number): readonly Mapping[] | undefined {
  const mappings = privateMappings(maps)
    .filter(({ name }) => basename(name) === MEMORY_FILE)
    .sort((a, b) => a.fileOffset - b.fileOffset);
  let end = 0;
  for (const { fileOffset, sizeBytes } of mappings) {
    if (fileOffset !== end) return undefined;
    end += sizeBytes;
  }
  return end === memoryBytes ? mappings : undefined;
}
