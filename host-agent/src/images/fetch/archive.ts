// Saved archives of images: put on disk unpacked from gzip or zstd, and asked which images they hold.
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { type TarEntry, TarError, TarReader, type TarSink } from '@sandboxd/proto';
import { AppError } from '../../lib/errors.ts';
import { explainDamage, HEAD_BYTES, packingOf } from '../packing.ts';
import { formatReference, parseReference } from '../reference.ts';

export type Pieces = AsyncIterable<Uint8Array>;

export type ArchivedImage = {
  /** As skopeo names it within the archive. */
  readonly source: string;
  /** What the archive calls it. */
  readonly tags: readonly string[];
};

export type ImageArchive =
  | { readonly kind: 'docker-archive'; readonly images: readonly ArchivedImage[] }
  /** The text of its index. */
  | { readonly kind: 'oci-archive'; readonly index: string };

const MAX_DOCUMENT_BYTES = 8 << 20;
const DOCUMENTS: readonly string[] = ['manifest.json', 'index.json'];
const CHUNK_BYTES = 1 << 20;
/** All of an archive may unpack to so many times its size, and to this in any case. */
const MAX_RATIO = 200;
const FREE_RATIO_BYTES = 128 << 20;

/**
 * Writes what comes to `path`; gives how many bytes may be made of it. AppError invalid_argument for what cannot be unpacked, or to
 * more than that.
 */
export async function spool(
  pieces: Pieces,
  path: string,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<number> {
  const packed = `${path}.packed`;
  await pipeline(limit(pieces, maxBytes), createWriteStream(packed, { mode: 0o600 }), { signal });
  const { size } = await stat(packed);
  const mostBytes = Math.min(maxBytes, Math.max(FREE_RATIO_BYTES, MAX_RATIO * size));
  const packing = packingOf(await readHead(packed));
  if (packing === undefined) {
    await rename(packed, path);
    return mostBytes;
  }
  if (packing.unpack === undefined) {
    const message = `the archive is packed by ${packing.name}; send it packed by gzip or zstd, or not at all`;
    throw new AppError('invalid_argument', message);
  }
  try {
    const unpacked = createReadStream(packed, { highWaterMark: CHUNK_BYTES }).pipe(
      packing.unpack({ chunkSize: CHUNK_BYTES }),
    );
    await pipeline(limit(unpacked, mostBytes), createWriteStream(path, { mode: 0o600 }), { signal });
    return mostBytes;
  } catch (error) {
    const damage = explainDamage(error);
    if (damage === undefined) throw error;
    throw new AppError('invalid_argument', `the archive is damaged: ${damage}`, { cause: error });
  } finally {
    await rm(packed, { force: true });
  }
}

/** AppError invalid_argument for what is no archive of images. */
export async function inspectArchive(path: string): Promise<ImageArchive> {
  const finder = new DocumentFinder();
  const reader = new TarReader(finder);
  try {
    for await (const piece of createReadStream(path, { highWaterMark: CHUNK_BYTES }))
      reader.push(piece as Buffer);
    reader.end();
  } catch (error) {
    if (error instanceof TarError)
      throw new AppError('invalid_argument', `the archive of images: ${error.message}`, { cause: error });
    throw error;
  }
  const docker = finder.documents.get('manifest.json');
  if (docker !== undefined) return { kind: 'docker-archive', images: toDockerImages(docker) };
  const oci = finder.documents.get('index.json');
  if (oci !== undefined) return { kind: 'oci-archive', index: oci };
  throw new AppError(
    'invalid_argument',
    'the archive holds no images: neither the manifest.json of docker save nor the index.json of an OCI layout is in it',
  );
}

export type Choice<T> = {
  readonly images: readonly T[];
  /** Holds them; only of those of an archive anybody can say which. */
  readonly holder: 'archive' | 'directory' | 'list';
  readonly tag?: string | undefined;
};

/** The one that is asked for. AppError invalid_argument naming those that there are. */
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
  const wanted = canonical(tag);
  const found = images.find(({ tags }) => tags.some((each) => each === tag || canonical(each) === wanted));
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

/** Keeps small documents of the archive's top. */
class DocumentFinder implements TarSink {
  readonly documents = new Map<string, string>();
  #name: string | undefined;
  #pieces: Buffer[] = [];

  begin({ type, name, sizeBytes }: TarEntry): void {
    const plain = name.replace(/^(?:\.?\/)+/, '');
    const isWanted = type === 'file' && DOCUMENTS.includes(plain) && sizeBytes <= MAX_DOCUMENT_BYTES;
    this.#name = isWanted ? plain : undefined;
    this.#pieces = [];
  }

  content(bytes: Buffer): void {
    if (this.#name !== undefined) this.#pieces.push(Buffer.from(bytes));
  }

  finish(): void {
    if (this.#name !== undefined) this.documents.set(this.#name, Buffer.concat(this.#pieces).toString());
    this.#name = undefined;
  }
}

/** One that is listed again under another name is one image with both. */
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

async function* limit(pieces: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > maxBytes)
      throw new AppError(
        'invalid_argument',
        `the archive has, or unpacks to, more than ${maxBytes} bytes; for its size no more are possible`,
      );
    yield piece;
  }
}

async function readHead(path: string): Promise<Buffer> {
  await using file = await open(path, 'r');
  const { buffer, bytesRead } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
  return buffer.subarray(0, bytesRead);
}
