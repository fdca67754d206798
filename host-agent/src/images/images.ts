// The container images of this daemon: pulled or imported, converted, found again, deleted.
import { createReadStream, existsSync } from 'node:fs';
import { show } from '@sandboxd/api';
import { AppError, errnoOf, isAppError } from '../lib/errors.ts';
import { copyRootfs } from './copy-rootfs.ts';
import type { Pieces } from './fetch/archive.ts';
import { fetchFromLayout, fetchFromPieces, fetchFromRegistry } from './fetch/fetcher.ts';
import { findImage, isMeaningless, isPullable, type StoredImage } from './find.ts';
import { findHostFile, type HostFile } from './host-path.ts';
import { type Fetch, makeImage, type Workshop } from './making.ts';
import type { Report } from './progress.ts';
import { CONVERT_MODE, COPY_MODE, type ImageInfo } from './record.ts';
import { formatReference, parseReference, shortReference } from './reference.ts';
import { SingleFlight } from './single-flight.ts';

export type PullMode = 'missing' | 'always' | 'never';

export type ImagesOptions = Workshop & {
  /** Disk for images; what nobody uses goes, the longest unused first. 0: no limit. */
  readonly maxBytes: number;
  /** Directories of the host that creates may name files of. */
  readonly allowedDirs: readonly string[];
};

export type Asking = {
  /** A line about each step, for people. */
  readonly onProgress?: Report | undefined;
  readonly signal?: AbortSignal | undefined;
};

export class Images {
  readonly #options: ImagesOptions;
  readonly #pulls = new SingleFlight<StoredImage>();

  constructor(options: ImagesOptions) {
    this.#options = options;
  }

  /** Removes what an earlier process left. */
  async start(): Promise<void> {
    await this.#sweep();
  }

  /** Ends what is under way. */
  async stop(): Promise<void> {
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
  async pull(text: string, mode: PullMode, asking: Asking = {}): Promise<ImageInfo> {
    return toInfo(await this.obtain(text, mode, asking));
  }

  /** The same, for those who make a sandbox of it. */
  async obtain(text: string, mode: PullMode, { onProgress, signal }: Asking = {}): Promise<StoredImage> {
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
    return await this.#pulls.run(
      formatReference(reference),
      (report, cancelled) =>
        this.#make((options) => fetchFromRegistry(reference, options), report, cancelled),
      { onEvent: onProgress, signal },
    );
  }

  /** Of a file of the host, converted anew when it changed. AppError as `findHostFile` and `import`. */
  async obtainFile(path: string, { onProgress, signal }: Asking = {}): Promise<StoredImage> {
    const file = await findHostFile(path, this.#options.allowedDirs);
    const known = this.#all().find(
      ({ record }) =>
        record.fileKey === file.key && existsSync(this.#options.files.rootfsPath(record.rootfsDigest)),
    );
    if (known !== undefined) return this.#touch(known);
    return await this.#pulls.run(
      file.key,
      async (report, cancelled) => {
        const made = await this.#makeOfFile(file, report, cancelled);
        const kept = { id: made.id, record: { ...made.record, fileKey: file.key } };
        await this.#options.records.put(kept.id, kept.record);
        return kept;
      },
      { onEvent: onProgress, signal },
    );
  }

  /** AppError invalid_argument for what is no archive of images, or holds several and `tag` does not say which. */
  async import(
    pieces: Pieces,
    tag: string | undefined,
    { onProgress, signal }: Asking = {},
  ): Promise<ImageInfo> {
    const report = onProgress ?? (() => undefined);
    return toInfo(await this.#makeOfSent(fetchFromPieces(pieces, tag), report, signal));
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

  #makeOfFile({ path, kind }: HostFile, report: Report, signal: AbortSignal): Promise<StoredImage> {
    if (kind === 'rootfs') return copyRootfs(path, this.#options.files, signal);
    const fetch: Fetch =
      kind === 'layout'
        ? (options) => fetchFromLayout(path, options)
        : fetchFromPieces(createReadStream(path));
    return this.#makeOfSent(fetch, report, signal);
  }

  /** What is wrong with it is its sender's to mend. */
  #makeOfSent(fetch: Fetch, report: Report, signal?: AbortSignal): Promise<StoredImage> {
    return this.#make(fetch, report, signal).catch((error) => Promise.reject(toClientFault(error)));
  }

  /** Fetches, converts and keeps an image; nothing is left of what fails. */
  async #make(fetch: Fetch, report: Report, signal?: AbortSignal): Promise<StoredImage> {
    try {
      return await makeImage(this.#options, { fetch, report, signal });
    } finally {
      await this.#makeRoom();
    }
  }

  /** Frees disk beyond the limit: of images that nothing runs from, the longest unused first, but not the newest. */
  async #makeRoom(): Promise<void> {
    const { files, maxBytes, log } = this.#options;
    await this.#sweep();
    if (maxBytes === 0) return;
    let bytes = await files.totalBytes();
    const byUse = this.#all().sort((a, b) => a.record.usedAtMs - b.record.usedAtMs);
    for (const { id, record } of byUse.slice(0, -1)) {
      if (bytes <= maxBytes) break;
      if (await files.isUsed(record)) continue;
      bytes -= await files.sizeOf(record);
      await this.#forget(id);
      log.info({ image: id, refs: record.refs }, 'image removed to make room; image_disk_bytes is the limit');
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
