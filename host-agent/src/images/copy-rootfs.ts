// Copies a root filesystem image of the host into the store. A copy is needed because the host's file may change while
// guests use it.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, link, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { copyBounded } from '../lib/bounded-copy.ts';
import { errnoOf } from '../lib/errors.ts';
import { watchFreeDisk } from './fetch/watch.ts';
import type { ImageFiles } from './files.ts';
import type { StoredImage } from './find.ts';

const NO_CONFIG = {
  entrypoint: [],
  cmd: [],
  env: {},
  user: '',
  workdir: '',
  stopSignal: '',
  exposedPorts: [],
  labels: {},
};

export type CopyRootfsOptions = {
  readonly files: ImageFiles;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
  /** Owner of the image. */
  readonly owner?: string | undefined;
};

/** AppError invalid_argument for a file above `maxBytes`, exhausted when the disk is nearly full. */
export async function copyRootfs(file: FileHandle, options: CopyRootfsOptions): Promise<StoredImage> {
  const { files, maxBytes, owner } = options;
  await using work = await files.makeWork();
  using diskWatch = watchFreeDisk(work.dir, options.signal);
  const { signal } = diskWatch;
  const copy = join(work.dir, 'image');
  await copyBounded(file, copy, { maxBytes, what: 'the root filesystem', signal });
  const hash = createHash('sha256');
  await pipeline(createReadStream(copy, { highWaterMark: 1 << 20 }), hash, { signal });
  const rootfsDigest = hash.digest('hex');
  await link(copy, files.rootfsPath(rootfsDigest)).catch((error) => {
    if (errnoOf(error) !== 'EEXIST') throw error;
  });
  await rm(copy);
  const { size } = await stat(files.rootfsPath(rootfsDigest));
  const now = Date.now();
  const about = {
    configDigest: '',
    config: NO_CONFIG,
    blobs: [],
    layers: [],
    rootfsDigest,
    isCopy: true,
    ...(owner !== undefined && { owner }),
  } as const;
  const sizes = { sizeBytes: size, entries: 0, contentBytes: size };
  return { id: rootfsDigest, record: { refs: [], ...about, ...sizes, convertedAtMs: now, usedAtMs: now } };
}
