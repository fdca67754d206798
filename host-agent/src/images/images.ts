// The container images of this daemon: pulled or imported, converted, found again, deleted.
import { existsSync } from 'node:fs';
import { show } from '@sandboxd/api';
import { readPieces } from '../lib/bounded-copy.ts';
import { AppError, errnoOf, isAppError } from '../lib/errors.ts';
import { chooseEvicted } from '../lib/fair-share.ts';
import { type BuildRequest, buildImage, type Fetch, type ImageBuilderDeps } from './build-image.ts';
import { copyRootfs } from './copy-rootfs.ts';
import type { Pieces } from './fetch/archive.ts';
import { fetchFromLayout, fetchFromPieces } from './fetch/fetcher.ts';
import { fetchFromRegistry } from './fetch/registry.ts';
import { KEPT_MS } from './files.ts';
import { findImage, isMeaningless, isPullable, type StoredImage } from './find.ts';
import { type HostFile, openHostFile } from './host-path.ts';
import type { Report } from './progress.ts';
import { CONVERT_MODE, COPY_MODE, type ImageInfo, MAX_RECORDS_BYTES } from './record.ts';
import { formatReference, parseReference, shortReference } from './reference.ts';
import { SingleFlight } from './single-flight.ts';

export type PullMode = 'missing' | 'always' | 'never';

export type ImagesOptions = ImageBuilderDeps & {
  /** Disk for images; what nobody uses goes, the longest unused first. 0: no limit. */
  readonly maxBytes: number;
  /** Directories of the host that creates may name files of. */
  readonly allowedDirs: readonly string[];
};

export type PullOptions = {
  /** A line about each step, for people. */
  readonly onProgress?: Report | undefined;
  readonly signal?: AbortSignal | undefined;
  /** For whom: a tenant, or a key without one. What is made counts for them. */
  readonly owner?: string | undefined;
  /** Before anything is fetched or converted; throws for who may not have that done. */
  readonly onMake?: (() => void) | undefined;
};

type ImportTask = Omit<BuildRequest, 'fetch'>;

export class Images {
  readonly #options: ImagesOptions;
  readonly #pulls = new SingleFlight<StoredImage>();
  #sweeping: NodeJS.Timeout | undefined;

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  /** Removes what an earlier process left. */
  async start(): Promise<void> {
    await this.#sweep();
    const { log } = this.#options;
    const sweep = () => this.#sweep().catch((error) => log.warn({ err: error }, 'images were not swept'));
    this.#sweeping = setInterval(sweep, KEPT_MS).unref();
  }

  /** Ends what is under way. */
  async stop(): Promise<void> {
    clearInterval(this.#sweeping);
    await this.#pulls.stop(new AppError('cancelled', 'the daemon is stopping'));
  }

  /** Oldest first. */
  list(): ImageInfo[] {
    return this.#all()
      .sort((a, b) => a.record.convertedAtMs - b.record.convertedAtMs)
      .map(toInfo);
  }

  /** AppError not_found, conflict for the beginning of several digests. */
  get(text: string): ImageInfo {
    return toInfo(this.#find(text));
  }

  /** AppError invalid_argument, not_found when it may not be pulled, upstream when the registry or the image will not do. */
  async pull(text: string, mode: PullMode, options: PullOptions = {}): Promise<ImageInfo> {
    return toInfo(await this.obtain(text, mode, options));
  }

  /** The same, for those who make a sandbox of it. */
  async obtain(
    text: string,
    mode: PullMode,
    { onProgress, signal, owner, onMake }: PullOptions = {},
  ): Promise<StoredImage> {
    const found = findImage(this.#all(), text);
    // A crash of the host, or somebody who tidied up, may have taken the file.
    const known = found !== undefined && existsSync(this.rootfsPath(found)) ? found : undefined;
    if (known !== undefined && (mode !== 'always' || !isPullable(text))) return this.#touch(known);
    if (isMeaningless(text)) {
      const message = `image reference ${show(text)} is none; send one such as nginx:alpine or name@sha256: and 64 hexadecimal digits, or a digest`;
      throw new AppError('invalid_argument', message);
    }
    const reference = isPullable(text) ? parseReference(text) : undefined;
    if (mode === 'never' || reference === undefined) throw notFound(text, mode);
    onMake?.();
    return await this.#pulls.run(
      formatReference(reference),
      (report, cancelled) =>
        this.#make((options) => fetchFromRegistry(reference, options), {
          report,
          signal: cancelled,
          owner,
        }),
      { onEvent: onProgress, signal },
    );
  }

