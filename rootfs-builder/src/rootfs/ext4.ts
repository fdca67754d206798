// Directory tree → read-only ext4 image file of minimal size.
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { BuilderError } from '../errors.ts';
import { type CommandOptions, runCommand } from '../lib/command.ts';

const BLOCK_BYTES = 4096;
const INODE_BYTES = 256;
const FIXED_OVERHEAD_BYTES = 4 << 20;
const MAX_ATTEMPTS = 4;
/** Time stamp of the superblock, so that two images of the same tree differ as little as mke2fs allows. */
const IMAGE_EPOCH_S = '1700000000';
const IMAGE_UUID = '5a9db0c5-0000-4000-8000-000000000001';

type TreeSize = { entries: number; blocks: number };

/** Counts the inodes and data blocks of the tree; a directory counts as at least one block. */
async function measureTree(root: string): Promise<TreeSize> {
  const seen = new Set<number>();
  let blocks = 0;
  const visit = async (directory: string): Promise<void> => {
    for (const entry of await readdir(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      const stats = await lstat(path);
      if (seen.has(stats.ino)) continue; // another hard link of the same file
      seen.add(stats.ino);
      blocks += Math.max(stats.isDirectory() ? 1 : 0, Math.ceil(stats.size / BLOCK_BYTES));
      if (entry.isDirectory()) await visit(path);
    }
  };
  await visit(root);
  return { entries: seen.size, blocks };
}

/** Writes `imagePath` and returns its number of entries. */
export async function makeRootImage(
  root: string,
  imagePath: string,
  options: Pick<CommandOptions, 'signal' | 'onStart'> = {},
): Promise<number> {
  const size = await measureTree(root);
  const env = { SOURCE_DATE_EPOCH: IMAGE_EPOCH_S, E2FSPROGS_FAKE_TIME: IMAGE_EPOCH_S };
  const inodes = size.entries + 64;
  const contentBytes = size.blocks * BLOCK_BYTES * 1.01 + inodes * INODE_BYTES + FIXED_OVERHEAD_BYTES;
  for (let attempt = 1; ; attempt += 1) {
    const sizeBytes = roundUp(contentBytes * (1 + (attempt - 1) * 0.05), 1 << 20);
    await rm(imagePath, { force: true });
    try {
      await runCommand('mke2fs', rootImageArguments(root, imagePath, sizeBytes, inodes), { ...options, env });
      // mke2fs always creates it; the guest's root must contain only the tree.
      await runCommand('debugfs', ['-w', '-R', 'rmdir lost+found', imagePath], { ...options, env });
      return size.entries;
    } catch (error) {
      const isTooSmall =
        error instanceof BuilderError && /could not allocate|no free space|too small/i.test(error.message);
      if (!isTooSmall || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

/** The mke2fs command line. Without a journal, because the image is read-only. */
function rootImageArguments(root: string, imagePath: string, sizeBytes: number, inodes: number): string[] {
  return [
    '-q',
    '-F', // accept a regular file, and ask no questions
    ...['-t', 'ext4'],
    ...['-d', root],
    ...['-b', String(BLOCK_BYTES)],
    ...['-I', String(INODE_BYTES)],
    ...['-N', String(inodes)],
    ...['-m', '0'], // no blocks reserved for root
    ...['-U', IMAGE_UUID],
    ...['-O', '^has_journal,^resize_inode,metadata_csum,^orphan_file'],
    ...['-E', `hash_seed=${IMAGE_UUID},lazy_itable_init=1,root_owner=0:0,nodiscard`],
    imagePath,
    `${sizeBytes / 1024}k`,
  ];
}

function roundUp(value: number, unit: number): number {
  return Math.ceil(value / unit) * unit;
}
