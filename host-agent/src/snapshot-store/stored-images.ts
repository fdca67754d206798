// Images in the bucket: the root filesystem of each as chunks, as those of a snapshot, and names that lead to it. They
// are of all tenants, as on one host.
import { z } from 'zod';
import { firstLine } from '../lib/errors.ts';
import {
  IMAGES,
  imageIdSchema,
  MAX_SEALED_MANIFEST_BYTES,
  manifestPath,
  openManifest,
  type StoreManifest,
} from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import { damaged, type StoreKeys } from './store-keys.ts';

export const NAMES = 'names/';
const MAX_NAME_BYTES = 8192;
const PART = 'rootfs';
/** An image without a name may still be what a digest leads to. */
export const MAX_UNNAMED_AGE_MS = 30 * 24 * 3_600_000;

const named = z.object({ ref: z.string(), id: imageIdSchema });

/** That of snapshots. */
export type Transfer = {
  upload(
    upload: {
      readonly id: string;
      readonly tenant: undefined;
      readonly description: unknown;
      readonly files: readonly { readonly part: string; readonly path: string }[];
    },
    signal: AbortSignal,
  ): Promise<unknown>;
  download(
    manifest: StoreManifest,
    paths: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<unknown>;
};

export type StoredImageFile = {
  /** SHA-256 of root filesystem and config. */
  readonly id: string;
  /** JSON. */
  readonly description: unknown;
  readonly path: string;
};

export type FoundImage = {
  readonly id: string;
  readonly description: unknown;
  /** Writes the root filesystem into a file that must not exist. AppError `internal`, `upstream`. */
  readonly download: (path: string, signal: AbortSignal) => Promise<void>;
};

export class StoredImages {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;
  readonly #transfer: Transfer;

  constructor(bucket: Bucket, keys: StoreKeys, transfer: Transfer) {
    this.#bucket = bucket;
    this.#keys = keys;
    this.#transfer = transfer;
  }

  /** By a reference or an id. AppError `internal` if what leads to it is damaged, `upstream`. */
  async find(text: string, signal: AbortSignal): Promise<FoundImage | undefined> {
    const id = imageIdSchema.safeParse(text).data ?? (await this.#lookUp(text, signal));
    if (id === undefined) return undefined;
    const path = manifestPath(id);
    const sealed = await this.#bucket.get(path, MAX_SEALED_MANIFEST_BYTES, signal);
    if (sealed === undefined) return undefined;
    const manifest = await openManifest(this.#keys, id, sealed);
    const download = async (to: string, until: AbortSignal): Promise<void> => {
      await this.#transfer.download(manifest, { [PART]: to }, until);
    };
    return { id, description: manifest.description, download };
  }

  /** Sends what is not there, then its names. `isLatest`: they lead to it from now on, also those of another image. */
  async offer(
    { id, description, path }: StoredImageFile,
    refs: readonly string[],
    { isLatest }: { readonly isLatest: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const files = [{ part: PART, path }];
    const isThere = async (): Promise<boolean> =>
      (await this.#bucket.head(manifestPath(id), signal)) !== undefined;
    const upload = { id, tenant: undefined, description, files };
    if (!(await isThere())) await this.#transfer.upload(upload, signal);
    for (const ref of refs) {
      if (!isLatest && (await this.#lookUp(ref, signal)) !== undefined) continue;
      const key = this.#pathOf(ref);
      await this.#bucket.put(key, this.#keys.seal(key, Buffer.from(JSON.stringify({ ref, id }))), signal);
    }
    // A collection may have deleted it while it had no name.
    if (!(await isThere())) await this.#transfer.upload(upload, signal);
  }

  /** The reference leads nowhere any more. False if it did not before, or to another image than `id`. */
  async forget(ref: string, id: string | undefined, signal: AbortSignal): Promise<boolean> {
    const known = await this.#lookUp(ref, signal);
    if (known === undefined || (id !== undefined && known !== id)) return false;
    await this.#bucket.remove(this.#pathOf(ref), signal);
    return true;
  }

  /** Its chunks stay until they are collected. */
  async remove(id: string, signal: AbortSignal): Promise<void> {
    await this.#bucket.remove(manifestPath(id), signal);
  }

  async #lookUp(ref: string, signal: AbortSignal): Promise<string | undefined> {
    const path = this.#pathOf(ref);
    const found = await readName(this.#bucket, this.#keys, path, signal);
    if (found !== undefined && found.ref !== ref) throw damaged(`${path} is of another name`);
    return found?.id;
  }

  /** Who reads the bucket learns no name. */
  #pathOf(ref: string): string {
    return `${NAMES}${this.#keys.tenant(undefined).nameOf(Buffer.from(`name of an image\n${ref}`))}`;
  }
}

async function readName(
  bucket: Bucket,
  keys: StoreKeys,
  path: string,
  signal: AbortSignal,
): Promise<{ readonly ref: string; readonly id: string } | undefined> {
  const sealed = await bucket.get(path, MAX_NAME_BYTES, signal);
  if (sealed === undefined) return undefined;
  const text = keys.open(path, sealed).toString();
  try {
    return named.parse(JSON.parse(text));
  } catch (cause) {
    throw damaged(`${path} cannot be used: ${firstLine(cause)}`, cause);
  }
}

/**
 * Removes names that lead nowhere, and images that had no name for a month. AppError `internal`, with nothing removed,
 * if a name cannot be read.
 */
export async function collectImages(bucket: Bucket, keys: StoreKeys, signal: AbortSignal): Promise<void> {
  // Names first: the image of each is older.
  const names: { readonly path: string; readonly id: string }[] = [];
  for await (const page of bucket.list(NAMES, signal))
    for (const { key } of page) {
      const found = await readName(bucket, keys, key, signal);
      if (found !== undefined) names.push({ path: key, id: found.id });
    }
  const images = new Map<string, number>();
  for await (const page of bucket.list(IMAGES, signal))
    for (const { key, agoMs } of page) images.set(key.slice(IMAGES.length), agoMs);
  for (const { path, id } of names) if (!images.has(id)) await bucket.remove(path, signal);
  const used = new Set(names.map(({ id }) => id));
  for (const [id, agoMs] of images)
    if (!used.has(id) && agoMs > MAX_UNNAMED_AGE_MS) await bucket.remove(`${IMAGES}${id}`, signal);
}
