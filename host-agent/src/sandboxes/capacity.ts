// Whether the host has room for one more sandbox.
import { statfs } from 'node:fs/promises';
import { AppError, errnoOf, toError } from '../lib/errors.ts';

/** Kept free for logs, the registry and what running guests write. */
const DISK_RESERVE_BYTES = 256 * 1024 * 1024;
const RETRY_AFTER_S = 5;

/** AppError exhausted when the data directory's file system has no room for `neededBytes` and a reserve. */
export async function assertDiskSpace(dataDir: string, neededBytes = 0): Promise<void> {
  const { bavail, bsize } = await statfs(dataDir);
  const freeBytes = bavail * bsize;
  const wantedBytes = DISK_RESERVE_BYTES + neededBytes;
  if (freeBytes >= wantedBytes) return;
  throw new AppError(
    'exhausted',
    `no disk space: ${Math.floor(freeBytes / 2 ** 20)} MiB are free in the data directory, ${Math.ceil(wantedBytes / 2 ** 20)} MiB must be; free some, or delete sandboxes or snapshots`,
    { stage: 'disk', retryAfterS: RETRY_AFTER_S },
  );
}

export function assertSlot(wanted: number, max: number): void {
  if (wanted <= max) return;
  throw new AppError(
    'exhausted',
    `this daemon takes ${max} sandboxes, ${wanted} would exist; delete some first`,
    {
      retryAfterS: RETRY_AFTER_S,
    },
  );
}

/** The error as AppError exhausted when it says that a disk of the host is full, else undefined. */
export function asNoSpace(error: unknown, doing: string, stage: string): AppError | undefined {
  if (!/ENOSPC|[Nn]o space left/.test(`${errnoOf(error)} ${toError(error).message}`)) return undefined;
  return new AppError('exhausted', `cannot ${doing} (stage ${stage}): no space left on the host's disk`, {
    stage,
    retryAfterS: RETRY_AFTER_S,
    cause: error,
  });
}
