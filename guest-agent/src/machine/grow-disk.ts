// Grows the writable layer's file system to the size of its disk.
import { mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { AgentError } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

const DISK = 'vdb';
const SECTOR_BYTES = 512;
const BLOCK_BYTES = 4096;
/** The switch of the root hid the layer's own mount, so it is mounted again for the call. */
const MOUNT_POINT = '/run/sandbox/layer';

/** Returns the new size in bytes. Throws AgentError. */
export function growDisk(): number {
  const sectors = Number(readFileSync(`/sys/block/${DISK}/size`, 'latin1'));
  const blocks = Math.floor((sectors * SECTOR_BYTES) / BLOCK_BYTES);
  mkdirSync(MOUNT_POINT, { recursive: true, mode: 0o700 });
  try {
    addon.mount(`/dev/${DISK}`, MOUNT_POINT, 'ext4', 0, '');
    try {
      addon.growFileSystem(MOUNT_POINT, blocks);
    } finally {
      addon.unmount(MOUNT_POINT, 0);
    }
  } catch (error) {
    throw new AgentError(
      'internal',
      `cannot grow the layer to ${blocks} blocks: ${(error as Error).message}`,
    );
  } finally {
    rmdirSync(MOUNT_POINT);
  }
  return blocks * BLOCK_BYTES;
}
