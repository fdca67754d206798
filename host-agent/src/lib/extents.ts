// Sparse files: the ranges that hold data, and a checksum over only those.
import { open, stat } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { runProgram } from './programs.ts';

type Extent = { readonly offset: number; readonly length: number };

const CHUNK_BYTES = 1 << 20;

/** Disk space that a file occupies; 0 if it does not exist. */
export async function allocatedBytes(path: string): Promise<number> {
  return stat(path).then(
    ({ blocks }) => blocks * 512,
    () => 0,
  );
}

/** Parses the table that `filefrag -v -b1` prints; ranges beyond `sizeBytes` are cut. */
export function parseExtents(text: string, sizeBytes: number): Extent[] {
  const extents: { offset: number; length: number }[] = [];
  for (const line of text.split('\n')) {
    const match = /^\s*\d+:\s*(\d+)\.\.\s*(\d+):/.exec(line);
    if (match === null) continue;
    const offset = Number(match[1]);
    const end = Math.min(Number(match[2]) + 1, sizeBytes);
    const last = extents.at(-1);
    if (last !== undefined && last.offset + last.length === offset) last.length = end - last.offset;
    else if (end > offset) extents.push({ offset, length: end - offset });
  }
  return extents;
}

/** Bytes in the same table that no other file shares, as a copy with reflinks does. */
export function parseUniqueBytes(text: string): number {
  let sum = 0;
  for (const line of text.split('\n')) {
    const [, start, end, flags = ''] = /^\s*\d+:\s*(\d+)\.\.\s*(\d+):(.*)$/.exec(line) ?? [];
    if (!/\bshared\b/.test(flags)) sum += start === undefined ? 0 : Number(end) + 1 - Number(start);
  }
  return sum;
}

/** Disk space of a file that is freed with it; all of it if the file system does not report sharing. */
export async function uniqueBytes(path: string): Promise<number> {
  const allocated = await allocatedBytes(path);
  const table = await readTable(path).catch(() => undefined);
  return table === undefined ? allocated : Math.min(allocated, parseUniqueBytes(table));
}

/** Without -s (sync): data that is not written back yet is listed as well. */
async function readTable(path: string): Promise<string> {
  const options = { maxBuffer: 256 * 1024 * 1024 };
  return (await runProgram('filefrag', ['-v', '-b1', '--', path], options)).stdout;
}

/** Allocated ranges of a file; the whole file if the file system does not report them. */
export async function readExtents(path: string): Promise<Extent[]> {
  const { size } = await stat(path);
  try {
    return parseExtents(await readTable(path), size);
  } catch {
    return [{ offset: 0, length: size }];
  }
}

/**
 * CRC-32 over the file's size and its non-zero chunks of 1 MiB, each with its offset. It depends on the content only,
 * not on how the file is allocated. Rejects with the signal's reason.
 */
export async function checksumSparse(path: string, signal?: AbortSignal): Promise<string> {
  await using file = await open(path, 'r');
  const { size } = await file.stat();
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  let sum = crc32(`${size}`);
  let nextOffset = 0;
  for (const extent of await readExtents(path)) {
    const first = Math.max(nextOffset, extent.offset - (extent.offset % CHUNK_BYTES));
    for (let offset = first; offset < extent.offset + extent.length; offset += CHUNK_BYTES) {
      signal?.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, offset);
      const chunk = buffer.subarray(0, bytesRead);
      if (!isZero(chunk)) sum = crc32(chunk, crc32(`@${offset}`, sum));
      nextOffset = offset + CHUNK_BYTES;
    }
  }
  return sum.toString(16).padStart(8, '0');
}

const ZEROS = Buffer.alloc(CHUNK_BYTES);

function isZero(chunk: Buffer): boolean {
  return chunk.equals(ZEROS.subarray(0, chunk.length));
}
