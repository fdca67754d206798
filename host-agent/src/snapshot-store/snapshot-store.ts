// Snapshots in a bucket: files as encrypted chunks that are stored once for each tenant, and a manifest that is written
// last. It knows no VM: what a snapshot is, its description says to the caller.
import { open } from 'node:fs/promises';
import { AppError } from '../lib/errors.ts';
import { forEachAtOnce } from '../lib/for-each-at-once.ts';
import { type Piece, readChanges, toPieces } from './changes.ts';
import { chunkPath, sealChunk } from './chunk.ts';
import { CopiesAhead } from './copies-ahead.ts';
import { DELETED, isMarked, listMarked } from './deleted-marks.ts';
import { type Downloaded, type DownloadOptions, downloadFiles } from './download.ts';
import {
  formatOf,
  idOfPath,
  isImageId,
  MANIFESTS,
  MAX_SEALED_MANIFEST_BYTES,
  manifestPath,
  objectsOf,
  openManifest,
  type StoredFile,
  type StoreManifest,
  sealManifest,
} from './manifest.ts';
import { ParkedSandboxes } from './parked-sandboxes.ts';
import { type Bucket, MAX_REQUESTS } from './s3/bucket.ts';
import { BucketError } from './s3/bucket-error.ts';
import { MAX_REUSED_AGE_MS, MAX_UPLOAD_MS, SeenChunks } from './seen-chunks.ts';
import type { StoreKeys, TenantKeys, TenantName } from './store-keys.ts';
import { StoredImages } from './stored-images.ts';
import { StoredTemplates } from './stored-templates.ts';
import { type StoredLimit, StoredUse } from './stored-use.ts';
import type { ChunkUpload, FileBase, SentChunks, SnapshotUpload, UploadResult } from './upload.ts';
import { readWindow, readWindows, type Window } from './windows.ts';

/** A chunk may have had another age so long ago, and a collection that saw that still deletes it. */
const RENEWED_MS = 60_000;

export type StoreOptions = { readonly bucket: Bucket; readonly keys: StoreKeys };

export type ListedSnapshot = { readonly id: string; readonly etag: string; readonly agoMs: number };

export class SnapshotStore {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;
  readonly #seen = new SeenChunks();
  readonly #use: StoredUse;
  /** Paused sandboxes between two hosts. */
  readonly parked: ParkedSandboxes;
  readonly ahead: CopiesAhead;
  readonly images: StoredImages;
  readonly templates: StoredTemplates;

