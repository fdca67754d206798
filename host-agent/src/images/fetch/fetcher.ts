// Images into the shared layout, from registries and archives.
import { join } from 'node:path';
import { AppError } from '../../lib/errors.ts';
import type { Report } from '../progress.ts';
import { formatReference, isLoopback, parseReference, type Reference, shortReference } from '../reference.ts';
import { chooseImage, inspectArchive } from './archive.ts';
import { type LaidOut, readLayout } from './layout.ts';
import { runSkopeo, SkopeoError } from './skopeo.ts';

export type FetchOptions = {
  /** All that may be written to; `blobsDir` and `workDir` are beneath. */
  readonly ociDir: string;
  readonly blobsDir: string;
  readonly workDir: string;
  /** Told a line about each step. */
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
};

/** What was fetched, with all names that it goes by from now on, in their one spelling. */
export type Fetched = { readonly laidOut: LaidOut; readonly names: readonly string[] };

type Copy = {
  readonly source: string;
  readonly args: readonly string[];
  readonly what: string;
  readonly toError: (error: SkopeoError) => AppError;
};

const PLATFORM = ['--override-os', 'linux', '--override-arch', 'amd64'];
/** Signatures are checked by the host's policy; this layout has no place for them. */
const COPY = ['copy', '--remove-signatures', '--dest-oci-accept-uncompressed-layers'];

/** AppError upstream, exhausted. */
export async function fetchFromRegistry(reference: Reference, options: FetchOptions): Promise<Fetched> {
  const { domain, path, tag, digest } = reference;
  // It takes one of both, and the digest says more.
  const exact = { domain, path, ...(digest === undefined ? tag !== undefined && { tag } : { digest }) };
  const name = shortReference(reference);
  options.report(`pulling ${name}`);
  const laidOut = await copy(options, {
    source: `docker://${formatReference(exact)}`,
    args: isLoopback(reference) ? ['--src-tls-verify=false'] : [],
    what: `image ${name}`,
    toError: (cause) => new AppError('upstream', `cannot pull ${name}: ${cause.message}`, { cause }),
  });
  return { laidOut, names: [formatReference(reference)] };
}

/** AppError invalid_argument for what is no archive, or has no such image; upstream, exhausted. */
export async function fetchFromArchive(
  path: string,
  tag: string | undefined,
  options: FetchOptions,
): Promise<Fetched> {
  const archive = await inspectArchive(path);
  const { source, tags } = chooseImage(archive, tag);
  const laidOut = await copy(options, {
    source: `${archive.kind}:${path}${source === '' ? '' : `:${source}`}`,
    args: [],
    what: 'the image of the archive',
    toError: (cause) =>
      new AppError('invalid_argument', `the archive is damaged: ${cause.message}`, { cause }),
  });
  const names = (tag === undefined ? tags : [tag]).flatMap((each) => {
    const reference = parseReference(each);
    return reference === undefined ? [] : [formatReference(reference)];
  });
  return { laidOut, names };
}

async function copy(
  { ociDir, blobsDir, workDir, report, signal }: FetchOptions,
  { source, args, what, toError }: Copy,
): Promise<LaidOut> {
  const layout = join(workDir, 'layout');
  const all = [
    '--tmpdir',
    workDir,
    ...PLATFORM,
    ...COPY,
    ...args,
    '--dest-shared-blob-dir',
    blobsDir,
    source,
    `oci:${layout}`,
  ];
  const onLine = (line: string) => reportStep(line, report);
  try {
    await runSkopeo({ dir: ociDir, scratch: workDir, args: all, onLine, signal });
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

function reportStep(line: string, report: Report): void {
  const [, kind, hex = ''] = /^Copying (blob|config) (?:sha256:)?([\da-f]{12})/.exec(line) ?? [];
  if (kind === 'blob') report(`fetching layer ${hex}`, { layer: hex });
  else if (kind === 'config') report(`fetching config ${hex}`);
}
