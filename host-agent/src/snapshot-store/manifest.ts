// The manifest of a snapshot in the store: which chunks make its files. It is written last, and makes it exist.
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { z } from 'zod';
import { AppError, toError } from '../lib/errors.ts';
import { BLOCK_BYTES, MAX_BLOCKS, pieceLength } from './changes.ts';
import { CHUNK_BYTES, CHUNK_NAME } from './chunk.ts';
import { damaged, type StoreKeys } from './store-keys.ts';

export const STORE_FORMAT = 1;
/** Of a manifest whose files have changes; hosts of earlier versions refuse it. */
const CHANGES_FORMAT = 2;
/** As it is stored. 64 GiB of memory take 2.3 MiB. */
export const MAX_SEALED_MANIFEST_BYTES = 16 * 2 ** 20;
/** Limit against decompression bombs. */
const MAX_MANIFEST_BYTES = 64 * 2 ** 20;
/** The disks of a guest are sparse. */
const MAX_FILE_BYTES = 2 ** 50;
const MAX_CHUNKS = 2 ** 20;
const MAX_FILES = 8;
const MAX_REASON_CHARS = 300;

const fileSchema = z.strictObject({
  /** What it is, for the reader. */
  part: z.string().regex(/^[a-z]{1,16}$/),
  sizeBytes: z.int().min(0).max(MAX_FILE_BYTES),
  /** Number of the chunk in the file, and its name; the others are zeros. */
  chunks: z
    .array(z.tuple([z.int().min(0), z.string().regex(CHUNK_NAME)]))
    .max(MAX_CHUNKS)
    .readonly(),
  /** Of what the chunks make: number of blocks of each piece, and the name under which it is stored as a chunk. */
  changes: z
    .array(z.tuple([z.int().min(1).max(MAX_BLOCKS), z.string().regex(CHUNK_NAME)]))
    .max(MAX_CHUNKS)
    .readonly()
    .optional(),
});

export const snapshotIdSchema = z.string().regex(/^snap_[0-9a-v]{13}$/);
/** A paused sandbox that leaves its host, and which departure of it: none is ever overwritten. */
export const parkedIdSchema = z.string().regex(/^sbx_[0-9a-v]{13}\/[0-9a-f]{32}$/);
/** An image: SHA-256 of its root filesystem and config. */
export const imageIdSchema = z.string().regex(/^[0-9a-f]{64}$/);
const idSchema = z.union([snapshotIdSchema, parkedIdSchema, imageIdSchema]);

const schema = z.strictObject({
  formatVersion: z.literal([STORE_FORMAT, CHANGES_FORMAT]),
  id: idSchema,
  /** Whose chunks they are; absent: of clients without a tenant. */
  tenant: z.string().max(256).optional(),
  /** What the daemon needs to know about it; the store does not read it. */
  description: z.unknown(),
  files: z.array(fileSchema).max(MAX_FILES).readonly(),
});

export type StoreManifest = z.infer<typeof schema>;
export type StoredFile = StoreManifest['files'][number];
/** `length`: of its content; `where`: for messages. */
export type StoredObject = { readonly name: string; readonly length: number; readonly where: string };

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

export const MANIFESTS = 'snapshots/';
/** Paused sandboxes between two hosts. */
export const PARKED = 'sandboxes/';
export const IMAGES = 'images/';
/** What sandboxes that are to leave sent while they ran: no manifests, and gone once a host has them. */
export const AHEAD = 'ahead/';

export function manifestPath(id: string): string {
  if (id.startsWith('sbx_')) return `${PARKED}${id}`;
  return `${isImageId(id) ? IMAGES : MANIFESTS}${id}`;
}

export function isImageId(id: string): boolean {
  return imageIdSchema.safeParse(id).success;
}

/** Undefined for what is not a path of a manifest. */
export function idOfPath(path: string): string | undefined {
  const id = idSchema.safeParse(path.slice(path.indexOf('/') + 1)).data;
  return id !== undefined && manifestPath(id) === path ? id : undefined;
}

/** `path`: of another object than the one that makes it exist. */
export async function sealManifest(
  keys: StoreKeys,
  manifest: StoreManifest,
  path = manifestPath(manifest.id),
): Promise<Buffer> {
  const sealed = keys.seal(path, await compress(JSON.stringify(manifest)));
  if (sealed.length <= MAX_SEALED_MANIFEST_BYTES) return sealed;
  throw new AppError('too_large', `${manifest.id} has more chunks than the snapshot store takes`);
}

/** AppError `internal` with the reason. */
export async function openManifest(
  keys: StoreKeys,
  id: string,
  sealed: Buffer,
  path = manifestPath(id),
): Promise<StoreManifest> {
  const packed = keys.open(path, sealed);
  try {
    const text = await decompress(packed, { maxOutputLength: MAX_MANIFEST_BYTES });
    const manifest = schema.parse(JSON.parse(text.toString('utf8')));
    if (manifest.id !== id) throw new Error(`it is of ${manifest.id}`);
    for (const file of manifest.files) checkChunks(file);
    return manifest;
  } catch (cause) {
    const reason = toError(cause).message.replaceAll(/\s+/g, ' ').slice(0, MAX_REASON_CHARS);
    throw damaged(`the manifest of ${id} cannot be used: ${reason}`, cause);
  }
}

function checkChunks({ part, sizeBytes, chunks, changes = [] }: StoredFile): void {
  let next = 0;
  for (const [index] of chunks) {
    if (index < next || index * CHUNK_BYTES >= sizeBytes)
      throw new Error(`its ${part} has a chunk ${index}, out of order or behind its end`);
    next = index + 1;
  }
  const blocks = changes.reduce((sum, [blocks]) => sum + blocks, 0);
  if (blocks > Math.ceil(sizeBytes / BLOCK_BYTES))
    throw new Error(`its ${part} has more changes than blocks`);
}

/** Of a manifest with these files: the first that has all that they need. */
export function formatOf(files: readonly StoredFile[]): StoreManifest['formatVersion'] {
  return files.some(({ changes = [] }) => changes.length > 0) ? CHANGES_FORMAT : STORE_FORMAT;
}

/** All that a file needs. */
export function* objectsOf(file: StoredFile): Generator<StoredObject> {
  const { part, chunks, changes = [] } = file;
  for (const [index, name] of chunks)
    yield { name, length: chunkLength(file, index), where: `${part} at ${index * CHUNK_BYTES}` };
  for (const [at, [blocks, name]] of changes.entries())
    yield { name, length: pieceLength(blocks), where: `changes ${at} of ${part}` };
}

/** Disk space that a file takes at most, without its chunks that `isThere` says are written. */
export function diskBytesOf(
  { sizeBytes, chunks, changes = [] }: StoredFile,
  isThere: (index: number) => boolean = () => false,
): number {
  const missing = chunks.filter(([index]) => !isThere(index)).length * CHUNK_BYTES;
  const changed = changes.reduce((sum, [blocks]) => sum + blocks * BLOCK_BYTES, 0);
  // Those that are in a chunk need nothing more.
  const whole = Math.ceil(sizeBytes / CHUNK_BYTES) * CHUNK_BYTES;
  return missing + Math.min(changed, whole - chunks.length * CHUNK_BYTES);
}

/** All chunks are whole, but the last of a file. */
export function chunkLength({ sizeBytes }: Pick<StoredFile, 'sizeBytes'>, index: number): number {
  return Math.min(CHUNK_BYTES, sizeBytes - index * CHUNK_BYTES);
}