  constructor({ bucket, keys }: StoreOptions) {
    this.#bucket = bucket;
    this.#keys = keys;
    this.#use = new StoredUse(bucket);
    this.parked = new ParkedSandboxes(bucket, keys);
    this.ahead = new CopiesAhead(bucket, keys);
    this.images = new StoredImages(bucket, keys, this, this.#use);
    this.templates = new StoredTemplates(bucket, keys);
  }

  /** For messages and records. */
  get name(): string {
    return this.#bucket.name;
  }

  /** What the chunks of a tenant take, as this host last knew it: some seconds ago, and 0 before it was read. */
  usedBytes(tenant: TenantName): number {
    return this.#use.last(this.#keys.tenant(tenant).tag);
  }

  /** Looks for every chunk again: the bucket lost objects, or is another one. */
  forgetSeen(): void {
    this.#seen.clear();
  }

  close(): void {
    this.#bucket.close();
  }

  /**
   * Sends what is not there yet, then the manifest. A failure leaves nothing that is listed. AppError `upstream` if the
   * bucket fails, not_found if the snapshot was deleted meanwhile; the signal's reason when aborted.
   */
  async upload(
    { id, tenant, description, files, isAnew = false, limit, beforeManifest, replaces }: SnapshotUpload,
    outer: AbortSignal,
  ): Promise<UploadResult> {
    const signal = withLimit(outer);
    const keys = this.#keys.tenant(tenant);
    const { described, old, sent } = await this.#sendChunks(keys, files, signal, { isAnew, limit });
    const manifest: StoreManifest = {
      formatVersion: formatOf(described),
      ...{ id, description, files: described },
      ...(tenant !== undefined && { tenant }),
    };
    // What is collected meanwhile is sent again.
    if (beforeManifest !== undefined) await this.#assertThere(keys, old, signal);
    const etag = replaces === true ? await this.#readETag(id, signal) : undefined;
    await beforeManifest?.();
    await this.putManifest(manifest, signal, etag);
    await this.#assertThere(keys, old, signal);
    return { manifest, ...sent };
  }

  /**
   * Sends what is not there yet, of files that will be uploaded soon as they are by then. Nothing names these chunks:
   * a collection deletes them when they are a day old. AppError as of `upload`.
   */
  async sendChunks(
    { tenant, files, giveWay }: ChunkUpload,
    signal: AbortSignal,
  ): Promise<SentChunks & { readonly described: readonly StoredFile[] }> {
    const keys = this.#keys.tenant(tenant);
    const { described, old, sent } = await this.#sendChunks(keys, files, withLimit(signal), { giveWay });
    // The upload looks for them again, when no collection can delete them any more.
    for (const { name } of old) this.#seen.forget(chunkPath(keys, name));
    return { ...sent, described };
  }

  /** `old`: of chunks that were there, and have got a new age. */
  async #sendChunks(
    keys: TenantKeys,
    files: ChunkUpload['files'],
    signal: AbortSignal,
    { isAnew = false, limit, giveWay }: Partial<Pick<SnapshotUpload, 'isAnew' | 'limit' | 'giveWay'>> = {},
  ) {
    const sent = { chunks: 0, sentChunks: 0, sentBytes: 0 };
    const count = (bytes: number): void => {
      sent.chunks += 1;
      sent.sentBytes += bytes;
      sent.sentChunks += bytes > 0 ? 1 : 0;
    };
    /** Of each part. */
    const chunks = new Map<string, [number, string][]>(files.map(({ part }) => [part, []]));
    const old: (Window & { readonly name: string })[] = [];
    const send = async (window: Window, signal: AbortSignal) => {
      await giveWay?.(signal);
      signal.throwIfAborted();
      const name = keys.nameOf(window.bytes);
      chunks.get(window.part)?.push([window.index, name]);
      const { bytes, isOld } = isAnew
        ? { bytes: await this.#sendChunk(keys, name, window.bytes, signal, limit), isOld: false }
        : await this.#ensureChunk(keys, name, () => window.bytes, signal, limit);
      count(bytes);
      if (isOld) old.push({ ...window, name, bytes: Buffer.alloc(0) });
    };
    const sendChanges = async (
      { part, path }: ChunkUpload['files'][number],
      { path: copy, stored, changes: known }: FileBase,
      signal: AbortSignal,
    ): Promise<StoredFile> => {
      const look = async ([index, name]: readonly [number, string], signal: AbortSignal) => {
        const read = () => readWindow(copy, index);
        const { bytes, isOld } = await this.#ensureChunk(keys, name, read, signal, limit);
        count(bytes);
        if (isOld) old.push({ part, path: copy, index, name, bytes: Buffer.alloc(0) });
      };
      await forEachAtOnce(stored.chunks, MAX_REQUESTS, look, signal);
      const changes: [number, string][] = [];
      const sendPiece = async ({ blocks, bytes }: Piece, signal: AbortSignal) => {
        const name = keys.nameOf(bytes);
        changes.push([blocks, name]);
        // Also one that is there gets a new age.
        count(await this.#sendChunk(keys, name, bytes, signal, limit));
      };
      const chunks = stored.chunks.map(([index]) => index);
      const pieces = known ? toPieces(known()) : readChanges(path, { path: copy, chunks }, stored.sizeBytes);
      await forEachAtOnce(pieces, MAX_REQUESTS, sendPiece, signal);
      return { ...stored, ...(changes.length > 0 && { changes }) };
    };
    const described: StoredFile[] = [];
    const sendFile = async ([at, each]: [number, ChunkUpload['files'][number]], signal: AbortSignal) => {
      const { part, path, base } = each;
      await using file = await open(path, 'r');
      const { size } = await file.stat();
      if (base?.stored.sizeBytes === size && !isAnew) {
        described[at] = await sendChanges(each, base, signal);
        return;
      }
      await forEachAtOnce(readWindows(file, part, path, size), MAX_REQUESTS, send, signal);
      const found = (chunks.get(part) ?? []).sort(([a], [b]) => a - b);
      described[at] = { part, sizeBytes: size, chunks: found };
    };
    // Of changes there is little to send, and much to wait for.
    const atOnce = files.every(({ base }) => base !== undefined) ? files.length : 1;
    await forEachAtOnce(files.entries(), atOnce, sendFile, signal);
    return { described, old, sent };
  }

  /** Of a manifest that is there. AppError conflict. */
  async #readETag(id: string, signal: AbortSignal): Promise<string> {
    const found = await this.#bucket.read(manifestPath(id), MAX_SEALED_MANIFEST_BYTES, signal);
    if (found === undefined) throw new AppError('conflict', `${id} is not in the snapshot store any more`);
    return found.etag;
  }

  /** Makes a snapshot exist whose chunks are there. `etag`: in place of that one. AppError as of `upload`, conflict. */
  async putManifest(manifest: StoreManifest, signal: AbortSignal, etag?: string): Promise<void> {
    const { id } = manifest;
    if (await this.isDeleted(id, signal)) throw new AppError('not_found', `snapshot ${id} was deleted`);
    const [path, sealed] = [manifestPath(id), await sealManifest(this.#keys, manifest)];
    if (etag === undefined) return await this.#bucket.put(path, sealed, signal);
    const isReplaced = await this.#bucket
      .replace(path, etag, sealed, signal)
      .catch(async (error: unknown) => {
        // A server that knows no such condition.
        if (!(error instanceof BucketError) || error.status !== 501) throw error;
        await this.#bucket.put(path, sealed, signal);
        return true;
      });
    if (isReplaced) return;
    throw new AppError('conflict', `${id} is another one by now, or is not in the snapshot store any more`);
  }

  /** Undefined: the bucket has no such snapshot. AppError `internal` if its manifest is damaged, `upstream`. */
  async read(id: string, signal?: AbortSignal): Promise<StoreManifest | undefined> {
    if (idOfPath(manifestPath(id)) !== id || isImageId(id)) return undefined;
    const sealed = await this.#bucket.get(manifestPath(id), MAX_SEALED_MANIFEST_BYTES, signal);
    return sealed && (await openManifest(this.#keys, id, sealed));
  }

  /** As `downloadFiles`. */
  async download(
    manifest: StoreManifest,
    paths: Readonly<Record<string, string>>,
    signal: AbortSignal,
    options?: DownloadOptions,
  ): Promise<Downloaded> {
    const from = { bucket: this.#bucket, keys: this.#keys.tenant(manifest.tenant) };
    return await downloadFiles(from, manifest, paths, signal, options);
  }

  /** Whether no chunk is missing, whatever was seen before. */
  async hasAll({ tenant, files }: StoreManifest, outer: AbortSignal): Promise<boolean> {
    const keys = this.#keys.tenant(tenant);
    const names = new Set(files.flatMap((file) => [...objectsOf(file)].map(({ name }) => name)));
    let missing = 0;
    const look = async (name: string, signal: AbortSignal): Promise<void> => {
      if ((await this.#bucket.head(chunkPath(keys, name), signal)) === undefined) missing += 1;
    };
    await forEachAtOnce(names, MAX_REQUESTS, look, outer);
    return missing === 0;
  }

  /** In pages. */
  async *list(signal?: AbortSignal): AsyncGenerator<readonly ListedSnapshot[]> {
    for await (const page of this.#bucket.list(MANIFESTS, signal))
      yield page.flatMap(({ key, etag, agoMs }) => {
        const id = idOfPath(key);
        return id === undefined ? [] : [{ id, etag, agoMs }];
      });
  }

  /** Ids of snapshots that a host has deleted, with the age of the mark. */
  listDeleted(signal?: AbortSignal): ReturnType<typeof listMarked> {
    return listMarked(this.#bucket, signal);
  }

  /** Whether a host that has the key marked it as deleted. */
  async isDeleted(id: string, signal?: AbortSignal): Promise<boolean> {
    return await isMarked(this.#bucket, this.#keys, id, signal);
  }

  /** Its chunks stay until they are collected. */
  async remove(id: string, signal?: AbortSignal): Promise<void> {
    const path = `${DELETED}${id}`;
    await this.#bucket.put(path, this.#keys.seal(path, Buffer.from(id)), signal);
    await this.#bucket.remove(manifestPath(id), signal);
  }

  /** Without a mark: a host that knows a later time uploads it again. */
  async removeManifest(id: string, signal?: AbortSignal): Promise<void> {
    await this.#bucket.remove(manifestPath(id), signal);
  }

  /**
   * `bytes`: how many were sent; 0: it was there. `isOld`: it could have been deleted while it got a new age, here or
   * from another host.
   */
  async #ensureChunk(
    keys: TenantKeys,
    name: string,
    plain: () => Buffer | Promise<Buffer>,
    signal: AbortSignal,
    limit?: StoredLimit,
  ): Promise<{ readonly bytes: number; readonly isOld: boolean }> {
    const path = chunkPath(keys, name);
    if (this.#seen.has(path)) return { bytes: 0, isOld: false };
    const there = await this.#bucket.head(path, signal);
    if (there !== undefined && there.agoMs < MAX_REUSED_AGE_MS) {
      this.#seen.add(path, there.agoMs);
      return { bytes: 0, isOld: there.agoMs < RENEWED_MS };
    }
    const isOld = there !== undefined;
    if (isOld && (await this.#bucket.touch(path, signal))) {
      this.#seen.add(path, 0);
      return { bytes: 0, isOld };
    }
    return { bytes: await this.#sendChunk(keys, name, await plain(), signal, limit), isOld };
  }

  async #sendChunk(
    keys: TenantKeys,
    name: string,
    plain: Buffer,
    signal: AbortSignal,
    limit?: StoredLimit,
  ): Promise<number> {
    const path = chunkPath(keys, name);
    const sealed = await sealChunk(keys, name, plain);
    await this.#use.admit(keys.tag, sealed.length, limit, signal);
    await this.#bucket.put(path, sealed, signal);
    this.#seen.add(path, 0);
    return sealed.length;
  }

  /** A collection that began before these got a new age may have deleted them after it. */
  async #assertThere(keys: TenantKeys, windows: readonly Window[], outer: AbortSignal): Promise<void> {
    await forEachAtOnce(
      windows,
      MAX_REQUESTS,
      async ({ path: source, index }, signal) => {
        const bytes = await readWindow(source, index);
        const name = keys.nameOf(bytes);
        const path = chunkPath(keys, name);
        if ((await this.#bucket.head(path, signal)) !== undefined) return;
        this.#seen.forget(path);
        await this.#ensureChunk(keys, name, () => bytes, signal);
      },
      outer,
    );
  }
}

const withLimit = (signal: AbortSignal): AbortSignal =>
  AbortSignal.any([signal, AbortSignal.timeout(MAX_UPLOAD_MS)]);
