// Image archives: spools them to disk, decompressed from gzip or zstd, and lists the images in them.
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { ArchiveError, type ArchiveMember, readArchive } from '@sandboxd/api/archive';
import { AppError } from '../../lib/errors.ts';
import { explainDamage, HEAD_BYTES, packingOf } from '../packing.ts';
import { formatReference, parseReference } from '../reference.ts';

export type Chunks = AsyncIterable<Uint8Array>;

export type ArchivedImage = {
  /** The image's name in skopeo's source syntax. */
  readonly source: string;
  /** Tags that the archive lists for the image. */
  readonly tags: readonly string[];
};

export type ImageArchive =
  | { readonly kind: 'docker-archive'; readonly images: readonly ArchivedImage[] }
  /** The text of index.json. */
  | { readonly kind: 'oci-archive'; readonly index: string };

const MAX_DOCUMENT_BYTES = 8 << 20;
const DOCUMENTS: readonly string[] = ['manifest.json', 'index.json'];
const CHUNK_BYTES = 1 << 20;
/**
 * Maximum ratio of the decompressed to the compressed size. Below FREE_RATIO_BYTES decompressed, any ratio is accepted.
 */
const MAX_RATIO = 200;
const FREE_RATIO_BYTES = 128 << 20;

/**
 * Writes the archive to `path`; returns the limit in bytes for everything unpacked from it. AppError invalid_argument
 * for an archive that is damaged or exceeds the limit.
 */
export async function spool(
  chunks: Chunks,
  path: string,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<number> {
  const packed = `${path}.packed`;
  await pipeline(limit(chunks, maxBytes), createWriteStream(packed, { mode: 0o600 }), { signal });
  const { size } = await stat(packed);
  const maxUnpackedBytes = Math.min(maxBytes, Math.max(FREE_RATIO_BYTES, MAX_RATIO * size));
  const packing = packingOf(await readHead(packed));
  if (packing === undefined) {
    await rename(packed, path);
    return maxUnpackedBytes;
  }
  if (packing.unpack === undefined) {
    const message = `the archive is packed by ${packing.name}; send it packed by gzip or zstd, or not at all`;
    throw new AppError('invalid_argument', message);
  }
  try {
    const unpacked = createReadStream(packed, { highWaterMark: CHUNK_BYTES }).pipe(
      packing.unpack({ chunkSize: CHUNK_BYTES }),
    );
    await pipeline(limit(unpacked, maxUnpackedBytes), createWriteStream(path, { mode: 0o600 }), { signal });
    return maxUnpackedBytes;
  } catch (error) {
    const damage = explainDamage(error);
    if (damage === undefined) throw error;
    throw new AppError('invalid_argument', `the archive is damaged: ${damage}`, { cause: error });
  } finally {
    await rm(packed, { force: true });
  }
}

/** AppError invalid_argument for a file that is not an image archive. */
export async function inspectArchive(path: string): Promise<ImageArchive> {
  const documents = await useArchive(path, undefined, readDocuments);
  const docker = documents.get('manifest.json');
  if (docker !== undefined) return { kind: 'docker-archive', images: toDockerImages(docker) };
  const oci = documents.get('index.json');
  if (oci !== undefined) return { kind: 'oci-archive', index: oci };
  throw new AppError(
    'invalid_argument',
    'the archive holds no images: neither the manifest.json of docker save nor the index.json of an OCI layout is in it',
  );
}

export type Choice<T> = {
  readonly images: readonly T[];
  /** What holds the images; a tag can be requested only for an archive. */
  readonly holder: 'archive' | 'directory' | 'list';
  readonly tag?: string | undefined;
};

/** Returns the requested image. AppError invalid_argument with the list of available tags. */
export function chooseImage<T extends Pick<ArchivedImage, 'tags'>>({ images, holder, tag }: Choice<T>): T {
  const known = images.flatMap(({ tags }) => tags);
  const list =
    known.length === 0 ? 'none of its images has a tag' : `it has ${known.slice(0, 20).join(', ')}`;
  const [first] = images;
  if (tag === undefined) {
    if (images.length === 1 && first !== undefined) return first;
    const advice = holder === 'archive' ? 'say which by tag' : 'only one can be taken';
    const problem =
      images.length === 0
        ? `the ${holder} holds no image`
        : `the ${holder} holds ${images.length} images (${list}); ${advice}`;
    throw new AppError('invalid_argument', problem);
  }
  const requested = canonical(tag);
  const found = images.find(({ tags }) => tags.some((each) => each === tag || canonical(each) === requested));
  if (found !== undefined) return found;
  throw new AppError(
    'invalid_argument',
    `the ${holder} has no image ${JSON.stringify(tag.slice(0, 200))}; ${list}`,
  );
}

function canonical(text: string): string {
  const reference = parseReference(text);
  return reference === undefined ? text : formatReference(reference);
}

/** Passes the archive's members to `use`, whose ArchiveErrors become AppErrors invalid_argument. */
export async function useArchive<T>(
  path: string,
  signal: AbortSignal | undefined,
  use: (members: AsyncIterable<ArchiveMember>) => Promise<T>,
): Promise<T> {
  try {
    return await use(readArchive(createReadStream(path, { highWaterMark: CHUNK_BYTES, signal })));
  } catch (error) {
    if (!(error instanceof ArchiveError)) throw error;
    throw new AppError('invalid_argument', `the archive of images: ${error.message}`, { cause: error });
  }
}

/** A member's name without the prefixes of the top level, `./` and `/`. */
export function plainName({ header }: ArchiveMember): string {
  return header.name.replace(/^(?:\.?\/)+/, '');
}

/** The small documents at the top level of the archive. */
async function readDocuments(members: AsyncIterable<ArchiveMember>): Promise<Map<string, string>> {
  const documents = new Map<string, string>();
  for await (const member of members) {
    const name = plainName(member);
    const { type, size } = member.header;
    if (type !== 'file' || !DOCUMENTS.includes(name) || size > MAX_DOCUMENT_BYTES) continue;
    documents.set(name, await text(member.body));
  }
  return documents;
}

/** Entries with the same config and layers are one image with several tags. */
function toDockerImages(text: string): ArchivedImage[] {
  const list = parseJson(text, 'manifest.json of the archive');
  if (!Array.isArray(list)) throw noImages('manifest.json of the archive');
  const known = new Map<string, ArchivedImage>();
  for (const [at, each] of list.entries()) {
    const { Config, Layers, RepoTags } = isObject(each) ? each : {};
    const tags = Array.isArray(RepoTags) ? RepoTags.map(String) : [];
    const key = JSON.stringify([Config, Layers]);
    const { source, tags: others } = known.get(key) ?? { source: `@${at}`, tags: [] };
    known.set(key, { source, tags: [...new Set([...others, ...tags])] });
  }
  return [...known.values()];
}

function parseJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw noImages(name);
  }
}

export function noImages(name: string): AppError {
  return new AppError('invalid_argument', `the ${name} does not list images`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

async function* limit(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > maxBytes)
      throw new AppError(
        'invalid_argument',
        `the archive has, or unpacks to, more than ${maxBytes} bytes; for its size no more are possible`,
      );
    yield chunk;
  }
}

async function readHead(path: string): Promise<Buffer> {
  await using file = await open(path, 'r');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
  return buffer.subarray(0, bytesRead);
}
