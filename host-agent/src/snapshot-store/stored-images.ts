// Images in the bucket: the root filesystem of each as chunks, as those of a snapshot, and names that lead to it. They
// are of all tenants, as on one host.
import { stat } from 'node:fs/promises';
import { forEachAtOnce } from '../lib/for-each-at-once.ts';
import { ImageCatalogue, type ListedImage } from './image-catalogue.ts';
import { type FoundName, isDamage, type Named, pathOfName, readName, sealName } from './image-names.ts';
import { ImageShares } from './image-shares.ts';
import { ImageUse } from './image-use.ts';
import {
  isImageId,
  MAX_SEALED_MANIFEST_BYTES,
  manifestPath,
  openManifest,
  type StoreManifest,
} from './manifest.ts';
import { type Bucket, MAX_REQUESTS } from './s3/bucket.ts';
import { MAX_REUSED_AGE_MS } from './seen-chunks.ts';
import { damaged, IMAGES_TENANT, type StoreKeys } from './store-keys.ts';
import type { StoredLimit, StoredUse } from './stored-use.ts';

const PART = 'rootfs';
const DAY_MS = 24 * 3_600_000;
/** One that was asked for earlier is not put: a delete since may have been collected. */
const MAX_ASKED_AGE_MS = 6 * DAY_MS;
/** A use of a name is noted once in this time. */
const NOTED_MS = DAY_MS;
/** Servers give ages in seconds. */
const AGE_PRECISION_MS = 2000;
/** Of hosts that change one name at the same time. */
const ATTEMPTS = 8;

type Dated = Named & { readonly agoMs: number };

