// Copies a paused sandbox to a saved guest, from which an archive is written while the sandbox may be resumed.
import { mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import { AppError } from '../../lib/errors.ts';
import type { Faults } from '../../lib/faults.ts';
import { copyRegular } from '../../lib/untrusted-path.ts';
import { metadataOf } from '../metadata.ts';
import type { Sandbox } from '../sandbox.ts';
import { DISK_FILE, describeFile, SAVED_FORMAT } from '../saved/manifest.ts';
import { openPaused, pausedDir } from '../saved/paused.ts';
import { SavedGuest } from '../saved/saved-guest.ts';

/**
 * `dir`: a new directory, which the caller removes. Call within the sandbox's queue. AppError conflict if it is not
 * paused with its memory, internal if it is damaged.
 */
export async function copyPaused(
  { id, record, paths }: Sandbox,
  dir: string,
  faults: Faults,
  signal: AbortSignal,
): Promise<SavedGuest> {
  if (record.paused?.hasMemory !== true)
    throw new AppError(
      'conflict',
      `sandbox ${id} was paused without its memory; resume it and take a snapshot`,
    );
  const { vm, manifest } = await openPaused(pausedDir(paths.dir), paths.layerPath, faults);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const [memory, state] = [basename(vm.memoryPath), basename(vm.statePath)];
  for (const [from, name] of [
    [vm.statePath, state],
    [vm.memoryPath, memory],
    [paths.layerPath, DISK_FILE],
  ] as const) {
    await copyRegular(from, (path) => copySparse(path, join(dir, name)));
    signal.throwIfAborted();
  }
  const { labels, env } = metadataOf(record);
  const described = {
    formatVersion: SAVED_FORMAT,
    createdAt: manifest.savedAt,
    compatibility: manifest.compatibility,
    kernelDigest: record.kernelDigest,
    options: { ...record.options, inherited: { labels: { ...labels }, env } },
    needsResync: manifest.needsResync,
    files: {
      memory: await describeFile(dir, memory),
      state: await describeFile(dir, state),
      disk: await describeFile(dir, DISK_FILE),
    },
  };
  return new SavedGuest(dir, described, true);
}
