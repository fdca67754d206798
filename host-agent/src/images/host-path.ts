// Opens images in the daemon's host filesystem, only below directories that the operator allowed, after resolution of
// symbolic links. The file's owner can replace it at any time, so each file is opened once: the file that was checked
// is the file that is read (TOCTOU).

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, link, readlink, realpath, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { copyBounded } from '../lib/bounded-copy.ts';
import { AppError, errnoOf } from '../lib/errors.ts';
import { holdDirectory, openBeneath } from '../lib/held-path.ts';
import { watchFreeDisk } from './fetch/watch.ts';
import type { ImageFiles } from './files.ts';
import type { StoredImage } from './record.ts';

export type HostFile = AsyncDisposable & {
  /** The file, or the index.json of a layout. */
  readonly file: FileHandle;
  /** Changes when the file is replaced or modified. */
  readonly key: string;
  /** A root filesystem image, an archive of images, or a directory that is an OCI layout. */
  readonly kind: 'rootfs' | 'archive' | 'layout';
  /**
   * Opens a file of the layout by its relative path. Rejects when it is not a regular file below an allowed directory.
   */
  readonly openWithin: (name: string) => Promise<FileHandle>;
};

const MAGICS = [
  // Superblock magics of EROFS and ext4.
  { at: 1024, bytes: Buffer.from('e2e1f5e0', 'hex') },
  { at: 1024 + 56, bytes: Buffer.from('53ef', 'hex') },
];

/**
 * AppError unsupported when no directory is allowed; invalid_argument otherwise. A missing and a forbidden file get the
 * same message, so that clients cannot probe the host.
 */
export async function openHostFile(path: string, allowed: readonly string[]): Promise<HostFile> {
  if (allowed.length === 0)
    throw new AppError(
      'unsupported',
      'image.path is not enabled on this daemon: its operator allowed no directory (image_path_allow); use image.oci',
    );
  await using opened = new AsyncDisposableStack();
  try {
    const found = await openAllowed(path, allowed);
    opened.use(found.file);
    const isLayout = (await found.file.stat()).isDirectory();
    const openWithin = (name: string) => openRegular(join(found.real, name), allowed);
    const file = isLayout ? opened.use(await openWithin('index.json')) : found.file;
    const { size, mtimeMs, ino } = await file.stat();
    const { buffer } = await file.read(Buffer.alloc(2048), 0, 2048, 0);
    const isRootfs = MAGICS.some(({ at, bytes }) => buffer.subarray(at, at + bytes.length).equals(bytes));
    const kind = isLayout ? 'layout' : isRootfs ? 'rootfs' : 'archive';
    const key = `${found.real}:${ino}:${size}:${mtimeMs}`;
    const held = opened.move();
    return { file, key, kind, openWithin, [Symbol.asyncDispose]: () => held.disposeAsync() };
  } catch (cause) {
    const shown = JSON.stringify(path.slice(0, 200));
    const message = `image.path ${shown} is not a file or OCI directory beneath a directory that the operator of the daemon allowed`;
    throw new AppError('invalid_argument', message, { cause });
  }
}

async function openRegular(path: string, allowed: readonly string[]): Promise<FileHandle> {
  const { file } = await openAllowed(path, allowed);
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw new Error(`${path} is not a file`);
}

/**
 * Opens a regular file or a directory. Symbolic links are resolved first and not followed afterwards, so a path that is
 * replaced in between is refused.
 */
async function openAllowed(
  path: string,
  allowed: readonly string[],
): Promise<{ readonly file: FileHandle; readonly real: string }> {
  const real = await realpath(path);
  let problem: unknown = new Error('it is elsewhere');
  for (const each of allowed) {
    try {
      await using root = await holdDirectory(each);
      const rootPath = await readlink(root.path);
      const prefix = rootPath === '/' ? rootPath : `${rootPath}/`;
      if (!real.startsWith(prefix)) continue;
      return { file: await openBeneath(root.path, real.slice(prefix.length).split('/')), real };
    } catch (error) {
      problem = error;
    }
  }
  throw problem;
}

// Copies a root filesystem image of the host into the store. A copy is needed because the host's file may change while
// guests use it.
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

type CopyRootfsOptions = {
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