/** That of snapshots. */
export type Transfer = {
  upload(
    upload: {
      readonly id: string;
      readonly tenant: string;
      readonly description: unknown;
      readonly files: readonly { readonly part: string; readonly path: string }[];
      readonly isAnew: boolean;
      readonly limit: StoredLimit | undefined;
    },
    signal: AbortSignal,
  ): Promise<unknown>;
  hasAll(manifest: StoreManifest, signal: AbortSignal): Promise<boolean>;
  download(
    manifest: StoreManifest,
    paths: Readonly<Record<string, string>>,
    signal: AbortSignal,
    options: { readonly onChunk: () => void },
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
  /**
   * Writes the root filesystem into a file that must not exist. AppError `internal` if what is there is damaged,
   * `upstream`.
   */
  readonly download: (path: string, signal: AbortSignal, onProgress: () => void) => Promise<void>;
};

export class StoredImages {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;
  readonly #transfer: Transfer;
  readonly #use: ImageUse;
  readonly #catalogue: ImageCatalogue;

  constructor(bucket: Bucket, keys: StoreKeys, transfer: Transfer, use: StoredUse) {
    this.#bucket = bucket;
    this.#keys = keys;
    this.#transfer = transfer;
    this.#use = new ImageUse(use, keys, new ImageShares(bucket, keys, use));
    this.#catalogue = new ImageCatalogue(bucket, keys);
  }

  /** As of the last image that this host sent, or wanted to send; 0 before. */
  usedBytes(): number {
    return this.#use.last();
  }

  /** AppError `internal` if what the name leads to is damaged, `upstream`. */
  async find(ref: string, signal: AbortSignal): Promise<FoundImage | undefined> {
    const path = pathOfName(this.#keys, ref);
    const found = await readName(this.#bucket, this.#keys, path, signal);
    if (found === undefined) return undefined;
    if (found.name === undefined) throw found.problem;
    if (found.name.ref !== ref) throw damaged(`${path} is of another name`);
    const { id } = found.name;
    const image = id === undefined ? undefined : await this.findImage(id, signal);
    if (image === undefined) return undefined;
    // One that is not noted may be collected, and is put by the next pull.
    if (found.agoMs > NOTED_MS && found.etag !== undefined)
      await this.#bucket
        .replace(path, found.etag, sealName(this.#keys, found.name), signal)
        .catch(() => undefined);
    return image;
  }

  /** By its digest, whether a name leads to it or not. AppError as of `find`. */
  async findImage(id: string, signal: AbortSignal): Promise<FoundImage | undefined> {
    const manifest = isImageId(id) ? await this.#readManifest(id, signal) : undefined;
    if (manifest === undefined) return undefined;
    return {
      id: manifest.id,
      description: manifest.description,
      download: async (to, until, onProgress) => {
        await this.#transfer.download(manifest, { [PART]: to }, until, { onChunk: onProgress });
      },
    };
  }

  /**
   * Sends what is not there. `isAnew`: all of it, because some is damaged. AppError forbidden, with nothing sent, if
   * all images would take more than `maxBytes` with this one, or are too many, or if the owner has its share.
   */
  async ensure(
    { id, description, path }: StoredImageFile,
    {
      isAnew,
      maxBytes,
      owner,
    }: { readonly isAnew: boolean; readonly maxBytes: number; readonly owner?: string | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const state = isAnew ? 'damaged' : await this.#stateOf(id, signal);
    if (state === 'there') return;
    const { size, blocks } = await stat(path);
    const isDamaged = state === 'damaged';
    // What is damaged takes its space already.
    const limit = isDamaged
      ? undefined
      : await this.#use.admitImage({ id, owner, sizeBytes: Math.min(size, blocks * 512) }, maxBytes, signal);
    const files = [{ part: PART, path }];
    const upload = { id, tenant: IMAGES_TENANT, description, files, isAnew: isDamaged, limit };
    await this.#transfer.upload(upload, signal);
    this.#use.addImage(description);
  }

  /**
   * The name leads to the image that a pull or import of this time gave, unless a later one or a delete has it.
   * AppError forbidden if there are too many names, or too many of the owner.
   */
  async name(
    ref: string,
    { id, atMs, owner }: { readonly id: string; readonly atMs: number; readonly owner?: string | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    if (Date.now() - atMs > MAX_ASKED_AGE_MS) return;
    const change = (known: Dated | undefined): Named | undefined => {
      if (known === undefined) return { ref, id, atMs };
      if (known.atMs === atMs || !isOlder(known, atMs)) return undefined;
      return { ref, id, atMs: Math.max(atMs, known.atMs + 1) };
    };
    await this.#change(ref, change, signal, owner);
  }

  /** Leads nowhere if it leads to another image since an earlier time: this one is not there, and is what it means. */
  async unname(ref: string, id: string, atMs: number, signal: AbortSignal): Promise<void> {
    const change = (known: Dated | undefined): Named | undefined =>
      known?.id === undefined || known.id === id || known.atMs === atMs || !isOlder(known, atMs)
        ? undefined
        : { ref, atMs: Math.max(known.atMs, atMs - 1) };
    await this.#change(ref, change, signal);
  }

  /** Its chunks stay until they are collected. False: it was not there, or was sent since that time. */
  async withdrawImage(id: string, atMs: number, signal: AbortSignal): Promise<boolean> {
    const path = manifestPath(id);
    const found = isImageId(id) ? await this.#bucket.head(path, signal) : undefined;
    if (found === undefined || found.agoMs + AGE_PRECISION_MS < Date.now() - atMs) return false;
    await this.#bucket.remove(path, signal);
    return true;
  }

  /** All names that lead to it since that time or earlier. */
  async withdrawNames(id: string, atMs: number, signal: AbortSignal): Promise<void> {
    await this.#catalogue.refresh(signal);
    const work = async (ref: string, signal: AbortSignal): Promise<void> => {
      await this.withdraw(ref, id, atMs, signal);
    };
    await forEachAtOnce(this.#catalogue.namesOf(id), MAX_REQUESTS, work, signal);
  }

  /** The newest 10,000. */
  async list(signal: AbortSignal): Promise<readonly ListedImage[]> {
    await this.#catalogue.refresh(signal);
    return this.#catalogue.images();
  }

  /**
   * The name leads nowhere from then on. `id`: unless it leads to another image. False if it led nowhere, or to
   * something later.
   */
  async withdraw(ref: string, id: string | undefined, atMs: number, signal: AbortSignal): Promise<boolean> {
    const change = (known: Dated | undefined): Named | undefined => {
      if (known?.id === undefined || !isOlder(known, atMs)) return undefined;
      return id === undefined || known.id === id ? { ref, atMs: Math.max(atMs, known.atMs) } : undefined;
    };
    return await this.#change(ref, change, signal);
  }

  /** `change`: undefined leaves it as it is. One that cannot be read counts as missing. */
  async #change(
    ref: string,
    change: (known: Dated | undefined) => Named | undefined,
    signal: AbortSignal,
    owner?: string,
  ): Promise<boolean> {
    const path = pathOfName(this.#keys, ref);
    for (let n = 0; n < ATTEMPTS; n++) {
      const found = await readName(this.#bucket, this.#keys, path, signal);
      const next = change(found?.name && { ...found.name, agoMs: found.agoMs });
      if (next === undefined) return false;
      const sealed = sealName(this.#keys, next);
      if (await this.#put({ path, sealed, owner }, found, signal)) return true;
    }
    throw damaged(`${path} changes too often`);
  }

  /** False: another host was faster. */
  async #put(
    {
      path,
      sealed,
      owner,
    }: { readonly path: string; readonly sealed: Buffer; readonly owner: string | undefined },
    found: FoundName | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (found === undefined) {
      await this.#use.admitName(path, owner, signal);
      const isPut = await this.#bucket.putNew(path, sealed, signal);
      if (isPut) this.#use.addName();
      return isPut;
    }
    if (found.etag !== undefined) return await this.#bucket.replace(path, found.etag, sealed, signal);
    // Not of a host.
    await this.#bucket.remove(path, signal);
    return await this.#bucket.putNew(path, sealed, signal);
  }

  /** `there`: also young enough that no collection removes it before a name leads to it. */
  async #stateOf(id: string, signal: AbortSignal): Promise<'there' | 'damaged' | 'missing'> {
    const path = manifestPath(id);
    const found = await this.#bucket.head(path, signal);
    try {
      const manifest = await this.#readManifest(id, signal);
      // One of an earlier version is sent again, so that it counts.
      if (found === undefined || manifest?.tenant !== IMAGES_TENANT) return 'missing';
      if (!(await this.#transfer.hasAll(manifest, signal))) return 'damaged';
    } catch (error) {
      if (isDamage(error)) return 'damaged';
      throw error;
    }
    const isKept = found.agoMs < MAX_REUSED_AGE_MS || (await this.#bucket.touch(path, signal));
    return isKept ? 'there' : 'missing';
  }

  async #readManifest(id: string, signal: AbortSignal): Promise<StoreManifest | undefined> {
    const sealed = await this.#bucket.get(manifestPath(id), MAX_SEALED_MANIFEST_BYTES, signal);
    return sealed && (await openManifest(this.#keys, id, sealed));
  }
}

/** By the clocks of both hosts, or because it was written before that time: clocks may differ. */
function isOlder(known: Dated, atMs: number): boolean {
  const elapsedMs = Date.now() - atMs;
  return known.atMs <= atMs || (elapsedMs >= 0 && known.agoMs > elapsedMs + AGE_PRECISION_MS);
}
