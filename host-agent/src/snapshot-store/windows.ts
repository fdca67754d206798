// A file in windows: the aligned pieces that become its chunks.
import { type FileHandle, open } from 'node:fs/promises';
import { readExtents } from '../lib/extents.ts';
import { CHUNK_BYTES } from './chunk.ts';
import { chunkLength } from './manifest.ts';

const ZEROS = Buffer.alloc(CHUNK_BYTES);

export type Window = {
  readonly part: string;
  readonly path: string;
  readonly index: number;
  readonly bytes: Buffer;
};

/** The aligned chunks of a file that are not all zeros. */
export async function* readWindows(
  file: FileHandle,
  part: string,
  path: string,
  size: number,
): AsyncGenerator<Window> {
  let next = 0;
  for (const { offset, length } of await readExtents(path)) {
    const last = Math.floor((offset + length - 1) / CHUNK_BYTES);
    for (let index = Math.max(next, Math.floor(offset / CHUNK_BYTES)); index <= last; index++) {
      next = index + 1;
      const bytes = Buffer.allocUnsafe(chunkLength({ sizeBytes: size }, index));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, index * CHUNK_BYTES);
      if (bytesRead !== bytes.length) throw new Error(`${path} became shorter while it was read`);
      if (!bytes.equals(ZEROS.subarray(0, bytes.length))) yield { part, path, index, bytes };
    }
  }
}

export async function readWindow(path: string, index: number): Promise<Buffer> {
  await using file = await open(path, 'r');
  const { size } = await file.stat();
  const bytes = Buffer.alloc(chunkLength({ sizeBytes: size }, index));
  await file.read(bytes, 0, bytes.length, index * CHUNK_BYTES);
  return bytes;
}
