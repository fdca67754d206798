// Whether the host has room for one more sandbox.
import { statfs } from 'node:fs/promises';
import { AppError } from '../lib/errors.ts';

/** Kept free for logs, the registry and what running guests write. */
const DISK_RESERVE_BYTES = 256 * 1024 * 1024;
const RETRY_AFTER_S = 5;

/** AppError exhausted when the data directory's file system is nearly full. */
export async function assertDiskSpace(dataDir: string): Promise<void> {
  const { bavail, bsize } = await statfs(dataDir);
  const freeBytes = bavail * bsize;
  if (freeBytes >= DISK_RESERVE_BYTES) return;
  throw new AppError(
    'exhausted',
    `no disk space for a sandbox: ${Math.floor(freeBytes / 2 ** 20)} MiB are free in the data directory, ${DISK_RESERVE_BYTES / 2 ** 20} MiB must be; free some or delete sandboxes`,
    { stage: 'disk', retryAfterS: RETRY_AFTER_S },
  );
}

export function assertSlot(used: number, max: number): void {
  if (used < max) return;
  throw new AppError('exhausted', `this daemon has its ${max} sandboxes; delete one first`, {
    retryAfterS: RETRY_AFTER_S,
  });
}
