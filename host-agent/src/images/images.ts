// The daemon's container images: pull, import, lookup, deletion, and eviction.
import { existsSync } from 'node:fs';
import { type Labels, show } from '@sandboxd/api';
import { readChunks } from '../lib/bounded-copy.ts';
import { AppError, errnoOf, isAppError } from '../lib/errors.ts';
import {
  type BuildRequest,
  type BuiltImage,
  buildImage,
  type Fetch,
  type ImageBuilderDeps,
} from './build-image.ts';
import { chooseEvictedImages } from './eviction.ts';
import type { Chunks } from './fetch/archive.ts';
import type { Report } from './fetch/download-progress.ts';
import { fetchFromChunks, fetchFromLayout } from './fetch/fetcher.ts';
import { fetchFromRegistry } from './fetch/registry.ts';
import { KEPT_MS } from './files.ts';
import { copyRootfs, type HostFile, openHostFile } from './host-path.ts';
import {
  findImage,
  type ImageInfo,
  type ImageRecord,
  isMeaningless,
  isPullable,
  type StoredImage,
  toInfo,
} from './record.ts';
import { formatReference, parseReference } from './reference.ts';
import type { FetchTask } from './shared-fetch.ts';
import type { SharedImages } from './shared-images.ts';
import { isDigest } from './shared-name.ts';
import { SingleFlight } from './single-flight.ts';

export type PullMode = 'missing' | 'always' | 'never';

export type ImagesOptions = ImageBuilderDeps & {
  /** Disk limit for images. Unused images are evicted, least recently used first. 0: no limit. */
  readonly maxBytes: number;
  /** Directories of the host whose files a create may use as images. */
  readonly allowedDirs: readonly string[];
  /** Absent: this host shares no images. */
  readonly shared?: SharedImages | undefined;
};

export type PullOptions = {
  /** Called with a line for people about each step. */
  readonly onProgress?: Report | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The tenant, or a key without one, that owns a new image. */
  readonly owner?: string | undefined;
  /** Called before anything is fetched or converted; throws when the principal may not create images. */
  readonly onMake?: (() => void) | undefined;
};

type ImportTask = Omit<BuildRequest, 'fetch'>;

export class Images {
  readonly #options: ImagesOptions;
  readonly #pulls = new SingleFlight<StoredImage>();
  /** Undefined: this host shares none. */
  readonly shared: SharedImages | undefined;
  #sweeping: NodeJS.Timeout | undefined;

  constructor(options: ImagesOptions) {
    this.#options = options;
    this.shared = options.shared;
  }

  /** Removes what an earlier process left behind. */
  async start(): Promise<void> {
    await this.#sweep();
    const { log } = this.#options;
    const sweep = () => this.#sweep().catch((error) => log.warn({ err: error }, 'cannot sweep the images'));
    this.#sweeping = setInterval(sweep, KEPT_MS).unref();
  }

