// Saves a running guest to a directory: memory, device state and writable layer of one moment, and the manifest.
import { mkdir, open } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import type { Vm } from '../../engines/engine.ts';
import type { Guest } from '../../guest/guest.ts';
import { copyRegular } from '../../lib/untrusted-path.ts';
import { pinAgent, pinRootfs } from '../resources/files.ts';
import { DISK_FILE, describeFile, SAVED_FORMAT, type SavedManifest, writeManifest } from './manifest.ts';
import { SavedGuest } from './saved-guest.ts';

export type SaveInput = {
  /** A new directory on the layer's file system. */
  readonly dir: string;
  readonly vm: Vm;
  readonly guest: Guest;
  readonly layerPath: string;
  readonly manifest: Omit<SavedManifest, 'formatVersion' | 'createdAt' | 'needsResync' | 'files'>;
  /** The disk is read without its memory, too: the guest writes out what it has cached, while it goes on. */
  readonly writesOut?: boolean;
  /** Called while the guest is paused. */
  readonly onPaused?: () => void;
  /** Called when all of the guest is in files. The rest needs neither the guest nor its VMM, and waits for this. */
  readonly onWritten?: () => Promise<void>;
  /** Leaves the guest paused, because it is not needed any more. */
  readonly staysPaused?: boolean;
  /** It does not outlive this daemon, so that nothing is flushed. */
  readonly isTemporary?: boolean;
  readonly signal?: AbortSignal;
};

export type SaveTimes = { readonly pausedMs: number; readonly totalMs: number };

/** Removes nothing on failure: the caller owns the directory. */
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
    // As late as possible: the steps before and after the pause may be slow, and the guest remains usable meanwhile.
    beforePause: async () => {
      if (input.writesOut) await guest.writeOut();
      isQuiet = await guest.hold();
    },
    whilePaused: async () => {
      await copyRegular(input.layerPath, (layer) => copySparse(layer, join(dir, DISK_FILE)));
      input.onPaused?.();
    },
    afterPause: () => {
      guest.release();
      // Its clock stopped during the pause; frequent snapshots would let it fall behind.
      if (!input.staysPaused) guest.stepClock();
    },
    ...(input.staysPaused && { staysPaused: true }),
  });
  await input.onWritten?.();
  input.signal?.throwIfAborted();
  const names = [basename(written.memoryPath), basename(written.statePath), DISK_FILE] as const;
  return {
    saved: await completeSave({ ...input, names, needsResync: !isQuiet }),
    pausedMs: written.pausedMs,
    totalMs: performance.now() - startedAt,
  };
}

type CompleteInput = Pick<SaveInput, 'dir' | 'manifest' | 'isTemporary'> & {
  /** Of memory, device state and disk. */
  readonly names: readonly [string, string, string];
  readonly needsResync: boolean;
};

/** Describes the files of a new directory, and flushes them. */
export async function completeSave({
  dir,
  names,
  needsResync,
  isTemporary = false,
  ...input
}: CompleteInput): Promise<SavedGuest> {
  const [memory, state, disk] = [
    await describeFile(dir, names[0]),
    await describeFile(dir, names[1]),
    await describeFile(dir, names[2]),
  ];
  const manifest: SavedManifest = {
    ...input.manifest,
    formatVersion: SAVED_FORMAT,
    createdAt: new Date().toISOString(),
    needsResync,
    files: { memory, state, disk },
  };
  if (!isTemporary) {
    // Checksums are computed in the background: see SavedGuest.addChecksums.
    await Promise.all([...names.map((name) => flush(join(dir, name))), writeManifest(dir, manifest)]);
    await flush(dir);
  }
  return new SavedGuest(dir, manifest, true);
}

/** Fsync: a file's content, or created and renamed entries of a directory, survive a crash of the host. */
export async function flush(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await file.sync();
}
