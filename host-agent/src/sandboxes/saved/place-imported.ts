// Makes a saved guest of this host from the files of one of another host: an import, or the snapshot store.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pinAgent, pinRootfs } from '../resources/files.ts';
import type { ArchiveManifest } from './archive/format.ts';
import { describeFile, SAVED_FORMAT, type SavedManifest, writeManifest } from './manifest.ts';
import { flush } from './save.ts';
import { SavedGuest } from './saved-guest.ts';

export type PlaceInput = {
  /** A new directory; on failure the caller removes it. */
  readonly dir: string;
  readonly manifest: ArchiveManifest;
  /** The manifest's options, with this host's root file system. */
  readonly options: SavedManifest['options'];
  readonly signal: AbortSignal;
  /** Writes memory, device state and disk into `dir`. */
  readonly write: () => Promise<unknown>;
};

export async function placeImported({
  dir,
  manifest,
  options,
  signal,
  write,
}: PlaceInput): Promise<SavedGuest> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await pinRootfs(dir, options.rootfs.rootfsPath);
  if (options.rootfs.agentPath !== undefined) await pinAgent(dir, options.rootfs.agentPath);
  await write();
  signal.throwIfAborted();
  const describe = async (name: string) => {
    await flush(join(dir, name));
    return describeFile(dir, name);
  };
  const { parts, compatibility, kernelDigest, needsResync, takenAtMs } = manifest;
  const files = {
    memory: await describe(parts.memory.name),
    state: await describe(parts.state.name),
    disk: await describe(parts.disk.name),
  };
  const createdAt = new Date(takenAtMs).toISOString();
  const written = {
    formatVersion: SAVED_FORMAT,
    createdAt,
    compatibility,
    kernelDigest,
    options,
    needsResync,
    files,
  };
  await writeManifest(dir, written);
  await flush(dir);
  return new SavedGuest(dir, written, true);
}
