// Maintenance of the bucket by any host: garbage collection of chunks, verification, statistics.
import { AppError, firstLine, isAppError } from '../lib/errors.ts';
import { forEachAtOnce } from '../lib/for-each-at-once.ts';
import { chunkPath, MAX_SEALED_CHUNK_BYTES, openChunk } from './chunk.ts';
import { collectImages } from './collect-images.ts';
import { DELETED, isMarked } from './deleted-marks.ts';
import { NAMES } from './image-names.ts';
import {
  AHEAD,
  IMAGES,
  idOfPath,
  isImageId,
  MANIFESTS,
  MAX_SEALED_MANIFEST_BYTES,
  manifestPath,
  objectsOf,
  openManifest,
  PARKED,
  type StoredObject,
  type StoreManifest,
} from './manifest.ts';
import { ParkedSandboxes } from './parked-sandboxes.ts';
import { type Bucket, MAX_REQUESTS } from './s3/bucket.ts';
import { COLLECTED_AGE_MS } from './seen-chunks.ts';
import { IMAGES_TENANT, type StoreKeys } from './store-keys.ts';
import { StoredTemplates } from './stored-templates.ts';

const CHUNKS = 'chunks/';
/** After that, a collection has finished it. */
const MAX_UNFINISHED_AGE_MS = 3 * 24 * 3_600_000;
/** Hosts that were off for longer keep what was deleted meanwhile. */
const MAX_MARK_AGE_MS = 30 * 24 * 3_600_000;
/** One delete that takes longer is given up: its chunk may be named again by then. */
const DELETE_TIMEOUT_MS = 10_000;

export type Collected = {
  readonly snapshots: number;
  readonly images: number;
  /** Of clients of E2B. Their content is that of snapshots. */
  readonly templates: number;
  readonly chunks: number;
  /** Named by no snapshot, and too young. */
  readonly waiting: number;
  readonly removed: number;
  readonly removedBytes: number;
  /** Names of images that cannot be read. */
  readonly problems: readonly string[];
};

export type StoreProblem = { readonly snapshot: string; readonly problem: string };

export type StoreVerdict = {
  readonly snapshots: number;
  readonly images: number;
  readonly templates: number;
  readonly chunks: number;
  readonly problems: readonly StoreProblem[];
};

export type StoreStats = {
  readonly snapshots: number;
  readonly images: number;
  readonly templates: number;
  readonly chunks: number;
  readonly chunkBytes: number;
  /** Of all snapshots, as if they shared nothing, before compression. */
  readonly contentBytes: number;
  /** What images take, also what the next collection removes, and names of them. */
  readonly imageBytes: number;
  readonly imageNames: number;
  readonly byTenant: readonly {
    readonly tenant: string | undefined;
    readonly snapshots: number;
    readonly chunks: number;
    /** Also of chunks that the next collection removes. */
    readonly chunkBytes: number;
  }[];
};

export class StoreCollector {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;
  readonly #templates: StoredTemplates;

  constructor({ bucket, keys }: { readonly bucket: Bucket; readonly keys: StoreKeys }) {
    this.#bucket = bucket;
    this.#keys = keys;
    this.#templates = new StoredTemplates(bucket, keys);
  }

  close(): void {
    this.#bucket.close();
  }

