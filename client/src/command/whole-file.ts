// Files that are there whole or not at all.
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Bytes } from '../connection/transport.ts';

/** Under its name only when it is whole. */
export async function writeWhole(
  path: string,
  bytes: Bytes,
  signal: AbortSignal,
  mode = 0o666,
): Promise<void> {
  const partial = join(dirname(path), `.${basename(path)}.${process.pid}.part`);
  try {
    await pipeline(Readable.from(bytes), createWriteStream(partial, { mode }), { signal });
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}
