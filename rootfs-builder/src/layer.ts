// A sandbox's writable disk: an empty sparse ext4 file, copied from a pristine one of the same size.
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { BuilderError } from './errors.ts';
import { sweepWorkDirectories, temporaryPath } from './lib/atomic.ts';
import { runCommand } from './lib/command.ts';
import { hostAddon } from './lib/host-addon.ts';
import { layersDirectory } from './lib/layout.ts';

/** Increase when the mke2fs options change; pristine files of older versions are ignored then. */
const LAYER_FORMAT = 3;
const MIN_LAYER_BYTES = 64 << 20;
const LAYER_UNIT_BYTES = 1 << 20;
/** Unit of `blocks`, independent of the file system's own. */
const BLOCK_BYTES = 512;
/** Above this, a copy would keep a thread of Node's pool from others for too long: a program makes it. */
const MAX_POOL_BYTES = 32 << 20;

/** Creates `path` (which must not exist) as an empty layer of `sizeBytes`, a multiple of 1 MiB and at least 64 MiB. */
export async function createWritableLayer(dataDir: string, path: string, sizeBytes: number): Promise<void> {
  await copySparse(await ensurePristineLayer(dataDir, sizeBytes), path);
}

/** Creates the pristine file of a size in advance, so that the first sandbox need not wait for it. */
export async function ensurePristineLayer(dataDir: string, sizeBytes: number): Promise<string> {
  if (!Number.isSafeInteger(sizeBytes) || sizeBytes < MIN_LAYER_BYTES || sizeBytes % LAYER_UNIT_BYTES !== 0) {
    const message = `a writable layer has a size of whole MiB and at least 64 MiB, not ${sizeBytes} bytes`;
    throw new BuilderError('layer_size', message);
  }
  const directory = layersDirectory(dataDir);
  const path = join(directory, `v${LAYER_FORMAT}-${sizeBytes / LAYER_UNIT_BYTES}m.ext4`);
  if ((await stat(path).catch(() => undefined))?.size === sizeBytes) return path;
  await mkdir(directory, { recursive: true });
  await sweepWorkDirectories(directory);
  const temporary = temporaryPath(directory);
  try {
    const file = await open(temporary, 'wx', 0o600);
    await file.truncate(sizeBytes);
    await file.close();
    await runCommand('mke2fs', layerArguments(temporary));
    await rename(temporary, path);
    return path;
  } finally {
    await rm(temporary, { force: true });
  }
}

/**
 * Copies a file by its allocated extents: as a reflink where the file system supports it, otherwise by content. Node's
 * own copy would fill holes with zeros.
 */
export async function copySparse(from: string, to: string): Promise<void> {
  if ((await stat(from)).blocks * BLOCK_BYTES <= MAX_POOL_BYTES) await hostAddon().copySparse(from, to);
  else await runCommand('cp', ['--sparse=always', '--reflink=auto', '--', from, to]);
}

/**
 * Copies a file and allocates blocks for all of `sizeBytes`, which may exceed the file's size. Later writes into it
 * never find the disk full. Throws `host_disk_full`.
 */
export async function copyReserved(from: string, to: string, sizeBytes: number): Promise<void> {
  // Shared blocks would have to be allocated on write.
  await runCommand('cp', ['--sparse=always', '--reflink=never', '--', from, to]);
  await runCommand('fallocate', ['--keep-size', '--length', String(sizeBytes), '--', to]);
}

/**
 * A small journal, although the layer lives only as long as its guest's memory. Without a journal, ext4 does not reuse
 * an inode that was deleted within the last minutes, and checks each of them for every new file: creating 4,000 files
 * after deleting 4,000 took some 10 s instead of 2. The empty file counts as zeroed, so neither mke2fs nor the guest's
 * kernel initializes the inode tables.
 */
function layerArguments(path: string): string[] {
  return [
    '-q',
    '-F',
    ...['-t', 'ext4'],
    ...['-b', '4096'],
    ...['-I', '256'],
    ...['-m', '0'],
    ...['-O', 'has_journal,^resize_inode,metadata_csum,^orphan_file'],
    ...['-J', 'size=4'],
    ...['-E', 'assume_storage_prezeroed=1,nodiscard'],
    path,
  ];
}