  /** Cancels the running pulls. */
  async stop(): Promise<void> {
    clearInterval(this.#sweeping);
    await this.#pulls.stop(new AppError('cancelled', 'the daemon is stopping'));
    await this.shared?.stop();
  }

  /** Oldest first. */
  list(): ImageInfo[] {
    return this.#all()
      .sort((a, b) => a.record.convertedAtMs - b.record.convertedAtMs)
      .map(toInfo);
  }

  /** AppError not_found, or conflict for an ambiguous digest prefix. */
  get(text: string): ImageInfo {
    return toInfo(this.#find(text));
  }

  /**
   * AppError invalid_argument, not_found when the image is missing and may not be pulled, upstream when the registry or
   * the image is invalid.
   */
  async pull(text: string, mode: PullMode, options: PullOptions = {}): Promise<ImageInfo> {
    return toInfo(await this.obtain(text, mode, options));
  }

  /** Like `pull`; returns the stored image, from which a sandbox is created. */
  async obtain(
    text: string,
    mode: PullMode,
    { onProgress, signal, owner, onMake }: PullOptions = {},
  ): Promise<StoredImage> {
    const found = findImage(this.#all(), text);
    // A host crash or an administrator may have removed the file.
    const known = found !== undefined && existsSync(this.rootfsPath(found)) ? found : undefined;
    if (known !== undefined && (mode !== 'always' || !isPullable(text))) return this.#touch(known);
    if (isMeaningless(text)) {
      const message = `image reference ${show(text)} is none; send one such as nginx:alpine or name@sha256: and 64 hexadecimal digits, or a digest`;
      throw new AppError('invalid_argument', message);
    }
    const reference = isPullable(text) ? parseReference(text) : undefined;
    const { shared } = this;
    const isOfFleet = reference !== undefined || (shared !== undefined && isDigest(text));
    if (mode === 'never' || !isOfFleet) throw notFound(text, mode);
    onMake?.();
    if (reference === undefined)
      return await this.#pulls.run(
        text,
        async (report, cancelled) => {
          const found = await this.#fetchShared(text, { report, signal: cancelled, owner });
          if (found === undefined) throw notFound(text, mode);
          return found;
        },
        { onEvent: onProgress, signal },
      );
    const name = formatReference(reference);
    // Without a listener the registry is not asked for sizes.
    const pull = (onEvent: Report | undefined, until?: AbortSignal): Promise<StoredImage> =>
      this.#pulls.run(
        name,
        (report, signal) =>
          this.#make((options) => fetchFromRegistry(reference, options), { report, signal, owner }),
        { onEvent, signal: until },
      );
    // A pull that must ask the registry takes no image of the fleet.
    if (shared === undefined || mode === 'always') return await pull(onProgress, signal);
    return await this.#pulls.run(
      `missing ${name}`,
      async (report, cancelled) => {
        const task = { report, signal: cancelled, owner };
        return (await this.#fetchShared(name, task)) ?? (await pull(report, cancelled));
      },
      { onEvent: onProgress, signal },
    );
  }

  /**
   * Returns the image of a host file; converts it again when the file has changed. AppError as `openHostFile` and
   * `import`.
   */
  async obtainFile(
    path: string,
    { onProgress, signal, owner, onMake }: PullOptions = {},
  ): Promise<StoredImage> {
    const { allowedDirs, files } = this.#options;
    const { key } = await this.#identify(path);
    const known = this.#all().find(
      ({ record }) => record.fileKey === key && existsSync(files.rootfsPath(record.rootfsDigest)),
    );
    if (known !== undefined) return this.#touch(known);
    onMake?.();
    return await this.#pulls.run(
      key,
      async (report, cancelled) => {
        // The file may have been replaced since: the record describes the file opened here.
        await using file = await openHostFile(path, allowedDirs);
        const created = await this.#createFromFile(file, { report, signal: cancelled, owner });
        const withKey = (record: ImageRecord) => ({ ...record, fileKey: file.key });
        return await this.#change(created, withKey, { isNew: true });
      },
      { onEvent: onProgress, signal },
    );
  }

  /** AppError invalid_argument for an invalid archive, or one with several images when `tag` does not select one. */
  async import(
    chunks: Chunks,
    tag: string | undefined,
    { onProgress, signal, owner }: PullOptions = {},
  ): Promise<ImageInfo> {
    const report = onProgress ?? (() => undefined);
    const made = this.#make(fetchFromChunks(chunks, tag), { report, signal, owner });
    return toInfo(await made.catch((error) => Promise.reject(toClientFault(error))));
  }

  /** `change` returns the new labels from the present ones. AppError as `get`. */
  async relabel(text: string, change: (labels: Labels) => Labels): Promise<ImageInfo> {
    const relabelled = await this.#change(this.#find(text), (record) => ({
      ...record,
      labels: change(record.labels ?? {}),
    }));
    return toInfo(relabelled);
  }

  /**
   * Given a reference, removes only that name while the image has others; given a digest, all. Running sandboxes are
   * not affected. AppError as `get`; upstream if it may be in the bucket of the fleet.
   */
  async delete(text: string): Promise<void> {
    const { shared } = this;
    const reference = parseReference(text);
    const name = reference === undefined ? undefined : formatReference(reference);
    const found = findImage(this.#all(), text);
    if (found === undefined) {
      // No host may have it any more, and the next create would fetch it.
      if (await shared?.withdrawUnknown(text, name)) return;
      throw notFound(text);
    }
    const isNamed = name !== undefined && found.record.refs.includes(name);
    if (isNamed && found.record.refs.length > 1) {
      const { record } = await this.#change(found, (record) => ({
        ...record,
        refs: record.refs.filter((ref) => ref !== name),
      }));
      await shared?.withdraw([name], found.id);
      if (record.refs.length > 0) return;
    }
    await this.#forget(found.id);
    await shared?.withdraw(found.record.refs, found.id);
    if (!isNamed) await shared?.withdrawImage(found.id);
    await this.#sweep();
  }

  /** Removes unused images: all, or only those without a name. Returns their digests. */
  async prune({ keepsNamed }: { readonly keepsNamed: boolean }): Promise<string[]> {
    const removed: string[] = [];
    for (const { id, record } of this.#all()) {
      if ((keepsNamed && record.refs.length > 0) || (await this.#options.files.isUsed(record))) continue;
      await this.#forget(id);
      removed.push(`sha256:${id}`);
    }
    await this.#sweep();
    return removed;
  }

  /** Keeps the root filesystem until disposal, even if the image is deleted. Undefined when it is already gone. */
  async hold({ record }: StoredImage): Promise<AsyncDisposable | undefined> {
    return this.#options.files.hold(record.rootfsDigest).catch((error) => {
      if (errnoOf(error) === 'ENOENT') return undefined;
      throw error;
    });
  }

  /** Path of the image's root filesystem. */
  rootfsPath({ record }: StoredImage): string {
    return this.#options.files.rootfsPath(record.rootfsDigest);
  }

  async #identify(path: string): Promise<Pick<HostFile, 'key'>> {
    await using file = await openHostFile(path, this.#options.allowedDirs);
    return { key: file.key };
  }

  #createFromFile(
    { file, kind, openWithin }: HostFile,
    start: ImportTask & { signal: AbortSignal },
  ): Promise<StoredImage> {
    const { files, maxBlobBytes: maxBytes } = this.#options;
    const { signal, owner } = start;
    if (kind === 'rootfs') return copyRootfs(file, { files, maxBytes, signal, owner });
    const fetch = kind === 'layout' ? fetchFromLayout(openWithin) : fetchFromChunks(readChunks(file, signal));
    const created = this.#create(fetch, start).catch((error) => Promise.reject(toClientFault(error)));
    return created.then(({ image }) => image);
  }

  /** As `#create`; other hosts of the fleet get it, too. */
  async #make(fetch: Fetch, start: ImportTask): Promise<StoredImage> {
    const atMs = Date.now();
    const created = await this.#create(fetch, start);
    this.shared?.offer(created, { atMs, owner: start.owner });
    return created.image;
  }

  /** Fetches, converts and stores an image; a failure leaves nothing behind. */
  async #create(fetch: Fetch, start: ImportTask): Promise<BuiltImage> {
    try {
      return await buildImage(this.#options, { fetch, ...start });
    } finally {
      await this.#evict();
    }
  }

  async #fetchShared(name: string, task: FetchTask): Promise<StoredImage | undefined> {
    const found = await this.shared?.fetch(name, task);
    if (found !== undefined) await this.#evict();
    return found;
  }

  /**
   * Evicts unused images until disk and records are within their limits: of the owner with the most, the least recently
   * used first. The newest image is never evicted.
   */
  async #evict(): Promise<void> {
    const { files, maxBytes, log } = this.#options;
    await this.#sweep();
    for (const { id, refs } of await chooseEvictedImages(this.#all(), { files, maxBytes })) {
      await this.#forget(id);
      log.info({ image: id, refs }, 'image evicted: image_disk_bytes is exceeded');
    }
    await this.#sweep();
  }

  /** The next sweep removes the files. */
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

  #touch(image: StoredImage): Promise<StoredImage> {
    return this.#change(image, (record) => ({ ...record, usedAtMs: Date.now() }));
  }

  /**
   * Concurrent changes of a record are made one after the other. AppError not_found if it is gone; one that `isNew` may
   * not be stored yet.
   */
  async #change(
    { id, record: given }: StoredImage,
    change: (record: ImageRecord) => ImageRecord,
    { isNew = false } = {},
  ): Promise<StoredImage> {
    const { records } = this.#options;
    return await records.atomically(() => {
      const record = records.get(id) ?? (isNew ? given : undefined);
      if (record === undefined) throw notFound(`sha256:${id}`);
      const changed = { id, record: change(record) };
      void records.put(id, changed.record);
      return changed;
    });
  }

  async #sweep(): Promise<void> {
    await this.#options.files.sweep(this.#all().map(({ record }) => record));
  }
}

function notFound(text: string, mode?: PullMode): AppError {
  const advice = mode === 'never' ? '; pull it first, or send another pull than never' : '';
  return new AppError('not_found', `image ${text} is not here${advice}`);
}

/** Errors of an uploaded image are the client's fault, not an upstream's. */
function toClientFault(error: unknown): unknown {
  if (!isAppError(error) || error.code !== 'upstream') return error;
  return new AppError('invalid_argument', error.message, { cause: error });
}
