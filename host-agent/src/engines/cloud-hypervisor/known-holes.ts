// What of a copy's memory is zeros for sure, known without reading it: the holes of the file that it is a private mapping of, less
// the pages of its own.
import { readFile, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { type Extent, readExtents } from '../../lib/extents.ts';
import { mappedFile, PAGE_BYTES, privateMappings, readChangedRanges } from '../mapping.ts';

/**
 * Undefined for memory that is not one private mapping of a file `name` of just this size. To be called once the memory was written:
 * a page that is not the process's own by then was not before, as nothing ever gives one back.
 */
export async function knownHoles(
  pid: number,
  name: string,
  memoryBytes: number,
): Promise<Extent[] | undefined> {
  const all = privateMappings(await readFile(`/proc/${pid}/maps`, 'utf8'));
  const [mapping, ...others] = all.filter((each) => basename(each.name) === name);
  if (mapping === undefined || others.length > 0 || mapping.sizeBytes !== memoryBytes) return undefined;
  const file = mappedFile(pid, mapping);
  const found = await stat(file);
  // A VMM that a guest took over maps what it likes.
  if (!found.isFile() || found.size !== memoryBytes) return undefined;
  const [source, changed] = await Promise.all([readExtents(file), readChangedRanges(pid, mapping)]);
  return gapsBetween([...source, ...changed], memoryBytes);
}

/** Whole pages below `endBytes` that none of the ranges touches. */
export function gapsBetween(ranges: readonly Extent[], endBytes: number): Extent[] {
  const gaps: Extent[] = [];
  let offset = 0;
  const end = { offset: endBytes, length: 0 };
  for (const range of [...ranges].sort((a, b) => a.offset - b.offset).concat(end)) {
    const until = Math.min(endBytes, range.offset - (range.offset % PAGE_BYTES));
    if (until > offset) gaps.push({ offset, length: until - offset });
    offset = Math.max(offset, Math.ceil((range.offset + range.length) / PAGE_BYTES) * PAGE_BYTES);
  }
  return gaps;
}
