// Blobs on disk that are not what they are named by. All images share them, and who fetches takes one that is there as it is.
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readPieces } from '../../lib/bounded-copy.ts';
import { AppError } from '../../lib/errors.ts';
import { openRegular } from '../../lib/untrusted-path.ts';

/** They are removed, so that the next fetch brings them anew. */
export class DamagedBlobs extends AppError {
  readonly blobs: readonly string[];

  constructor(blobs: readonly string[], cause?: unknown) {
    super('upstream', `${blobs.length} blobs of the image are damaged on this host; send the request again`, {
      cause,
    });
    this.blobs = blobs;
  }
}

/** SHA-256 in hexadecimal → path. */
export function blobPath(blobsDir: string, hex: string): string {
  return join(blobsDir, 'sha256', hex);
}

/** Removes those of `blobs` that are not what they should be, and rejects with DamagedBlobs if there are any. */
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
  for await (const piece of readPieces(file)) hash.update(piece);
  return hash.digest('hex');
}
