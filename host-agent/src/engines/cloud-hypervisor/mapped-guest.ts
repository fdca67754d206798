// The memory of a copy that has its source's file mapped privately, see mapped-memory.ts: saved by the daemon, as the VMM would write
// every page of it, zeros included, while its guest stands still.
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { copyMappedFile, copyOwnPages, type FinishCopy } from '../mapped-copy.ts';
import { type Mapping, privateMappings } from '../mapping.ts';
import { MEMORY_FILE } from './saved-files.ts';

/**
 * Begins a copy of it to the new file `target`. Undefined for memory that is not mapped so, one mapping behind the other and as
 * much as the guest has.
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

/** In the text of /proc/<pid>/maps. A large guest has two: there are no addresses for memory below 4 GiB in its last part. */
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
