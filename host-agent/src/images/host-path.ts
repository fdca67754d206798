// Images that lie on the daemon's host: only beneath directories that its operator allowed, whatever links say.
import { lstat, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../lib/errors.ts';
import { openRegular } from '../lib/untrusted-path.ts';

export type HostFile = {
  readonly path: string;
  /** Another one as soon as the file is another, or was written to. */
  readonly key: string;
  /** A root filesystem as it is, an archive of images, or a directory that is an OCI layout. */
  readonly kind: 'rootfs' | 'archive' | 'layout';
};

const MAGICS = [
  // Super blocks of EROFS and ext4.
  { at: 1024, bytes: Buffer.from('e2e1f5e0', 'hex') },
  { at: 1024 + 56, bytes: Buffer.from('53ef', 'hex') },
];

/** AppError unsupported when no directory is allowed, invalid_argument for what is no file beneath one: both sound alike. */
export async function findHostFile(path: string, allowed: readonly string[]): Promise<HostFile> {
  if (allowed.length === 0)
    throw new AppError(
      'unsupported',
      'image.path is not enabled on this daemon: its operator allowed no directory (image_path_allow); use image.oci',
    );
  try {
    const real = await realpath(path);
    const roots = await Promise.all(allowed.map((each) => realpath(each).catch(() => undefined)));
    if (!roots.some((root) => root !== undefined && real.startsWith(root === '/' ? root : `${root}/`)))
      throw new Error('it is elsewhere');
    const isLayout = (await lstat(real)).isDirectory();
    await using file = await openRegular(isLayout ? join(real, 'index.json') : real);
    const { size, mtimeMs, ino } = await file.stat();
    const { buffer } = await file.read(Buffer.alloc(2048), 0, 2048, 0);
    const isRootfs = MAGICS.some(({ at, bytes }) => buffer.subarray(at, at + bytes.length).equals(bytes));
    const kind = isLayout ? 'layout' : isRootfs ? 'rootfs' : 'archive';
    return { path: real, key: `${real}:${ino}:${size}:${mtimeMs}`, kind };
  } catch (cause) {
    const shown = JSON.stringify(path.slice(0, 200));
    const message = `image.path ${shown} is no file or OCI directory beneath a directory that the operator of the daemon allowed`;
    throw new AppError('invalid_argument', message, { cause });
  }
}
