// Writes files atomically, even in a directory of another user, who can replace every name in it at any time.
import { randomBytes } from 'node:crypto';
import { lstat, open, rename, rm, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Bytes } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';
import { HeldDirectory } from './held-directory.ts';

export type FileOptions = {
  readonly mode?: number | undefined;
  readonly mtime?: Date | undefined;
  readonly signal?: AbortSignal | undefined;
};

/**
 * The name appears only when the file is complete. An existing symbolic link is replaced, not followed. SandboxdError
 * for a device or a pipe.
 */
export async function writeWhole(path: string, bytes: Bytes, options: FileOptions = {}): Promise<void> {
  await using directory = await HeldDirectory.open(dirname(path));
  await writeWholeIn(directory, basename(path), bytes, options);
}

export async function writeWholeIn(
  directory: HeldDirectory,
  name: string,
  bytes: Bytes,
  { mode = 0o666, mtime, signal }: FileOptions = {},
): Promise<void> {
  await putInPlace(directory, name, async (partial) => {
    await using file = await open(partial, 'wx', mode);
    for await (const part of bytes) {
      signal?.throwIfAborted();
      await file.writeFile(part);
    }
    if (mtime !== undefined) await file.utimes(mtime, mtime);
  });
}

/** Creates a symbolic link atomically. */
export async function linkIn(directory: HeldDirectory, name: string, target: string): Promise<void> {
  await putInPlace(directory, name, (partial) => symlink(target, partial));
}

/** `create` creates the file at the temporary path that it gets. */
export async function putInPlace(
  directory: HeldDirectory,
  name: string,
  create: (path: string) => Promise<void>,
): Promise<void> {
  const place = directory.at(name);
  // A random name, which another user cannot have prepared.
  const partial = directory.at(`.sandbox-${randomBytes(8).toString('hex')}.part`);
  try {
    await assertReplaceable(place, join(directory.shown, name));
    await create(partial);
    await rename(partial, place);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    throw directory.withShownPath(error);
  }
}

/** Refuses to replace a device such as /dev/null, or a link to one. */
async function assertReplaceable(place: string, shown: string): Promise<void> {
  if ((await lstat(place).catch(() => undefined))?.isDirectory())
    throw new SandboxdError(`${shown} is a directory, and is not replaced`);
  for (const getStats of [lstat, stat]) {
    const found = await getStats(place).catch(() => undefined);
    if (found === undefined || found.isFile() || found.isSymbolicLink() || found.isDirectory()) continue;
    throw new SandboxdError(`${shown} is not a file, and would be replaced by one; choose another name`);
  }
}
