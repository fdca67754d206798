// Files that are there whole or not at all, also in a directory of another user, who can exchange every name in it at any moment.
import { randomBytes } from 'node:crypto';
import { lstat, open, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { Bytes } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';
import { HeldDirectory } from '../platform/held-directory.ts';

/** Under its name only when it is whole. A link of that name is replaced, not followed. SandboxdError for a device or a pipe. */
export async function writeWhole(
  path: string,
  bytes: Bytes,
  signal: AbortSignal,
  mode = 0o666,
): Promise<void> {
  await using directory = await HeldDirectory.open(dirname(path));
  const place = directory.at(basename(path));
  await assertReplaceable(place, path);
  // No name that somebody can have put there before.
  const partial = directory.at(`.sandbox-${randomBytes(8).toString('hex')}.part`);
  await using file = await open(partial, 'wx', mode);
  try {
    for await (const part of bytes) {
      signal.throwIfAborted();
      await file.writeFile(part);
    }
    await rename(partial, place);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

/** To write to /dev/null must not make it a file, and neither must what leads there. */
async function assertReplaceable(place: string, path: string): Promise<void> {
  for (const look of [lstat, stat]) {
    const found = await look(place).catch(() => undefined);
    if (found === undefined || found.isFile() || found.isSymbolicLink() || found.isDirectory()) continue;
    throw new SandboxdError(`${path} is no file, and would be replaced by one; choose another name`);
  }
}
