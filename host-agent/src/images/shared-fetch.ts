// Images that come from the bucket instead of a registry.
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { link } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Logger } from 'pino';
import { AppError, errnoOf, isAppError, toError } from '../lib/errors.ts';
import type { Table } from '../store/store.ts';
import { commitImage } from './build-image.ts';
import { assertNotBlocked } from './fetch/blocked.ts';
import type { Report } from './fetch/download-progress.ts';
import { watchFreeDisk } from './fetch/watch.ts';
import type { ImageFiles } from './files.ts';
import type { ImageRecord, StoredImage } from './record.ts';
import { parseReference } from './reference.ts';
import type { FoundImage, ImageDepot } from './shared-depot.ts';
import { described, idOf } from './shared-description.ts';
import { idOfDigest, isShared, MACHINE, toName } from './shared-name.ts';

/** Until the bucket says whether it has an image; then the registry is asked. */
const FIND_MS = 5000;
/** A whole download: this, and the time that the file takes at this rate. */
const FETCH_MS = 30_000;
const FETCH_BYTES_PER_MS = 1000;
const MAX_DAMAGED = 1000;

export type SharedFetchOptions = {
  readonly depot: ImageDepot;
  readonly files: ImageFiles;
  readonly records: Table<ImageRecord>;
  /** Without a chunk of a download; then the registry is asked. */
  readonly idleMs: number;
  readonly log: Logger;
};

export type FetchTask = {
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
  /** Owner of the image if it is new here. */
  readonly owner?: string | undefined;
};

export class SharedFetch {
  readonly #options: SharedFetchOptions;
  /** Images that were found damaged in the bucket: sent whole when they are offered again. */
  readonly damaged = new Set<string>();

  constructor(options: SharedFetchOptions) {
    this.#options = options;
  }

  /** By a reference, or the digest of an image. Undefined: not there, or not to be had now; rejects when aborted. */
  async fetch(ref: string, task: FetchTask): Promise<StoredImage | undefined> {
    const digest = idOfDigest(ref);
    try {
      return digest !== undefined || isShared(ref) ? await this.#fetch(ref, digest, task) : undefined;
    } catch (error) {
      task.signal?.throwIfAborted();
      const reason = toError(error).message;
      this.#options.log.warn({ image: ref, reason }, 'cannot fetch an image from the snapshot store');
      return undefined;
    }
  }

  async #fetch(
    ref: string,
    digest: string | undefined,
    { report, signal, owner }: FetchTask,
  ): Promise<StoredImage | undefined> {
    const { depot, files, records } = this.#options;
    const soon = AbortSignal.any([...(signal ? [signal] : []), AbortSignal.timeout(FIND_MS)]);
    const found = await (digest === undefined
      ? depot.find(toName(ref), soon)
      : depot.findImage(digest, soon));
    if (found === undefined) return undefined;
    const { id } = found;
    const { machine, refs: origins = [], ...about } = described.parse(found.description);
    if (machine !== MACHINE || idOf(about) !== id) return undefined;
    const path = files.rootfsPath(about.rootfsDigest);
    const known = existsSync(path) ? records.get(id) : undefined;
    await using work = await files.makeWork();
    await this.#assertAllowed(digest === undefined ? [ref] : origins, work.dir, signal);
    if (known === undefined) {
      report('fetching the image from the snapshot store');
      using disk = watchFreeDisk(work.dir, signal);
      const file = join(work.dir, 'image');
      try {
        await this.#download(found, file, about.sizeBytes, disk.signal);
        const hash = createHash('sha256');
        await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash, { signal: disk.signal });
        if (hash.digest('hex') !== about.rootfsDigest)
          throw new AppError('internal', 'its content is another');
      } catch (error) {
        const isDamaged = isAppError(error) && error.code === 'internal';
        if (isDamaged && this.damaged.size < MAX_DAMAGED) this.damaged.add(id);
        throw error;
      }
      await link(file, path).catch((error) => {
        if (errnoOf(error) !== 'EEXIST') throw error;
      });
    }
    const now = Date.now();
    const record = { refs: [], blobs: [], ...about, usedAtMs: now, ...(owner !== undefined && { owner }) };
    // A pull or an import that ended meanwhile is newer.
    const isKept = (holder: StoredImage) => existsSync(files.rootfsPath(holder.record.rootfsDigest));
    const isNew = known === undefined;
    const refs = digest === undefined ? [ref] : [];
    return await commitImage(records, { id, record: known ?? record }, refs, { isNew, isKept });
  }

  /** One of the names may be used on this host; an image of an earlier version has none. AppError forbidden. */
  async #assertAllowed(
    refs: readonly string[],
    workDir: string,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { ociDir } = this.#options.files;
    let refusal: AppError | undefined;
    for (const reference of refs.flatMap((ref) => parseReference(ref) ?? []))
      try {
        return await assertNotBlocked(reference, { ociDir, workDir, signal });
      } catch (error) {
        if (!isAppError(error) || error.code !== 'forbidden') throw error;
        refusal = error;
      }
    if (refusal !== undefined) throw refusal;
  }

  /** Gives up when nothing comes for a while, or when it takes too long for its size. */
  async #download(
    found: Pick<FoundImage, 'download'>,
    file: string,
    sizeBytes: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { idleMs } = this.#options;
    const stalled = new AbortController();
    const stall = (): void => stalled.abort(new Error(`the snapshot store sent nothing for ${idleMs} ms`));
    const idle = setTimeout(stall, idleMs);
    const total = AbortSignal.timeout(
      Math.min(2 ** 31 - 1, FETCH_MS + Math.ceil(sizeBytes / FETCH_BYTES_PER_MS)),
    );
    try {
      await found.download(file, AbortSignal.any([signal, stalled.signal, total]), () => idle.refresh());
    } finally {
      clearTimeout(idle);
    }
  }
}
