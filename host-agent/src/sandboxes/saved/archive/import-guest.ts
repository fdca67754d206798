// Writes a saved guest from an archive: its files and a manifest like that of a local save.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pinAgent, pinRootfs } from '../../resources/pin.ts';
import { describeFile, SAVED_FORMAT, type SavedManifest, writeManifest } from '../manifest.ts';
import { flush } from '../save.ts';
import { SavedGuest } from '../saved-guest.ts';
import type { ArchiveManifest } from './format.ts';
import type { ArchiveReader } from './read-archive.ts';

export type ImportInput = {
  /** A new directory; on failure the caller removes it. */
  readonly dir: string;
  readonly archive: ArchiveReader;
  readonly manifest: ArchiveManifest;
  /** The archive's options, with this host's root file system. */
  readonly options: SavedManifest['options'];
  readonly signal: AbortSignal;
};

export async function importGuest({
  dir,
  archive,
  manifest,
  options,
  signal,
}: ImportInput): Promise<SavedGuest> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await pinRootfs(dir, options.rootfs.rootfsPath);
  if (options.rootfs.agentPath !== undefined) await pinAgent(dir, options.rootfs.agentPath);
  await archive.readParts(dir, manifest);
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
