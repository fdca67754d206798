// Images in the bucket: the root filesystem of each as chunks, as those of a snapshot, and names that lead to it. They
// are of all tenants, as on one host.
import { z } from 'zod';
import { type AppError, firstLine, isAppError } from '../lib/errors.ts';
import {
  IMAGES,
  imageIdSchema,
  isImageId,
  MAX_SEALED_MANIFEST_BYTES,
  manifestPath,
  openManifest,
  type StoreManifest,
} from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import { COLLECTED_AGE_MS, MAX_REUSED_AGE_MS } from './seen-chunks.ts';
import { damaged, type StoreKeys } from './store-keys.ts';

const NAMES = 'names/';
const MAX_NAME_BYTES = 8192;
const PART = 'rootfs';
const DAY_MS = 24 * 3_600_000;
/** Since it was put, or last used. */
export const MAX_NAME_AGE_MS = 30 * DAY_MS;
/** A use of a name is noted once in this time. */
const NOTED_MS = DAY_MS;
/** Of hosts that change one name at the same time. */
const ATTEMPTS = 8;

const named = z.looseObject({
  ref: z.string(),
  /** Absent: it leads nowhere since a delete, and an older pull does not bring it back. */
  id: imageIdSchema.optional(),
  /** When what it leads to was asked for, or deleted, by the clock of that host. */
  atMs: z.number(),
});
type Named = z.output<typeof named>;

type FoundName = {
  /** Undefined: it is larger than any of ours, and was not read. */
  readonly etag: string | undefined;
  readonly agoMs: number;
  /** Undefined: it cannot be read. */
  readonly name: Named | undefined;
  readonly problem?: unknown;
};

