// Images into the shared layout, from registries and archives.
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { AppError, isAppError } from '../../lib/errors.ts';
import type { Report } from '../progress.ts';
import { formatReference, isLoopback, parseReference, type Reference, shortReference } from '../reference.ts';
import { Amount, type LayerSizes, readSizes } from './amount.ts';
import {
  type ArchivedImage,
  chooseImage,
  inspectArchive,
  type Pieces,
  spool,
  toOciImages,
} from './archive.ts';
import { blobPath } from './blobs.ts';
import { type GatherOptions, gatherLayout, readIndex } from './gather.ts';
import { type LaidOut, readLayout } from './layout.ts';
import { isBrokenOff, retry } from './retry.ts';
import { runSkopeo, SkopeoError } from './skopeo.ts';
import { unpackLayout } from './unpack.ts';
import { watchArrival } from './watch.ts';

export type FetchOptions = {
  /** All that may be written to; `blobsDir` and `workDir` are beneath. */
  readonly ociDir: string;
  readonly blobsDir: string;
  readonly workDir: string;
  /** Told a line about each step. */
  readonly report: Report;
  /** Largest blob, and largest archive. */
  readonly maxBytes: number;
  /** A registry that sends nothing for so long is given up. */
  readonly idleMs: number;
  /** Before a registry that broke off is asked again; longer before each further time. */
  readonly pauseMs: number;
  /** Has blobs of a pull that was broken off stay for the next one. */
  readonly keepBlobs: (hexes: Iterable<string>) => void;
  /** CPU time for what unpacks it; absent: as much as it takes. */
  readonly maxCpuS?: number | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** What was fetched, with all names that it goes by from now on, in their one spelling. */
export type Fetched = { readonly laidOut: LaidOut; readonly names: readonly string[] };

type Copy = {
  readonly source: string;
  readonly args: readonly string[];
  readonly what: string;
  readonly toError: (error: SkopeoError) => AppError;
  /** Told of each layer when it begins; without it, what reports steps is. */
  readonly onLayer?: (hex: string) => void;
};

/** For an archive: a second for so much of what it may unpack to, a tenth of the pace of the slowest way of packing. */
const BASE_CPU_S = 10;
const BYTES_OF_CPU_S = 10 << 20;

const PLATFORM = ['--override-os', 'linux', '--override-arch', 'amd64'];
/** Signatures are checked by the host's policy; this layout has no place for them. */
const COPY = ['copy', '--remove-signatures', '--dest-oci-accept-uncompressed-layers'];

/**
 * What skopeo says of a reference that it cannot ask a registry for: its grammar and its digests are narrower than Docker's, and
 * differ from version to version.
 */
const NO_REFERENCE =
  /\b(invalid reference format|unsupported digest algorithm|invalid checksum digest|invalid repository name|repository name must|invalid port)\b.*/;

/** AppError upstream, exhausted, invalid_argument for a name that cannot be asked for. */
export async function fetchFromRegistry(reference: Reference, options: FetchOptions): Promise<Fetched> {
  const { domain, path, tag, digest } = reference;
  // It takes one of both, and the digest says more.
  const exact = { domain, path, ...(digest === undefined ? tag !== undefined && { tag } : { digest }) };
  const name = shortReference(reference);
  options.report(`pulling ${name}`);
  const { workDir, blobsDir, idleMs, signal } = options;
  const stalled = () =>
    new AppError('upstream', `cannot pull ${name}: the registry sent nothing for ${idleMs / 1000} s`);
  await using amount = new Amount({
    ...options,
    layout: layoutOf(workDir),
    askSizes: (given) =>
      askSizes(reference, exact, {
        ...options,
        signal: signal === undefined ? given : AbortSignal.any([given, signal]),
      }),
  });
  const begun = new Set<string>();
  const attempt = async (): Promise<LaidOut> => {
    using arrival = watchArrival(workDir, idleMs, stalled, signal);
    return await copy({ ...options, signal: arrival.signal }, order);
  };
  const order: Copy = {
    source: `docker://${formatReference(exact)}`,
    args: isLoopback(reference) ? ['--src-tls-verify=false'] : [],
    onLayer: (hex) => {
      begun.add(hex);
      amount.begin(hex);
    },
    what: `image ${name}`,
    toError: (cause) => {
      const [reason] = NO_REFERENCE.exec(cause.message) ?? [];
      if (reason === undefined)
        return new AppError('upstream', `cannot pull ${name}: ${cause.message}`, { cause });
      const message = `image reference ${name} cannot be pulled: ${reason}; write it as Docker does, such as nginx:alpine`;
      return new AppError('invalid_argument', message, { cause });
    },
  };
  const countWhole = async () => [...begun].filter((hex) => existsSync(blobPath(blobsDir, hex))).length;
  try {
    const laidOut = await retry(attempt, { ...options, countWhole });
    return { laidOut, names: [formatReference(reference)] };
  } catch (error) {
    if (isBrokenOff(error, true) || isCancelled(signal)) options.keepBlobs(begun);
    throw error;
  }
}

function isCancelled(signal: AbortSignal | undefined): boolean {
  return isAppError(signal?.reason) && signal.reason.code === 'cancelled';
}

/** Of the layers of an image in its registry. */
async function askSizes(reference: Reference, exact: Reference, options: FetchOptions): Promise<LayerSizes> {
  const { ociDir, workDir, maxBytes, signal } = options;
  const tls = isLoopback(reference) ? ['--tls-verify=false'] : [];
  const inspect = async (which: Reference) => {
    const args = ['inspect', '--raw', ...tls, `docker://${formatReference(which)}`];
    const lines = await runSkopeo({ dir: ociDir, scratch: workDir, maxFileBytes: maxBytes, args, signal });
    return readSizes(lines.join('\n'));
  };
  const { domain, path } = reference;
  const found = await inspect(exact);
  const sizes =
    found !== undefined && 'digest' in found ? await inspect({ domain, path, digest: found.digest }) : found;
  if (sizes === undefined || 'digest' in sizes)
    throw new Error('the registry has no sizes for this platform');
  return sizes;
}

function layoutOf(workDir: string): string {
  return join(workDir, 'layout');
}

/** From pieces of an archive as it comes, which goes to disk first. AppError as `fetchFromArchive`. */
export function fetchFromPieces(pieces: Pieces, tag?: string): (options: FetchOptions) => Promise<Fetched> {
  let mostBytes: number | undefined;
  return async (options) => {
    const path = join(options.workDir, 'archive');
    mostBytes ??= await spool(pieces, path, options.maxBytes, options.signal);
    // What is in it may be packed again, in ways that only skopeo knows.
    const maxCpuS = BASE_CPU_S + Math.ceil(mostBytes / BYTES_OF_CPU_S);
    const fetched = await fetchFromArchive(path, tag, { ...options, maxBytes: mostBytes, maxCpuS });
    await assertSize(fetched.laidOut, options.blobsDir, mostBytes);
    return fetched;
  };
}

/** AppError invalid_argument for layers that are far larger than what was sent. */
async function assertSize({ layers }: LaidOut, blobsDir: string, mostBytes: number): Promise<void> {
  let bytes = 0;
  for (const hex of new Set(layers.map(({ digest }) => digest)))
    bytes += (await stat(blobPath(blobsDir, hex))).size;
  if (bytes > mostBytes)
    throw new AppError(
      'invalid_argument',
      `the layers of the archive have ${bytes} bytes; for its size at most ${mostBytes} are possible`,
    );
}

/** AppError invalid_argument for what is no archive, or has no such image; upstream, exhausted. */
async function fetchFromArchive(
  path: string,
  tag: string | undefined,
  options: FetchOptions,
): Promise<Fetched> {
  const archive = await inspectArchive(path);
  const chosen = chooseImage(archive, tag);
  if (archive.kind === 'docker-archive')
    return fetchChosen(chosen, `docker-archive:${basename(path)}`, tag, options, 'archive');
  const layout = join(options.workDir, 'archived');
  await unpackLayout(path, layout, options.signal);
  return fetchChosen(chosen, `oci:${basename(layout)}`, tag, options, 'archive');
}

/** From a directory that is an OCI layout. AppError as `fetchFromArchive`. */
export function fetchFromLayout(open: GatherOptions['open']): (options: FetchOptions) => Promise<Fetched> {
  let isThere = false;
  return async (options) => {
    const { workDir, maxBytes, signal } = options;
    const chosen = chooseImage({ images: toOciImages(await readIndex({ open })) });
    const layout = join(workDir, 'given');
    if (!isThere) await gatherLayout(layout, { open, maxBytes, signal });
    isThere = true;
    return fetchChosen(chosen, `oci:${basename(layout)}`, undefined, options, 'directory');
  };
}

async function fetchChosen(
  { source, tags }: ArchivedImage,
  origin: string,
  tag: string | undefined,
  options: FetchOptions,
  kind: string,
): Promise<Fetched> {
  const laidOut = await copy(options, {
    source: `${origin}${source === '' ? '' : `:${source}`}`,
    args: [],
    what: `the image of the ${kind}`,
    toError: (cause) =>
      new AppError('invalid_argument', `the ${kind} is damaged: ${cause.message}`, { cause }),
  });
  const names = (tag === undefined ? tags : [tag]).flatMap((each) => {
    const reference = parseReference(each);
    return reference === undefined ? [] : [formatReference(reference)];
  });
  return { laidOut, names };
}

async function copy(
  { ociDir, blobsDir, workDir, maxBytes, maxCpuS, report, signal }: FetchOptions,
  { source, args, what, toError, onLayer }: Copy,
): Promise<LaidOut> {
  const layout = layoutOf(workDir);
  const all = [
    '--tmpdir',
    workDir,
    ...PLATFORM,
    ...COPY,
    ...args,
    '--dest-shared-blob-dir',
    blobsDir,
    source,
    `oci:${basename(layout)}`,
  ];
  const onLine = (line: string) => reportStep(line, report, onLayer);
  try {
    await runSkopeo({
      ...{ dir: ociDir, scratch: workDir, maxFileBytes: maxBytes, maxCpuS },
      ...{ args: all, onLine, signal },
    });
  } catch (cause) {
    if (!(cause instanceof SkopeoError)) throw cause;
    if (/no space left on device/i.test(cause.message)) {
      const message = 'cannot fetch the image: the disk of the data directory is full';
      throw new AppError('exhausted', message, { cause });
    }
    // Where the daemon has its files is nobody else's.
    throw toError(new SkopeoError(cause.message.replaceAll(`${workDir}/`, ''), { cause }));
  }
  return readLayout(layout, blobsDir, what);
}

function reportStep(line: string, report: Report, onLayer?: (hex: string) => void): void {
  const [, kind, hex = '', rest = ''] =
    /^Copying (blob|config) (?:sha256:)?([\da-f]{12})([\da-f]*)/.exec(line) ?? [];
  if (kind === 'blob' && onLayer !== undefined) onLayer(hex + rest);
  else if (kind === 'blob') report(`fetching layer ${hex}`, { layer: hex });
  else if (kind === 'config') report(`fetching config ${hex}`);
}
