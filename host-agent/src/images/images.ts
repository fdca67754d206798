// The container images of this daemon: pulled or imported, converted, found again, deleted.
import { createHash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { link, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { AppError, errnoOf, isAppError } from '../lib/errors.ts';
import type { Faults } from '../lib/faults.ts';
import type { Table } from '../store/store.ts';
import type { Converter } from './converter.ts';
import { copyRootfs } from './copy-rootfs.ts';
import { type Pieces, spool } from './fetch/archive.ts';
import { type Fetched, type FetchOptions, fetchFromArchive, fetchFromRegistry } from './fetch/fetcher.ts';
import { blobPath, type LaidOut } from './fetch/layout.ts';
import type { ImageFiles } from './files.ts';
import { findImage, isPullable, type StoredImage } from './find.ts';
import { findHostFile } from './host-path.ts';
import type { Report } from './progress.ts';
import { CONVERT_MODE, COPY_MODE, type ImageInfo, type ImageRecord } from './record.ts';
import { formatReference, parseReference, shortReference } from './reference.ts';
import { SingleFlight } from './single-flight.ts';

export type PullMode = 'missing' | 'always' | 'never';

export type ImagesOptions = {
  readonly files: ImageFiles;
  readonly records: Table<ImageRecord>;
  readonly converter: Converter;
  /** Disk for images; what nobody uses goes, the longest unused first. 0: no limit. */
  readonly maxBytes: number;
  /** Directories of the host that creates may name files of. */
  readonly allowedDirs: readonly string[];
  /** Largest archive. */
  readonly maxArchiveBytes: number;
  readonly faults: Faults;
  readonly log: Logger;
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
    const reference = isPullable(text) ? parseReference(text) : undefined;
    if (mode === 'never' || reference === undefined) throw notFound(text, mode);
    return await this.#pulls.run(
      formatReference(reference),
      (report, cancelled) =>
        this.#make(report, cancelled, (options) => fetchFromRegistry(reference, options)),
      { onEvent: onProgress, signal },
    );
  }

  /** Of a file of the host, converted anew when it changed. AppError as `findHostFile` and `import`. */
  async obtainFile(path: string, { onProgress, signal }: Asking = {}): Promise<StoredImage> {
    const file = await findHostFile(path, this.#options.allowedDirs);
    const known = this.#all().find(({ record }) => record.fileKey === file.key);
    if (known !== undefined) return this.#touch(known);
    return await this.#pulls.run(
      file.key,
      async (report, cancelled) => {
        const made = file.isRootfs
          ? await copyRootfs(file, this.#options.files, cancelled)
          : await this.#importPieces(createReadStream(file.path), undefined, report, cancelled);
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
    return toInfo(await this.#importPieces(pieces, tag, onProgress ?? (() => undefined), signal));
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
    await this.#options.records.remove(id);
    await this.#sweep();
  }

  /** Removes images that nothing runs from: all, or those without a name. Gives their digests. */
  async prune({ isNamedKept }: { readonly isNamedKept: boolean }): Promise<string[]> {
    const removed: string[] = [];
    for (const { id, record } of this.#all()) {
      if ((isNamedKept && record.refs.length > 0) || (await this.#options.files.isUsed(record))) continue;
      await this.#options.records.remove(id);
      removed.push(`sha256:${id}`);
    }
    await this.#sweep();
    return removed;
  }

  /** Where the root filesystem is. */
  rootfsPath({ record }: StoredImage): string {
    return this.#options.files.rootfsPath(record.rootfsDigest);
  }

  async #importPieces(
    pieces: Pieces,
    tag: string | undefined,
    report: Report,
    signal: AbortSignal | undefined,
  ): Promise<StoredImage> {
    const { maxArchiveBytes } = this.#options;
    const made = this.#make(report, signal, async (options) => {
      const path = join(options.workDir, 'archive');
      await spool(pieces, path, maxArchiveBytes, signal);
      return fetchFromArchive(path, tag, options);
    });
    return made.catch((error) => Promise.reject(toClientFault(error)));
  }

  /** Fetches, converts and keeps an image; nothing is left of what fails. */
  async #make(
    report: Report,
    signal: AbortSignal | undefined,
    fetch: (options: FetchOptions) => Promise<Fetched>,
  ): Promise<StoredImage> {
    const { files, faults } = this.#options;
    try {
      await using work = await files.makeWork();
      const { ociDir, blobsDir } = files;
      const { laidOut, names } = await fetch({ ociDir, blobsDir, workDir: work.dir, report, signal });
      faults.reach('image.fetched');
      return await this.#keep(laidOut, names, work.dir, report, signal);
    } finally {
      await this.#makeRoom();
    }
  }

  /** Converts what was laid out unless that was done before, and gives it its names. */
  async #keep(
    laidOut: LaidOut,
    names: readonly string[],
    work: string,
    report: Report,
    signal?: AbortSignal,
  ): Promise<StoredImage> {
    const { files, records, faults } = this.#options;
    const layers = laidOut.layers.map(({ digest }) => digest);
    const known = this.#all().find(
      ({ record }) =>
        record.configDigest === laidOut.configDigest &&
        record.layers.join() === layers.join() &&
        existsSync(files.rootfsPath(record.rootfsDigest)),
    );
    const made = known ?? (await this.#convert(laidOut, layers, work, report, signal));
    faults.reach('image.converted');
    const now = Date.now();
    // A name leads to one image.
    const others = this.#all().filter(
      ({ id, record }) => id !== made.id && record.refs.some((ref) => names.includes(ref)),
    );
    const refs = [...new Set([...made.record.refs, ...names])];
    const kept = { id: made.id, record: { ...made.record, refs, usedAtMs: now } };
    await records.putAll([
      ...others.map(({ id, record }) => ({
        id,
        record: { ...record, refs: record.refs.filter((ref) => !names.includes(ref)) },
      })),
      kept,
    ]);
    faults.reach('image.committed');
    return kept;
  }

  async #convert(
    { layers, ...laidOut }: LaidOut,
    digests: readonly string[],
    work: string,
    report: Report,
    signal?: AbortSignal,
  ): Promise<StoredImage> {
    const { files, converter, log } = this.#options;
    const imagePath = join(work, 'image');
    report(`converting ${layers.length} layers`);
    const startedAt = performance.now();
    const converted = await converter.convert({
      layers: layers.map(({ digest, diffId }) => ({ path: blobPath(files.blobsDir, digest), diffId })),
      imagePath,
      onLayer: (done) => report(`converted ${done} of ${layers.length} layers`),
      signal,
    });
    const { digest: rootfsDigest, sizeBytes, entries, contentBytes } = converted;
    // Another image may have the same files; whoever runs from that one keeps it.
    await link(imagePath, files.rootfsPath(rootfsDigest)).catch((error) => {
      if (errnoOf(error) !== 'EEXIST') throw error;
    });
    await rm(imagePath);
    const id = createHash('sha256').update(`${rootfsDigest}\n${laidOut.configDigest}\n`).digest('hex');
    const ms = Math.round(performance.now() - startedAt);
    log.info({ image: id, layers: layers.length, sizeBytes, entries, ms }, 'image converted');
    const now = Date.now();
    const { configDigest, config, blobs } = laidOut;
    const about = {
      configDigest,
      config,
      blobs,
      layers: digests,
      rootfsDigest,
      sizeBytes,
      entries,
      contentBytes,
    };
    return { id, record: { refs: [], ...about, convertedAtMs: now, usedAtMs: now } };
  }

  /** Frees disk beyond the limit: of images that nothing runs from, the longest unused first, but not the newest. */
  async #makeRoom(): Promise<void> {
    const { files, records, maxBytes, log } = this.#options;
    await this.#sweep();
    if (maxBytes === 0) return;
    let bytes = await files.totalBytes();
    const byUse = this.#all().sort((a, b) => a.record.usedAtMs - b.record.usedAtMs);
    for (const { id, record } of byUse.slice(0, -1)) {
      if (bytes <= maxBytes) break;
      if (await files.isUsed(record)) continue;
      bytes -= await files.sizeOf(record);
      await records.remove(id);
      log.info({ image: id, refs: record.refs }, 'image removed to make room; image_disk_bytes is the limit');
    }
    await this.#sweep();
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