/** That of snapshots. */
export type Transfer = {
  upload(
    upload: {
      readonly id: string;
      readonly tenant: undefined;
      readonly description: unknown;
      readonly files: readonly { readonly part: string; readonly path: string }[];
      readonly isAnew: boolean;
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

  constructor(bucket: Bucket, keys: StoreKeys, transfer: Transfer) {
    this.#bucket = bucket;
    this.#keys = keys;
    this.#transfer = transfer;
  }

  /** AppError `internal` if what the name leads to is damaged, `upstream`. */
  async find(ref: string, signal: AbortSignal): Promise<FoundImage | undefined> {
    const path = this.#pathOf(ref);
    const found = await readName(this.#bucket, this.#keys, path, signal);
    if (found === undefined) return undefined;
    if (found.name === undefined) throw found.problem;
    if (found.name.ref !== ref) throw damaged(`${path} is of another name`);
    const { id } = found.name;
    const image = id === undefined ? undefined : await this.findImage(id, signal);
    if (image === undefined) return undefined;
    // One that is not noted may be collected, and is put by the next pull.
    if (found.agoMs > NOTED_MS && found.etag !== undefined)
      await this.#bucket.replace(path, found.etag, this.#seal(found.name), signal).catch(() => undefined);
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

  /** Sends what is not there. `isAnew`: all of it, because some is damaged. */
  async ensure(
    { id, description, path }: StoredImageFile,
    { isAnew }: { readonly isAnew: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const state = isAnew ? 'damaged' : await this.#stateOf(id, signal);
    if (state === 'there') return;
    const files = [{ part: PART, path }];
    const upload = { id, tenant: undefined, description, files, isAnew: state === 'damaged' };
    await this.#transfer.upload(upload, signal);
  }

  /** The name leads to the image that a pull or import of this time gave, unless a later one or a delete has it. */
  async name(ref: string, id: string, atMs: number, signal: AbortSignal): Promise<void> {
    const next = { ref, id, atMs };
    await this.#change(
      ref,
      (known) => (known !== undefined && known.atMs >= atMs ? undefined : next),
      signal,
    );
  }

  /**
   * The name leads nowhere from then on. `id`: unless it leads to another image. False if it led nowhere, or to
   * something later.
   */
  async withdraw(ref: string, id: string | undefined, atMs: number, signal: AbortSignal): Promise<boolean> {
    const change = (known: Named | undefined): Named | undefined => {
      if (known?.id === undefined || known.atMs > atMs) return undefined;
      return id === undefined || known.id === id ? { ref, atMs } : undefined;
    };
    return await this.#change(ref, change, signal);
  }

  /** `change`: undefined leaves it as it is. One that cannot be read counts as missing. */
  async #change(
    ref: string,
    change: (known: Named | undefined) => Named | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    const path = this.#pathOf(ref);
    for (let n = 0; n < ATTEMPTS; n++) {
      const found = await readName(this.#bucket, this.#keys, path, signal);
      const next = change(found?.name);
      if (next === undefined) return false;
      const sealed = this.#seal(next);
      if (await this.#put(path, found, sealed, signal)) return true;
    }
    throw damaged(`${path} changes too often`);
  }

  /** False: another host was faster. */
  async #put(
    path: string,
    found: FoundName | undefined,
    sealed: Buffer,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (found === undefined) return await this.#bucket.putNew(path, sealed, signal);
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
      if (found === undefined || manifest === undefined) return 'missing';
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

  #seal(name: Named): Buffer {
    return this.#keys.seal(this.#pathOf(name.ref), Buffer.from(JSON.stringify(name)));
  }

  /** Who reads the bucket learns no name. */
  #pathOf(ref: string): string {
    return `${NAMES}${this.#keys.tenant(undefined).nameOf(Buffer.from(`name of an image\n${ref}`))}`;
  }
}

function isDamage(error: unknown): error is AppError {
  return isAppError(error) && error.code === 'internal';
}

async function readName(
  bucket: Bucket,
  keys: StoreKeys,
  path: string,
  signal: AbortSignal,
): Promise<FoundName | undefined> {
  const sealed = await bucket.read(path, MAX_NAME_BYTES, signal).catch((error: unknown) => {
    if (isDamage(error)) return error;
    throw error;
  });
  if (sealed === undefined) return undefined;
  if (isDamage(sealed)) {
    const there = await bucket.head(path, signal);
    return there && { etag: undefined, agoMs: there.agoMs, name: undefined, problem: sealed };
  }
  const { body, etag, agoMs } = sealed;
  try {
    return { etag, agoMs, name: named.parse(JSON.parse(keys.open(path, body).toString())) };
  } catch (cause) {
    const problem = damaged(`${path} cannot be used: ${firstLine(cause)}`, cause);
    return { etag, agoMs, name: undefined, problem };
  }
}

/**
 * Removes names that lead nowhere or that nothing used for a month, and images without a name. Gives the problems of
 * names that cannot be read: they may lead to any image, so that none is removed.
 */
export async function collectImages(bucket: Bucket, keys: StoreKeys, signal: AbortSignal): Promise<string[]> {
  // Names first: the image of each is older.
  const names: { readonly path: string; readonly found: FoundName }[] = [];
  const problems: string[] = [];
  for await (const page of bucket.list(NAMES, signal))
    for (const { key } of page) {
      const found = await readName(bucket, keys, key, signal);
      if (found === undefined) continue;
      if (found.name === undefined) problems.push(firstLine(found.problem));
      names.push({ path: key, found });
    }
  const images = new Map<string, number>();
  for await (const page of bucket.list(IMAGES, signal))
    for (const { key, agoMs } of page) images.set(key.slice(IMAGES.length), agoMs);
  const used = new Set(names.map(({ found }) => found.name?.id));
  for (const { path, found } of names) {
    const isLost = found.name?.id !== undefined && !images.has(found.name.id);
    if (!isLost && found.agoMs <= MAX_NAME_AGE_MS) continue;
    // A host may have changed it since.
    const now = await readName(bucket, keys, path, signal);
    if (now !== undefined && now.etag === found.etag) await bucket.remove(path, signal);
  }
  if (problems.length > 0) return problems;
  for (const [id, agoMs] of images) {
    const path = `${IMAGES}${id}`;
    if (used.has(id) || agoMs <= COLLECTED_AGE_MS) continue;
    // A host may have given it a new age.
    const now = await bucket.head(path, signal);
    if (now !== undefined && now.agoMs > COLLECTED_AGE_MS) await bucket.remove(path, signal);
  }
  return problems;
}
