// Writes the files of a manifest from its chunks. Files that have some of them already get only what differs.
import { open } from 'node:fs/promises';
import { AppError, firstLine } from '../lib/errors.ts';
import { forEachAtOnce } from '../lib/for-each-at-once.ts';
import { everyOne } from '../lib/wait.ts';
import { writeFully } from '../lib/write-fully.ts';
import { pieceLength, readPiece } from './changes.ts';
import { CHUNK_BYTES, chunkPath, MAX_SEALED_CHUNK_BYTES, openChunk } from './chunk.ts';
import { chunkLength, type StoredFile, type StoreManifest } from './manifest.ts';
import { type Bucket, MAX_REQUESTS } from './s3/bucket.ts';
import { damaged, type TenantKeys } from './store-keys.ts';
import { type Range, WrittenWindows } from './written.ts';

const ZEROS = Buffer.alloc(CHUNK_BYTES);

/** Names of the chunks of a file, by their number; undefined: it may be half written. The others are zeros. */
export type FileContent = Map<number, string | undefined>;

export type DownloadOptions = {
  readonly onChunk?: () => void;
  /** Before each chunk: what is more urgent goes first. */
  readonly giveWay?: (signal: AbortSignal) => Promise<void>;
  /**
   * What files have, by their part: those with an entry exist, and have exactly that. It is kept up to date, also when
   * the download fails, so that another one goes on from there.
   */
  readonly content?: Map<string, FileContent>;
};

/** `written`: by part, whole windows in which something was written; the last may reach behind the end. */
export type Downloaded = {
  readonly chunks: number;
  readonly bytes: number;
  readonly written: ReadonlyMap<string, readonly Range[]>;
};

type From = { readonly bucket: Pick<Bucket, 'get'>; readonly keys: TenantKeys };

/**
 * Files without an entry in `content` must not exist. AppError `internal` if a chunk is missing or damaged, `upstream`;
 * the caller removes what was written.
 */
export async function downloadFiles(
  from: From,
  { id, files }: StoreManifest,
  paths: Readonly<Record<string, string>>,
  signal: AbortSignal,
  { onChunk = () => undefined, giveWay, content = new Map() }: DownloadOptions = {},
): Promise<Downloaded> {
  const fetched = { chunks: 0, bytes: 0 };
  const written = new Map<string, WrittenWindows>();
  const fetchFile = async (stored: StoredFile, signal: AbortSignal): Promise<void> => {
    const { part, sizeBytes } = stored;
    const path = paths[part];
    if (path === undefined) throw damaged(`snapshot ${id} has a part ${part}`);
    const windows = new WrittenWindows();
    written.set(part, windows);
    const known = content.get(part);
    await using file = await open(path, known === undefined ? 'wx' : 'r+', 0o600);
    const has: FileContent = known ?? new Map();
    content.set(part, has);
    await file.truncate(sizeBytes);
    const write = async (index: number, bytes: Buffer, name: string | undefined): Promise<void> => {
      has.set(index, undefined);
      windows.add(index * CHUNK_BYTES, bytes.length);
      await writeFully(file, bytes, index * CHUNK_BYTES);
      if (name === undefined) has.delete(index);
      else has.set(index, name);
    };
    await clear(stored, has, write);
    const missing = stored.chunks.filter(([index, name]) => has.get(index) !== name);
    const fetchOne = async ([name, uses]: [string, [number, string][]], signal: AbortSignal) => {
      const [first] = uses;
      if (first === undefined) return;
      await giveWay?.(signal);
      signal.throwIfAborted();
      const length = chunkLength({ sizeBytes }, first[0]);
      const at = `${part} of ${id} at ${first[0] * CHUNK_BYTES}`;
      const plain = await getChunk(from, name, length, at, signal);
      onChunk();
      fetched.chunks += 1;
      fetched.bytes += plain.length;
      for (const [index] of uses) {
        if (chunkLength({ sizeBytes }, index) !== length) throw damaged(`the chunk ${name} has two lengths`);
        await write(index, plain, name);
      }
    };
    const byName = Map.groupBy(missing, ([, name]) => name);
    await forEachAtOnce(byName, MAX_REQUESTS, fetchOne, signal);
    const change = async ([blocks, name]: readonly [number, string], signal: AbortSignal) => {
      const at = `changes of ${part} of ${id}`;
      const piece = await getChunk(from, name, pieceLength(blocks), at, signal);
      onChunk();
      fetched.chunks += 1;
      fetched.bytes += piece.length;
      const write = async ({ offset, bytes }: { offset: number; bytes: Buffer }): Promise<void> => {
        // No chunk has what is there from now on.
        const last = Math.floor((offset + bytes.length - 1) / CHUNK_BYTES);
        for (let index = Math.floor(offset / CHUNK_BYTES); index <= last; index++) has.set(index, undefined);
        windows.add(offset, bytes.length);
        await writeFully(file, bytes, offset);
      };
      await everyOne(partsOf(piece, blocks, sizeBytes, at).map(write));
    };
    await forEachAtOnce(stored.changes ?? [], MAX_REQUESTS, change, signal);
  };
  // Of files that are known there is little to fetch, and much to wait for.
  const atOnce = files.every(({ part }) => content.has(part)) ? files.length : 1;
  await forEachAtOnce(files, Math.max(1, atOnce), fetchFile, signal);
  const ranges = new Map([...written].map(([part, windows]) => [part, windows.ranges()]));
  return { ...fetched, written: ranges };
}

/** What the file has where it is to have zeros. */
async function clear(
  { sizeBytes, chunks }: StoredFile,
  has: FileContent,
  write: (index: number, bytes: Buffer, name: undefined) => Promise<void>,
): Promise<void> {
  if (has.size === 0) return;
  const wanted = new Set(chunks.map(([index]) => index));
  for (const index of [...has.keys()]) {
    if (wanted.has(index)) continue;
    if (index * CHUNK_BYTES >= sizeBytes) has.delete(index);
    else await write(index, ZEROS.subarray(0, chunkLength({ sizeBytes }, index)), undefined);
  }
}

function partsOf(piece: Buffer, blocks: number, sizeBytes: number, at: string) {
  try {
    return [...readPiece(piece, blocks, sizeBytes)];
  } catch (cause) {
    throw damaged(`the ${at} cannot be used: ${firstLine(cause)}`, cause);
  }
}

async function getChunk(
  { bucket, keys }: From,
  name: string,
  length: number,
  at: string,
  signal: AbortSignal,
): Promise<Buffer> {
  try {
    const sealed = await bucket.get(chunkPath(keys, name), MAX_SEALED_CHUNK_BYTES, signal);
    if (sealed === undefined) throw damaged(`the chunk ${name} is missing`);
    return await openChunk(keys, name, sealed, length);
  } catch (cause) {
    const isDamaged = cause instanceof AppError && cause.code === 'internal';
    throw isDamaged ? new AppError('internal', `${cause.message} (${at})`, { stage: 'store', cause }) : cause;
  }
}
