// Saving a running guest into a directory: memory, device state and writable layer of one moment, and the manifest.
import { mkdir, open } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import type { Vm } from '../../engines/engine.ts';
import type { Guest } from '../../guest/guest.ts';
import { copyRegular } from '../../lib/untrusted-path.ts';
import { pinAgent, pinRootfs } from '../resources/pin.ts';
import { DISK_FILE, describeFile, SAVED_FORMAT, type SavedManifest, writeManifest } from './manifest.ts';
import { SavedGuest } from './saved-guest.ts';

export type SaveInput = {
  /** New directory, on the file system of the layer. */
  readonly dir: string;
  readonly vm: Vm;
  readonly guest: Guest;
  readonly layerPath: string;
  readonly manifest: Omit<SavedManifest, 'formatVersion' | 'createdAt' | 'needsResync' | 'files'>;
  /** Called while the guest stands still. */
  readonly onPaused?: () => void;
  /** The guest is not needed any more and stays paused. */
  readonly staysPaused?: boolean;
  readonly signal?: AbortSignal;
};

export type SaveTimes = { readonly pausedMs: number; readonly totalMs: number };

/** Nothing is removed on failure: the caller owns the directory. */
export async function saveGuest(input: SaveInput): Promise<{ readonly saved: SavedGuest } & SaveTimes> {
  const { dir, vm, guest } = input;
  const startedAt = performance.now();
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const { rootfsPath, agentPath } = input.manifest.options.rootfs;
  await pinRootfs(dir, rootfsPath);
  if (agentPath !== undefined) await pinAgent(dir, agentPath);
  let isQuiet = false;
  const written = await vm.save({
    dir,
    memoryBytes: input.manifest.options.memoryMib * 2 ** 20,
    // Not earlier: what comes before and after the pause may take long, and the guest can be used meanwhile.
    beforePause: async () => {
      isQuiet = await guest.hold();
    },
    whilePaused: async () => {
      await copyRegular(input.layerPath, (layer) => copySparse(layer, join(dir, DISK_FILE)));
      input.onPaused?.();
    },
    afterPause: () => {
      guest.release();
      // Its clock stood still with it; snapshots taken often would let it fall behind.
      if (!input.staysPaused) guest.stepClock();
    },
    ...(input.staysPaused && { staysPaused: true }),
  });
  input.signal?.throwIfAborted();
  const names = [basename(written.memoryPath), basename(written.statePath), DISK_FILE] as const;
  const [memory, state, disk] = [
    await describeFile(dir, names[0]),
    await describeFile(dir, names[1]),
    await describeFile(dir, names[2]),
  ];
  const manifest: SavedManifest = {
    ...input.manifest,
    formatVersion: SAVED_FORMAT,
    createdAt: new Date().toISOString(),
    needsResync: !isQuiet,
    files: { memory, state, disk },
  };
  // The checksums come later, when nobody waits: see SavedGuest.addChecksums.
  await Promise.all([...names.map((name) => flush(join(dir, name))), writeManifest(dir, manifest)]);
  await flush(dir);
  return {
    saved: new SavedGuest(dir, manifest, true),
    pausedMs: written.pausedMs,
    totalMs: performance.now() - startedAt,
  };
}

/** Makes a file's content, or what was created and renamed in a directory, survive a crash of the host. */
export async function flush(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await file.sync();
}
