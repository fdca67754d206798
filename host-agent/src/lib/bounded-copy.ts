// Reads or copies an open file, up to its size at the start of the operation. A signal can abort it between chunks.
import { constants } from 'node:fs';
import { copyFile, type FileHandle, open, rm } from 'node:fs/promises';
import { AppError } from './errors.ts';
import { pathOf } from './held-path.ts';
import { writeFully } from './write-fully.ts';

const CHUNK_BYTES = 1 << 20;
const ZEROS = Buffer.alloc(CHUNK_BYTES);

type CopyOptions = {
  readonly maxBytes: number;
  /** Names the file in the error message. */
  readonly what: string;
  readonly signal?: AbortSignal | undefined;
};

/** Yields a regular file from its beginning. Rejects with the signal's reason. */
export async function* readChunks(file: FileHandle, signal?: AbortSignal): AsyncGenerator<Buffer, void> {
  const { size } = await file.stat();
  for (let at = 0; at < size; ) {
    signal?.throwIfAborted();
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - at));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/**
 * Copies a regular file to the new file `to`: shares extents if the file system supports it, and leaves holes for
 * zeros. Returns the size in bytes. AppError invalid_argument for more than `maxBytes`.
 */
export async function copyBounded(from: FileHandle, to: string, options: CopyOptions): Promise<number> {
  const { maxBytes, what, signal } = options;
  const assertSize = (bytes: number) => {
    if (bytes > maxBytes)
      throw new AppError(
        'invalid_argument',
        `${what} has more than ${maxBytes} bytes, and no image may be larger`,
      );
    return bytes;
  };
  assertSize((await from.stat()).size);
  signal?.throwIfAborted();
  if (await clone(from, to)) {
    await using copy = await open(to, 'r');
    return assertSize((await copy.stat()).size);
  }
  await using copy = await open(to, 'wx', 0o600);
  let bytes = 0;
  for await (const chunk of readChunks(from, signal)) {
    if (!chunk.equals(ZEROS.subarray(0, chunk.length))) await writeFully(copy, chunk, bytes);
    bytes = assertSize(bytes + chunk.length);
  }
  await copy.truncate(bytes);
  return bytes;
}

/** A reflink copy; false if the file system does not support it. */
async function clone(from: FileHandle, to: string): Promise<boolean> {
  try {
    await copyFile(pathOf(from), to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    // A byte copy follows; if it fails as well, its error is reported.
    await rm(to, { force: true });
    return false;
  }
}
