// Images into the shared layout, out of archives and directories; the step that all sources share is here, too.
import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { AppError } from '../../lib/errors.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import type { Report } from '../progress.ts';
import { formatReference, parseReference } from '../reference.ts';
import { chooseImage, inspectArchive, type Pieces, spool } from './archive.ts';
import { blobPath } from './blobs.ts';
import { type Chosen, chooseFromIndex } from './choose.ts';
import { type GatherOptions, gatherLayout, readBlob, readIndex, writeIndex } from './gather.ts';
import { type LaidOut, readLayout } from './layout.ts';
import { runSkopeo, SkopeoError } from './skopeo.ts';
import { unpackLayout } from './unpack.ts';

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

export type Copy = {
  readonly source: string;
  readonly args: readonly string[];
  readonly what: string;
  readonly toError: (error: SkopeoError) => AppError;
  /** Told of each layer when it begins; without it, what reports steps is. */
  readonly onLayer?: (hex: string) => void;
  /** Told of each line about how it goes on; without it there are fewer. */
  readonly onDetail?: (line: string) => void;
};

/** For an archive: a second for so much of what it may unpack to, a tenth of the pace of the slowest way of packing. */
const BASE_CPU_S = 10;
const BYTES_OF_CPU_S = 10 << 20;

const PLATFORM = ['--override-os', 'linux', '--override-arch', 'amd64'];
/** Signatures are checked by the host's policy; this layout has no place for them. */
const COPY = ['copy', '--remove-signatures', '--dest-oci-accept-uncompressed-layers'];

export function layoutOf(workDir: string): string {
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
  const order = { tag, kind: 'archive' } as const;
  if (archive.kind === 'docker-archive') {
    const { source, tags } = chooseImage({ images: archive.images, holder: order.kind, tag });
    return fetchChosen({ ...order, source: `docker-archive:${basename(path)}:${source}`, tags }, options);
  }
  const layout = join(options.workDir, 'archived');
  await unpackLayout(path, layout, options.signal);
  const open = (name: string) => openRegular(join(layout, name));
  const { descriptor, tags } = await chooseFromIndex(archive.index, {
    read: (digest) => readBlob({ open }, digest),
    holder: order.kind,
    tag,
  });
  await writeIndex(layout, descriptor);
  return fetchChosen({ ...order, source: `oci:${basename(layout)}`, tags }, options);
}

/** From a directory that is an OCI layout. AppError as `fetchFromArchive`. */
export function fetchFromLayout(open: GatherOptions['open']): (options: FetchOptions) => Promise<Fetched> {
  let gathered: Promise<Chosen> | undefined;
  return async (options) => {
    const { workDir, maxBytes, signal } = options;
    const layout = join(workDir, 'given');
    const gather = async (): Promise<Chosen> => {
      const chosen = await chooseFromIndex(await readIndex({ open }), {
        read: (digest) => readBlob({ open }, digest),
        holder: 'directory',
      });
      await gatherLayout(layout, chosen.descriptor, { open, maxBytes, signal });
      return chosen;
    };
    gathered ??= gather();
    const { tags } = await gathered;
    return fetchChosen(
      { source: `oci:${basename(layout)}`, tags, tag: undefined, kind: 'directory' },
      options,
    );
  };
}

type ChosenSource = {
  /** As skopeo takes it. */
  readonly source: string;
  /** All names, of which \`tag\` is the one that was asked for. */
  readonly tags: readonly string[];
  readonly tag: string | undefined;
  readonly kind: string;
};

async function fetchChosen(
  { source, tags, tag, kind }: ChosenSource,
  options: FetchOptions,
): Promise<Fetched> {
  const laidOut = await copy(options, {
    source,
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

export async function copy(
  { ociDir, blobsDir, workDir, maxBytes, maxCpuS, report, signal }: FetchOptions,
  { source, args, what, toError, onLayer, onDetail }: Copy,
): Promise<LaidOut> {
  const layout = layoutOf(workDir);
  const all = [
    ...(onDetail === undefined ? [] : ['--debug']),
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
  const onLine = (line: string) => {
    reportStep(line, report, onLayer);
    onDetail?.(line);
  };
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
