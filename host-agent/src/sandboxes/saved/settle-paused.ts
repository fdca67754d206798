// Makes one memory file of a paused guest of what its last pause found and what it wrote, and removes what is not
// needed any more.
import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { takeBack } from '../../engines/jail/jail.ts';
import { applyPageLog } from '../../engines/page-log.ts';
import type { Faults } from '../../lib/faults.ts';
import { ChunkChecksums } from './chunk-checksums.ts';
import { type PausedManifest, requirePaused, writePaused } from './paused-manifest.ts';
import { flush } from './save.ts';

/** In the directory of a pause. */
export const CHECKSUMS_FILE = 'checksums';

/**
 * Applies what the last pause saved to the memory file; its VMM must have ended. To be repeated after a failure or a
 * crash. Returns how many bytes were written.
 */
export async function settlePaused(dir: string, faults: Faults): Promise<number> {
  const manifest = await requirePaused(dir);
  const memoryPath = join(dir, manifest.memory.path);
  await takeBack(memoryPath);
  let bytesWritten = 0;
  let settled = manifest;
  if (manifest.changesPath !== undefined) {
    const ranges = await applyPageLog(join(dir, manifest.changesPath), memoryPath);
    faults.reach('pause.applied');
    const checksums = await ChunkChecksums.load(join(dir, manifest.checksumsPath), manifest.memory.sizeBytes);
    await checksums.update(memoryPath, ranges);
    const checksumsPath = join(String(manifest.generation), CHECKSUMS_FILE);
    await checksums.store(join(dir, checksumsPath));
    await flush(join(dir, checksumsPath));
    await flush(join(dir, String(manifest.generation)));
    const { changesPath: _, ...rest } = manifest;
    settled = {
      ...rest,
      checksumsPath,
      memory: { ...manifest.memory, mtimeMs: (await stat(memoryPath)).mtimeMs },
    };
    await writePaused(dir, settled);
    bytesWritten = ranges.reduce((sum, { length }) => sum + length, 0);
  }
  await sweep(dir, settled);
  faults.reach('pause.settled');
  return bytesWritten;
}

/** Removes the files of earlier pauses. */
async function sweep(dir: string, { memory, state, checksumsPath }: PausedManifest): Promise<void> {
  const kept = [memory.path, state.path, checksumsPath];
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const names = await readdir(join(dir, entry.name));
    const unused = names.filter((name) => !kept.includes(join(entry.name, name)));
    for (const name of unused) await rm(join(dir, entry.name, name), { recursive: true, force: true });
    if (unused.length === names.length) await rm(join(dir, entry.name), { recursive: true });
  }
}
