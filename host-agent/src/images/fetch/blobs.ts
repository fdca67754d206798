// Finds damaged blobs on disk, whose content does not match their digest. All images share the blobs, and a fetch
// reuses existing ones without a check.
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readPieces } from '../../lib/bounded-copy.ts';
import { AppError } from '../../lib/errors.ts';
import { openRegular } from '../../lib/untrusted-path.ts';

/** The damaged blobs have been removed, so the next fetch downloads them again. */
export class DamagedBlobs extends AppError {
  readonly blobs: readonly string[];

  constructor(blobs: readonly string[], cause?: unknown) {
    super('upstream', `${blobs.length} blobs of the image are damaged on this host; send the request again`, {
      cause,
    });
    this.blobs = blobs;
  }
}

/** Path of a blob, by its SHA-256 in hexadecimal. */
export function blobPath(blobsDir: string, hex: string): string {
  return join(blobsDir, 'sha256', hex);
}

/** Removes those of `blobs` whose content does not match; rejects with DamagedBlobs if there were any. */
export async function dropDamaged(
  blobsDir: string,
  blobs: readonly string[],
  cause?: unknown,
): Promise<void> {
  const damaged: string[] = [];
  for (const hex of new Set(blobs)) if ((await digestOf(blobPath(blobsDir, hex))) !== hex) damaged.push(hex);
  for (const hex of damaged) await rm(blobPath(blobsDir, hex), { force: true });
  if (damaged.length > 0) throw new DamagedBlobs(damaged, cause);
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await using file = await openRegular(path);
  for await (const chunk of readPieces(file)) hash.update(chunk);
  return hash.digest('hex');
}
