// One image from its source to its record: fetched, converted unless that was done before, named.
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
import { blobPath, DamagedBlobs, dropDamaged } from './fetch/blobs.ts';
import type { Fetched, FetchOptions } from './fetch/fetcher.ts';
import type { LaidOut } from './fetch/layout.ts';
import { watchFreeDisk } from './fetch/watch.ts';
import type { ImageFiles } from './files.ts';
import type { StoredImage } from './find.ts';
import { toSignal } from './image-service.ts';
import type { Report } from './progress.ts';
import { type ImageRecord, MAX_REFS } from './record.ts';

export type Fetch = (options: FetchOptions) => Promise<Fetched>;

export type ImageBuilderDeps = {
  readonly files: ImageFiles;
  readonly records: Table<ImageRecord>;
  readonly converter: Converter;
  /** Largest blob, and largest archive. */
  readonly maxBlobBytes: number;
  /** A registry that sends nothing for so long is given up. */
  readonly pullIdleMs: number;
  /** Before a registry that broke off is asked again; longer before each further time. */
  readonly pullPauseMs: number;
  readonly faults: Faults;
  readonly log: Logger;
};

export type BuildRequest = {
  /** May be called twice in one directory. */
  readonly fetch: Fetch;
  /** Told a line about each step. */
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
  /** Whose it is if it is new. */
  readonly owner?: string | undefined;
};

type Work = Omit<BuildRequest, 'fetch'> & { readonly dir: string };

/** AppError upstream, exhausted, or what `fetch` rejects with. */
export async function buildImage(
  deps: ImageBuilderDeps,
  { fetch, report, signal, owner }: BuildRequest,
): Promise<StoredImage> {
  const { files, log } = deps;
  await using work = await files.makeWork();
  using room = watchFreeDisk(work.dir, signal);
  const order = { dir: work.dir, report, signal: room.signal, owner };
  const make = async (): Promise<StoredImage> => {
    const { maxBlobBytes: maxBytes, pullIdleMs: idleMs, pullPauseMs: pauseMs } = deps;
    const { ociDir, blobsDir } = files;
    const keepBlobs = (hexes: Iterable<string>) => files.keepBlobs(hexes);
    const { laidOut, names } = await fetch({
      ...order,
      ...{ maxBytes, idleMs, pauseMs, ociDir, blobsDir, workDir: work.dir, keepBlobs },
    });
    deps.faults.reach('image.fetched');
    return keep(deps, laidOut, names, order);
  };
  try {
    return await make();
  } catch (error) {
    if (!(error instanceof DamagedBlobs)) throw error;
    log.warn({ blobs: error.blobs }, 'blobs of an image were damaged on disk; they are fetched again');
    return await make();
  }
}

async function keep(
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
  const made = known ?? (await convert(deps, laidOut, layers, work));
  faults.reach('image.converted');
  const now = Date.now();
  // A name leads to one image.
  const others = records
    .all()
    .filter(({ id, record }) => id !== made.id && record.refs.some((ref) => names.includes(ref)));
  const refs = [...new Set([...made.record.refs, ...names])];
  if (refs.length > MAX_REFS)
    throw new AppError(
      'invalid_argument',
      `the image would have ${refs.length} names, and may have ${MAX_REFS}; delete some of them first`,
    );
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
      onLayer: (done) => report(`converted ${done} of ${layers.length} layers`),
      signal,
    })
    .catch(async (error) => {
      await rm(imagePath, { force: true });
      // They may have been right once: a disk, or a crash of the host, can have changed them since.
      if (isAppError(error) && error.code === 'upstream') await dropDamaged(files.blobsDir, digests, error);
      throw error;
    });
  // Another image may have the same files; whoever runs from that one keeps it.
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
