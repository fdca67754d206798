// Disk space of what pauses save.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { allocatedBytes } from '../../lib/extents.ts';

/** Disk space of everything in it. */
export async function storedBytesIn(dir: string): Promise<number> {
  const names = await readdir(dir, { recursive: true }).catch(() => []);
  const sizes = await Promise.all(names.map((name) => allocatedBytes(join(dir, name))));
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}
