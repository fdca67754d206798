// A saved guest of a paused sandbox, which stays paused: a copy of its files, as later pauses change them in place.
import { mkdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import type { Faults } from '../../lib/faults.ts';
import { copyRegular } from '../../lib/untrusted-path.ts';
import { pinAgent, pinRootfs } from '../resources/files.ts';
import { DISK_FILE } from './manifest.ts';
import { openPaused } from './paused.ts';
import { completeSave, type SaveInput } from './save.ts';
import type { SavedGuest } from './saved-guest.ts';

type CopyInput = Pick<SaveInput, 'dir' | 'layerPath' | 'manifest' | 'signal'> & {
  readonly pausedDir: string;
  readonly faults: Faults;
};

/**
 * `dir`: a new directory, which the caller removes. Its VMM must have ended, and none may start meanwhile. AppError as
 * of `openPaused`.
 */
export async function copyPaused(input: CopyInput): Promise<SavedGuest> {
  const { dir, layerPath, faults, signal } = input;
  const { vm, manifest } = await openPaused(input.pausedDir, layerPath, faults);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const { rootfsPath, agentPath } = input.manifest.options.rootfs;
  await pinRootfs(dir, rootfsPath);
  if (agentPath !== undefined) await pinAgent(dir, agentPath);
  const names = [basename(vm.memoryPath), basename(vm.statePath), DISK_FILE] as const;
  const sources = [vm.memoryPath, vm.statePath, layerPath];
  for (const [index, source] of sources.entries()) {
    signal?.throwIfAborted();
    const target = join(dir, names[index] ?? DISK_FILE);
    await copyRegular(source, (path) => copySparse(path, target));
  }
  const { compatibility, needsResync } = manifest;
  return await completeSave({
    ...{ dir, names, needsResync, isTemporary: true },
    manifest: { ...input.manifest, compatibility },
  });
}
