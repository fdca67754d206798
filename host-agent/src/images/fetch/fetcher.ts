// Fetches images of archives and OCI directories into the shared layout, and has the copy step that all sources use.
import { mkdir, open, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ArchiveError, type ArchiveHeader } from '@sandboxd/api/archive';
import { ARCHITECTURE } from '@sandboxd/proto';
import { AppError } from '../../lib/errors.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { formatReference, parseReference } from '../reference.ts';
import { type Chunks, chooseImage, inspectArchive, plainName, spool, useArchive } from './archive.ts';
import { type Chosen, chooseFromIndex } from './choose.ts';
import type { Report } from './download-progress.ts';
import { type GatherOptions, gatherLayout, readBlob, readIndex, writeIndex } from './gather.ts';
import { blobPath, type LaidOut, readLayout } from './layout.ts';
import { runSkopeo, SkopeoError } from './skopeo.ts';

export type FetchOptions = {
  /** The only directory that the fetch may write to; it contains `blobsDir` and `workDir`. */
  readonly ociDir: string;
  readonly blobsDir: string;
  readonly workDir: string;
  /** Called with one line for each step. */
  readonly report: Report;
  /** Size limit of each blob and of each archive. */
  readonly maxBytes: number;
  /** Idle timeout: the pull fails when the registry sends nothing for this time. */
  readonly idleMs: number;
  /** First delay of the exponential backoff after a registry closed the connection. */
  readonly pauseMs: number;
  /** Keeps the blobs of an interrupted pull for the next attempt. */
  readonly keepBlobs: (hexes: Iterable<string>) => void;
  /** Limit of CPU time for the unpacking program; absent: no limit. */
  readonly maxCpuS?: number | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** The fetched image, with all its new names in canonical spelling. */
export type Fetched = { readonly laidOut: LaidOut; readonly names: readonly string[] };

export type Copy = {
  readonly source: string;
  readonly args: readonly string[];
  readonly what: string;
  readonly toError: (error: SkopeoError) => AppError;
  /** Called when a layer starts; without it, `report` gets one line for each layer. */
  readonly onLayer?: (hex: string) => void;
  /** Called with each progress line; enables skopeo's debug output. */
  readonly onDetail?: (line: string) => void;
};

/**
 * CPU limit for an archive: a constant plus one second per BYTES_OF_CPU_S of its maximum unpacked size, a tenth of the
 * speed of the slowest compression.
 */
const BASE_CPU_S = 10;
const BYTES_OF_CPU_S = 10 << 20;

const PLATFORM = ['--override-os', 'linux', '--override-arch', ARCHITECTURE.name];
/** The host's policy verifies signatures; this layout cannot store them. */
const COPY = ['copy', '--remove-signatures', '--dest-oci-accept-uncompressed-layers'];

export function layoutOf(workDir: string): string {
  return join(workDir, 'layout');
}

/** Fetches from the chunks of an uploaded archive, which is spooled to disk first. Errors as `fetchFromArchive`. */
export function fetchFromChunks(chunks: Chunks, tag?: string): (options: FetchOptions) => Promise<Fetched> {
  let maxUnpackedBytes: number | undefined;
  return async (options) => {
    const path = join(options.workDir, 'archive');
    maxUnpackedBytes ??= await spool(chunks, path, options.maxBytes, options.signal);
    // Layers in the archive may be compressed again, in formats that only skopeo decodes, so CPU time and sizes are
    // bounded.
    const maxCpuS = BASE_CPU_S + Math.ceil(maxUnpackedBytes / BYTES_OF_CPU_S);
    const fetched = await fetchFromArchive(path, tag, { ...options, maxBytes: maxUnpackedBytes, maxCpuS });
    await assertSize(fetched.laidOut, options.blobsDir, maxUnpackedBytes);
    return fetched;
  };
}

/** AppError invalid_argument when the layers are far larger than the archive (decompression bomb). */
async function assertSize({ layers }: LaidOut, blobsDir: string, maxUnpackedBytes: number): Promise<void> {
  let bytes = 0;
  for (const hex of new Set(layers.map(({ digest }) => digest)))
    bytes += (await stat(blobPath(blobsDir, hex))).size;
  if (bytes > maxUnpackedBytes)
    throw new AppError(
      'invalid_argument',
      `the layers of the archive have ${bytes} bytes; for its size at most ${maxUnpackedBytes} are possible`,
    );
}

/** AppError invalid_argument for an invalid archive or a missing image; upstream, exhausted. */
async function fetchFromArchive(
  path: string,
  tag: string | undefined,
  options: FetchOptions,
): Promise<Fetched> {
  const archive = await inspectArchive(path);
  const request = { tag, kind: 'archive' } as const;
  if (archive.kind === 'docker-archive') {
    const { source, tags } = chooseImage({ images: archive.images, holder: request.kind, tag });
    return fetchChosen({ ...request, source: `docker-archive:${basename(path)}:${source}`, tags }, options);
  }
  const layout = join(options.workDir, 'archived');
  await unpackLayout(path, layout, options.signal);
  const open = (name: string) => openRegular(join(layout, name));
  const { descriptor, tags } = await chooseFromIndex(archive.index, {
    read: (digest) => readBlob({ open }, digest),
    holder: request.kind,
    tag,
  });
  await writeIndex(layout, descriptor);
  return fetchChosen({ ...request, source: `oci:${basename(layout)}`, tags }, options);
}

/** Fetches from a directory that is an OCI layout. Errors as `fetchFromArchive`. */
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
  /** In skopeo's syntax. */
  readonly source: string;
  /** All names of the image; `tag` is the requested one. */
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
    // Clients must not learn the daemon's paths.
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

/** The only files of a layout that are extracted. */
const LAYOUT_FILE = /^(?:oci-layout|index\.json|blobs\/sha256\/[\da-f]{64})$/;
const MAX_FILES = 10_000;

/**
 * Extracts into the new directory `dir`; of two files with one name the later one wins. AppError invalid_argument for a
 * damaged archive.
 */
async function unpackLayout(path: string, dir: string, signal?: AbortSignal): Promise<void> {
  await mkdir(join(dir, 'blobs/sha256'), { recursive: true, mode: 0o700 });
  await useArchive(path, signal, async (members) => {
    let files = 0;
    for await (const member of members) {
      const name = plainName(member);
      if (!LAYOUT_FILE.test(name)) continue;
      if (!isPlainFile(member.header))
        throw new ArchiveError(`${JSON.stringify(name)} is not a plain file, and all of an OCI layout are`);
      files += 1;
      if (files > MAX_FILES) throw new ArchiveError(`it has more than ${MAX_FILES} blobs`);
      await using file = await open(join(dir, name), 'w', 0o600);
      for await (const bytes of member.body) await file.writeFile(bytes);
    }
  });
}

/** False for the sparse files of GNU tar, whose content is not the file. */
function isPlainFile({ type, pax }: ArchiveHeader): boolean {
  const isFile = type === 'file' || type === 'contiguous-file';
  return isFile && !Object.keys(pax ?? {}).some((key) => key.startsWith('GNU.sparse.'));
}