  /**
   * Deletes chunks that no manifest names and that are a day old. Hosts may write meanwhile, and collect at the same
   * time. What only a removed image needed goes with the next collection. AppError `internal`, with nothing deleted, if
   * a manifest cannot be read: it may name any of them. `minAgeMs`: in tests.
   */
  async collect(signal: AbortSignal, minAgeMs = COLLECTED_AGE_MS): Promise<Collected> {
    // Chunks first: a manifest that is written later names only younger ones, see seen-chunks.ts.
    const candidates = new Map<string, number>();
    let chunks = 0;
    let young = new Set<string>();
    for await (const page of this.#bucket.list(CHUNKS, signal))
      for (const { key, agoMs, sizeBytes } of page) {
        chunks += 1;
        if (agoMs >= minAgeMs) candidates.set(key, sizeBytes);
        else young.add(key);
      }
    await this.#finishDeletes(signal);
    await this.#removeAhead(minAgeMs, signal);
    await this.#removeDeleted(signal);
    let [snapshots, images] = [0, 0];
    for await (const manifest of this.#manifests(signal)) {
      if ('problem' in manifest)
        throw new AppError(
          'internal',
          `nothing was collected: ${manifest.problem}; restore or delete that snapshot`,
        );
      if (isImageId(manifest.id)) images += 1;
      else snapshots += 1;
      for (const path of this.#pathsOf(manifest)) {
        candidates.delete(path);
        young.delete(path);
      }
    }
    const waiting = young.size;
    young = new Set();
    let [removed, removedBytes] = [0, 0];
    const removeOne = async ([key, sizeBytes]: [string, number], signal: AbortSignal): Promise<void> => {
      const soon = AbortSignal.any([signal, AbortSignal.timeout(DELETE_TIMEOUT_MS)]);
      // A host may have given it a new age since the list.
      const now = await this.#bucket.head(key, soon);
      if (now === undefined || now.agoMs < minAgeMs) return;
      await this.#bucket.remove(key, soon);
      removed += 1;
      removedBytes += sizeBytes;
    };
    await forEachAtOnce(candidates, MAX_REQUESTS, removeOne, signal);
    const problems = await collectImages(this.#bucket, this.#keys, signal);
    const templates = await this.#templates.collect(signal);
    return { snapshots, images, templates, chunks, waiting, removed, removedBytes, problems };
  }

  /** A host that was killed may have left the manifest of a snapshot that it marked as deleted. */
  async #finishDeletes(signal: AbortSignal): Promise<void> {
    const marks = this.#bucket.list(DELETED, signal);
    for await (const page of marks)
      for (const { key, agoMs } of page) {
        if (agoMs > MAX_MARK_AGE_MS) await this.#bucket.remove(key, signal);
        const id = idOfPath(`${MANIFESTS}${key.slice(DELETED.length)}`);
        if (id === undefined || agoMs > MAX_MARK_AGE_MS) continue;
        if (agoMs < MAX_UNFINISHED_AGE_MS && (await isMarked(this.#bucket, this.#keys, id, signal)))
          await this.#bucket.remove(manifestPath(id), signal);
      }
  }

  /** A host that was killed may have left them. */
  async #removeAhead(minAgeMs: number, signal: AbortSignal): Promise<void> {
    for await (const page of this.#bucket.list(AHEAD, signal))
      for (const { key, agoMs } of page) if (agoMs >= minAgeMs) await this.#bucket.remove(key, signal);
  }

  /** What a delete, or a return, could not remove: its claim keeps every host from it. */
  async #removeDeleted(signal: AbortSignal): Promise<void> {
    const parked = new ParkedSandboxes(this.#bucket, this.#keys);
    const removeOne = async (id: string, signal: AbortSignal): Promise<void> => {
      if (await parked.isOver(id, signal)) await this.#bucket.remove(manifestPath(id), signal);
    };
    for await (const page of parked.list(signal)) await forEachAtOnce(page, MAX_REQUESTS, removeOne, signal);
  }

  /** Reads every manifest and looks for every chunk; `isThorough` reads and decrypts the chunks, too. */
  async verify(isThorough: boolean, signal: AbortSignal): Promise<StoreVerdict> {
    const there = new Map<string, number>();
    if (!isThorough)
      for await (const page of this.#bucket.list(CHUNKS, signal))
        for (const { key, sizeBytes } of page) there.set(key, sizeBytes);
    const problems: StoreProblem[] = [];
    const checked = new Map<string, string | undefined>();
    let [snapshots, images] = [0, 0];
    for await (const manifest of this.#manifests(signal)) {
      if (isImageId(manifest.id)) images += 1;
      else snapshots += 1;
      if ('problem' in manifest) {
        problems.push({ snapshot: manifest.id, problem: manifest.problem });
        continue;
      }
      const { id, files } = manifest;
      const keys = this.#keys.tenant(manifest.tenant);
      for (const file of files) {
        const checkOne = async ({ name, length, where }: StoredObject, signal: AbortSignal) => {
          const path = chunkPath(keys, name);
          if (!checked.has(path))
            checked.set(
              path,
              isThorough
                ? await this.#read(manifest, name, length, signal)
                : there.has(path)
                  ? undefined
                  : `the chunk ${name} is missing`,
            );
          const problem = checked.get(path);
          if (problem !== undefined) problems.push({ snapshot: id, problem: `${where}: ${problem}` });
        };
        await forEachAtOnce(objectsOf(file), MAX_REQUESTS, checkOne, signal);
      }
    }
    const { templates, problems: more } = await this.#templates.verify(signal);
    for (const { template, problem } of more) problems.push({ snapshot: template, problem });
    return { snapshots, images, templates, chunks: checked.size, problems };
  }

  async stats(signal: AbortSignal): Promise<StoreStats> {
    let [snapshots, images, chunks, chunkBytes, contentBytes] = [0, 0, 0, 0, 0];
    const bytesOf = new Map<string | undefined, number>();
    for await (const page of this.#bucket.list(CHUNKS, signal))
      for (const { key, sizeBytes } of page) {
        chunks += 1;
        chunkBytes += sizeBytes;
        const tag = key.split('/')[1];
        bytesOf.set(tag, (bytesOf.get(tag) ?? 0) + sizeBytes);
      }
    const { manifestBytes, imageNames } = await this.#measureImages(signal);
    const tenants = new Map<string | undefined, { snapshots: number; names: Set<string> }>();
    for await (const manifest of this.#manifests(signal)) {
      const isImage = isImageId(manifest.id);
      if (isImage) images += 1;
      else snapshots += 1;
      if ('problem' in manifest) continue;
      const own = tenants.get(manifest.tenant) ?? { snapshots: 0, names: new Set() };
      tenants.set(manifest.tenant, own);
      own.snapshots += isImage ? 0 : 1;
      for (const file of manifest.files)
        for (const { name, length } of objectsOf(file)) {
          own.names.add(name);
          contentBytes += length;
        }
    }
    const imageBytes = manifestBytes + (bytesOf.get(this.#keys.tenant(IMAGES_TENANT).tag) ?? 0);
    tenants.delete(IMAGES_TENANT);
    const byTenant = [...tenants].map(([tenant, { snapshots, names }]) => ({
      ...{ tenant, snapshots, chunks: names.size },
      chunkBytes: bytesOf.get(this.#keys.tenant(tenant).tag) ?? 0,
    }));
    const templates = await this.#templates.count(signal);
    return {
      snapshots,
      images,
      templates,
      chunks,
      chunkBytes,
      contentBytes,
      imageBytes,
      imageNames,
      byTenant,
    };
  }

  async #measureImages(signal: AbortSignal) {
    let [manifestBytes, imageNames] = [0, 0];
    for await (const page of this.#bucket.list(IMAGES, signal))
      for (const { sizeBytes } of page) manifestBytes += sizeBytes;
    for await (const page of this.#bucket.list(NAMES, signal)) imageNames += page.length;
    return { manifestBytes, imageNames };
  }

  /** Those that cannot be read are there with the problem. */
  async *#manifests(
    signal: AbortSignal,
  ): AsyncGenerator<StoreManifest | { readonly id: string; readonly problem: string }> {
    for (const path of [MANIFESTS, PARKED, IMAGES])
      for await (const page of this.#bucket.list(path, signal))
        for (const { key } of page) {
          const id = idOfPath(key);
          if (id === undefined) {
            yield { id: key, problem: `${key} is not the name of a snapshot, a paused sandbox or an image` };
            continue;
          }
          const sealed = await this.#bucket.get(key, MAX_SEALED_MANIFEST_BYTES, signal);
          // Deleted since the list.
          if (sealed === undefined) continue;
          try {
            yield await openManifest(this.#keys, id, sealed);
          } catch (error) {
            if (!isAppError(error)) throw error;
            yield { id, problem: firstLine(error) };
          }
        }
  }

  *#pathsOf({ tenant, files }: StoreManifest): Generator<string> {
    const keys = this.#keys.tenant(tenant);
    for (const file of files) for (const { name } of objectsOf(file)) yield chunkPath(keys, name);
  }

  /** Undefined: it is as it should be. */
  async #read(
    { tenant }: StoreManifest,
    name: string,
    length: number,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const keys = this.#keys.tenant(tenant);
    const sealed = await this.#bucket.get(chunkPath(keys, name), MAX_SEALED_CHUNK_BYTES, signal);
    if (sealed === undefined) return `the chunk ${name} is missing`;
    return openChunk(keys, name, sealed, length).then(() => undefined, firstLine);
  }
}