  /** Of a file of the host, converted anew when it changed. AppError as `openHostFile` and `import`. */
  async obtainFile(
    path: string,
    { onProgress, signal, owner, onMake }: PullOptions = {},
  ): Promise<StoredImage> {
    const { allowedDirs, files, records } = this.#options;
    const { key } = await this.#identify(path);
    const known = this.#all().find(
      ({ record }) => record.fileKey === key && existsSync(files.rootfsPath(record.rootfsDigest)),
    );
    if (known !== undefined) return this.#touch(known);
    onMake?.();
    return await this.#pulls.run(
      key,
      async (report, cancelled) => {
        // It may be another by now: what is opened here is what is read, and what the record is about.
        await using file = await openHostFile(path, allowedDirs);
        const made = await this.#makeOfFile(file, { report, signal: cancelled, owner });
        const kept = { id: made.id, record: { ...made.record, fileKey: file.key } };
        await records.put(kept.id, kept.record);
        return kept;
      },
      { onEvent: onProgress, signal },
    );
  }

  /** AppError invalid_argument for what is no archive of images, or holds several and `tag` does not say which. */
  async import(
    pieces: Pieces,
    tag: string | undefined,
    { onProgress, signal, owner }: PullOptions = {},
  ): Promise<ImageInfo> {
    const report = onProgress ?? (() => undefined);
    return toInfo(await this.#makeOfSent(fetchFromPieces(pieces, tag), { report, signal, owner }));
  }

  /** By a reference only that name goes, while the image has others. What runs from it goes on. AppError as `get`. */
  async delete(text: string): Promise<void> {
    const { id, record } = this.#find(text);
    const reference = parseReference(text);
    const name = reference === undefined ? undefined : formatReference(reference);
    const isName = name !== undefined && record.refs.includes(name);
    if (isName && record.refs.length > 1) {
      await this.#options.records.put(id, { ...record, refs: record.refs.filter((ref) => ref !== name) });
      return;
    }
    await this.#forget(id);
    await this.#sweep();
  }

  /** Removes images that nothing runs from: all, or those without a name. Gives their digests. */
  async prune({ isNamedKept }: { readonly isNamedKept: boolean }): Promise<string[]> {
    const removed: string[] = [];
    for (const { id, record } of this.#all()) {
      if ((isNamedKept && record.refs.length > 0) || (await this.#options.files.isUsed(record))) continue;
      await this.#forget(id);
      removed.push(`sha256:${id}`);
    }
    await this.#sweep();
    return removed;
  }

  /** Keeps the root filesystem until it is disposed, also when the image is deleted. Undefined when it is gone already. */
  async hold({ record }: StoredImage): Promise<AsyncDisposable | undefined> {
    return this.#options.files.hold(record.rootfsDigest).catch((error) => {
      if (errnoOf(error) === 'ENOENT') return undefined;
      throw error;
    });
  }

  /** Where the root filesystem is. */
  rootfsPath({ record }: StoredImage): string {
    return this.#options.files.rootfsPath(record.rootfsDigest);
  }

  async #identify(path: string): Promise<Pick<HostFile, 'key'>> {
    await using file = await openHostFile(path, this.#options.allowedDirs);
    return { key: file.key };
  }

  #makeOfFile(
    { file, kind, openWithin }: HostFile,
    start: ImportTask & { signal: AbortSignal },
  ): Promise<StoredImage> {
    const { files, maxBlobBytes: maxBytes } = this.#options;
    const { signal, owner } = start;
    if (kind === 'rootfs') return copyRootfs(file, { files, maxBytes, signal, owner });
    const fetch = kind === 'layout' ? fetchFromLayout(openWithin) : fetchFromPieces(readPieces(file, signal));
    return this.#makeOfSent(fetch, start);
  }

  /** What is wrong with it is its sender's to mend. */
  #makeOfSent(fetch: Fetch, start: ImportTask): Promise<StoredImage> {
    return this.#make(fetch, start).catch((error) => Promise.reject(toClientFault(error)));
  }

  /** Fetches, converts and keeps an image; nothing is left of what fails. */
  async #make(fetch: Fetch, start: ImportTask): Promise<StoredImage> {
    try {
      return await buildImage(this.#options, { fetch, ...start });
    } finally {
      await this.#makeRoom();
    }
  }

  /**
   * Keeps disk and records within their limits: of what nothing runs from and is not the newest, the longest unused of whoever
   * has the most goes first.
   */
  async #makeRoom(): Promise<void> {
    const { files, maxBytes, log } = this.#options;
    await this.#sweep();
    const images = this.#all();
    const newest = images.reduce((last, { record }) => Math.max(last, record.usedAtMs), 0);
    const entries = await Promise.all(
      images.map(async ({ id, record }) => ({
        id,
        refs: record.refs,
        owner: record.owner,
        size: await files.sizeOf(record),
        recordBytes: Buffer.byteLength(JSON.stringify(record)),
        usedAtMs: record.usedAtMs,
        isPinned: record.usedAtMs === newest || (await files.isUsed(record)),
      })),
    );
    // What images share is on the disk once, and counted for each of them.
    const shared = entries.reduce((sum, { size }) => sum + size, 0) - (await files.totalBytes());
    const beyondDisk = maxBytes === 0 ? [] : chooseEvicted(entries, maxBytes + Math.max(0, shared));
    const left = entries.filter((entry) => !beyondDisk.includes(entry));
    const records = left.map((entry) => ({ ...entry, size: entry.recordBytes }));
    for (const { id, refs } of [...beyondDisk, ...chooseEvicted(records, MAX_RECORDS_BYTES)]) {
      await this.#forget(id);
      log.info({ image: id, refs }, 'image removed to make room; image_disk_bytes is the limit');
    }
    await this.#sweep();
  }

  /** Its files stay until the next sweep. */
  async #forget(id: string): Promise<void> {
    await this.#options.records.remove(id);
    this.#options.faults.reach('image.forgotten');
  }

  #all(): StoredImage[] {
    return this.#options.records.all();
  }

  #find(text: string): StoredImage {
    const found = findImage(this.#all(), text);
    if (found !== undefined) return found;
    throw notFound(text);
  }

  async #touch({ id, record }: StoredImage): Promise<StoredImage> {
    const touched = { ...record, usedAtMs: Date.now() };
    await this.#options.records.put(id, touched);
    return { id, record: touched };
  }

  async #sweep(): Promise<void> {
    await this.#options.files.sweep(this.#all().map(({ record }) => record));
  }
}

function toInfo({ id, record }: StoredImage): ImageInfo {
  const { config, contentBytes, sizeBytes, entries, convertedAtMs } = record;
  const refs = record.refs.flatMap((ref) => parseReference(ref) ?? []).map(shortReference);
  const [sourceRef] = refs;
  return {
    digest: `sha256:${id}`,
    ...(sourceRef !== undefined && { sourceRef }),
    refs,
    config,
    contentBytes,
    sizeBytes,
    entries,
    convertMode: record.isCopy ? COPY_MODE : CONVERT_MODE,
    convertedAtMs,
  };
}

function notFound(text: string, mode?: PullMode): AppError {
  const advice = mode === 'never' ? '; pull it first, or send another pull than never' : '';
  return new AppError('not_found', `image ${text} is not here${advice}`);
}

/** What is wrong with an archive is its sender's to mend. */
function toClientFault(error: unknown): unknown {
  if (!isAppError(error) || error.code !== 'upstream') return error;
  return new AppError('invalid_argument', error.message, { cause: error });
}
