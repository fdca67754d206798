// What an open file holds, in pieces or as a copy: no more of it than it had when that began, and ended by a signal at any piece.
import { constants } from 'node:fs';
import { copyFile, type FileHandle, open, rm } from 'node:fs/promises';
import { AppError } from './errors.ts';
import { pathOf } from './held-path.ts';

const CHUNK_BYTES = 1 << 20;
const ZEROS = Buffer.alloc(CHUNK_BYTES);

export type CopyOptions = {
  readonly maxBytes: number;
  /** What has too many bytes, for the message. */
  readonly what: string;
  readonly signal?: AbortSignal | undefined;
};

/** Of a regular file, from its beginning. Rejects with the signal's reason. */
export async function* readPieces(file: FileHandle, signal?: AbortSignal): AsyncGenerator<Buffer, void> {
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
 * Copies a regular file to the new file `to`, which shares its extents where the file system can and has holes where there are
 * only zeros. Resolves with its bytes. AppError invalid_argument for more than `maxBytes`.
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
  for await (const piece of readPieces(from, signal)) {
    if (!piece.equals(ZEROS.subarray(0, piece.length))) await copy.write(piece, 0, piece.length, bytes);
    bytes = assertSize(bytes + piece.length);
  }
  await copy.truncate(bytes);
  return bytes;
}

/** Where the file system can. */
async function clone(from: FileHandle, to: string): Promise<boolean> {
  try {
    await copyFile(pathOf(from), to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    // What else is wrong the copy of its bytes says.
    await rm(to, { force: true });
    return false;
  }
}
