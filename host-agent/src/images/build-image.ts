// Builds one image from its source to its record: fetch, convert unless an equal image exists, name.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { link, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { show } from '@sandboxd/api';
import type { Logger } from 'pino';
import { AppError, errnoOf, isAppError } from '../lib/errors.ts';
import type { Faults } from '../lib/faults.ts';
import type { Table } from '../store/store.ts';
import type { Converter } from './converter.ts';
import type { Report } from './fetch/download-progress.ts';
import type { Fetched, FetchOptions } from './fetch/fetcher.ts';
import { blobPath, DamagedBlobs, dropDamaged, type LaidOut } from './fetch/layout.ts';
import { watchFreeDisk } from './fetch/watch.ts';
import type { ImageFiles } from './files.ts';
import { toSignal } from './image-service.ts';
import { type ImageRecord, MAX_REFS, type StoredImage } from './record.ts';

export type Fetch = (options: FetchOptions) => Promise<Fetched>;

export type ImageBuilderDeps = {
  readonly files: ImageFiles;
  readonly records: Table<ImageRecord>;
  readonly converter: Converter;
  /** Size limit of each blob and of each archive. */
  readonly maxBlobBytes: number;
  /** Idle timeout of a pull: it fails when the registry sends nothing for this time. */
  readonly pullIdleMs: number;
  /** First delay of the exponential backoff after a registry closed the connection. */
  readonly pullPauseMs: number;
  readonly faults: Faults;
  readonly log: Logger;
};

export type BuildRequest = {
  /** May be called twice with one directory. */
  readonly fetch: Fetch;
  /** Called with one line for each step. */
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
  /** Owner of the image if it is new. */
  readonly owner?: string | undefined;
};

/** `names`: those that the source gave. */
export type BuiltImage = { readonly image: StoredImage; readonly names: readonly string[] };

type Work = Omit<BuildRequest, 'fetch'> & { readonly dir: string };

/** AppError upstream, exhausted, or the error that `fetch` rejects with. */
export async function buildImage(
  deps: ImageBuilderDeps,
  { fetch, report, signal, owner }: BuildRequest,
): Promise<BuiltImage> {
  const { files, log } = deps;
  await using work = await files.makeWork();
  using diskWatch = watchFreeDisk(work.dir, signal);
  const request = { dir: work.dir, report, signal: diskWatch.signal, owner };
  const build = async (): Promise<BuiltImage> => {
    const { maxBlobBytes: maxBytes, pullIdleMs: idleMs, pullPauseMs: pauseMs } = deps;
    const { ociDir, blobsDir } = files;
    const keepBlobs = (hexes: Iterable<string>) => files.keepBlobs(hexes);
    const { laidOut, names } = await fetch({
      ...request,
      ...{ maxBytes, idleMs, pauseMs, ociDir, blobsDir, workDir: work.dir, keepBlobs },
    });
    deps.faults.reach('image.fetched');
    return { image: await store(deps, laidOut, names, request), names };
  };
  try {
    return await build();
  } catch (error) {
    if (!(error instanceof DamagedBlobs)) throw error;
    log.warn({ blobs: error.blobs }, 'blobs of an image are damaged on disk; fetching them again');
    return await build();
  }
}

async function store(
  deps: ImageBuilderDeps,
  laidOut: LaidOut,
  names: readonly string[],
  work: Work,
): Promise<StoredImage> {
  const { files, records, faults } = deps;
  const { stopSignal } = laidOut.config;
  if (stopSignal !== '' && toSignal(stopSignal) === undefined)
    work.report(`Linux has no signal ${show(stopSignal)}, which the image wants for a stop; SIGTERM is sent`);
  const layers = laidOut.layers.map(({ digest }) => digest);
  const known = records
    .all()
    .find(
      ({ record }) =>
        record.configDigest === laidOut.configDigest &&
        record.layers.join() === layers.join() &&
        existsSync(files.rootfsPath(record.rootfsDigest)),
    );
  const image = known ?? (await convert(deps, laidOut, layers, work));
  faults.reach('image.converted');
  const updated = await commitImage(records, image, names, { isNew: known === undefined });
  faults.reach('image.committed');
  return updated;
}

type CommitOptions = {
  /** Its record replaces an older one, but for the labels that clients set. */
  readonly isNew: boolean;
  /** Whether another image keeps the names that it has by now; that one is the result. */
  readonly isKept?: (holder: StoredImage) => boolean;
};

/** Gives an image these names. AppError invalid_argument for too many names. */
export async function commitImage(
  records: Table<ImageRecord>,
  image: StoredImage,
  names: readonly string[],
  { isNew, isKept }: CommitOptions,
): Promise<StoredImage> {
  // What else changes these records, such as their labels, is neither lost nor in between.
  return await records.atomically(() => {
    const others = records.all().filter(({ id }) => id !== image.id);
    const holder = others.find(({ record }) => record.refs.some((ref) => names.includes(ref)));
    if (holder !== undefined && isKept?.(holder)) return holder;
    const current = records.get(image.id) ?? image.record;
    const refs = [...new Set([...current.refs, ...names])];
    if (refs.length > MAX_REFS)
      throw new AppError(
        'invalid_argument',
        `the image would have ${refs.length} names, and may have ${MAX_REFS}; delete some of them first`,
      );
    // A name belongs to one image only, so other images lose it.
    for (const { id, record } of others) {
      if (!record.refs.some((ref) => names.includes(ref))) continue;
      void records.put(id, { ...record, refs: record.refs.filter((ref) => !names.includes(ref)) });
    }
    const { labels } = current;
    const base = isNew ? image.record : current;
    const record = { ...base, ...(labels && { labels }), refs, usedAtMs: Date.now() };
    void records.put(image.id, record);
    return { id: image.id, record };
  });
}

async function convert(
  { files, converter, log }: ImageBuilderDeps,
  { layers, configDigest, config, blobs }: LaidOut,
  digests: readonly string[],
  { dir, report, signal, owner }: Work,
): Promise<StoredImage> {
  const imagePath = join(dir, 'image');
  report(`converting ${layers.length} layers`);
  const startedAt = performance.now();
  const { digest: rootfsDigest, ...sizes } = await converter
    .convert({
      layers: layers.map(({ digest, diffId }) => ({ path: blobPath(files.blobsDir, digest), diffId })),
      imagePath,
      onLayer: (count) => report(`converted ${count} of ${layers.length} layers`),
      signal,
    })
    .catch(async (error) => {
      await rm(imagePath, { force: true });
      // The blobs may have been intact when they were written: a disk fault or a host crash can have damaged them
      // since.
      if (isAppError(error) && error.code === 'upstream') await dropDamaged(files.blobsDir, digests, error);
      throw error;
    });
  // Another image may have the same root filesystem. Sandboxes may run from that file, so it is not replaced.
  await link(imagePath, files.rootfsPath(rootfsDigest)).catch((error) => {
    if (errnoOf(error) !== 'EEXIST') throw error;
  });
  await rm(imagePath);
  const id = createHash('sha256').update(`${rootfsDigest}\n${configDigest}\n`).digest('hex');
  const ms = Math.round(performance.now() - startedAt);
  log.info({ image: id, layers: layers.length, ...sizes, ms }, 'image converted');
  const now = Date.now();
  const about = { configDigest, config, blobs, layers: digests, rootfsDigest, ...sizes };
  return {
    id,
    record: { ...(owner !== undefined && { owner }), refs: [], ...about, convertedAtMs: now, usedAtMs: now },
  };
}
