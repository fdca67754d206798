// Pulls images from registries with skopeo. Retries when the connection breaks, and resolves nested indexes, which
// skopeo does not support.
import { existsSync } from 'node:fs';
import { AppError, isAppError } from '../../lib/errors.ts';
import { formatReference, isLoopback, type Reference, shortReference } from '../reference.ts';
import { blobPath } from './blobs.ts';
import { chooseFromIndex } from './choose.ts';
import { DownloadProgress, type LayerSizes, readSizes } from './download-progress.ts';
import { type Copy, copy, type Fetched, type FetchOptions, layoutOf } from './fetcher.ts';
import type { LaidOut } from './layout.ts';
import { isBrokenOff, retry } from './retry.ts';
import { runSkopeo, SkopeoError } from './skopeo.ts';
import { watchStall } from './watch.ts';

/**
 * Skopeo's errors for a reference that it rejects without a request. Its grammar and digest algorithms are narrower
 * than Docker's, and differ between versions.
 */
const NO_REFERENCE =
  /\b(invalid reference format|unsupported digest algorithm|invalid checksum digest|invalid repository name|repository name must|invalid port)\b.*/;

const UNCHOSEN =
  /no image found in (?:image index|manifest list)|Unexpectedly received a manifest list instead of/;

/** Skopeo's log line when it waits after HTTP 429, as `Retry-After` requests; one wait never exceeds MAX_WAIT_S. */
const WAITS = /^time="[^"]*" level=debug msg="Too many requests to \S+: sleeping for ([\d.]+) seconds /;
const MAX_WAIT_S = 60;

/** AppError upstream, exhausted, or invalid_argument for a name that cannot be pulled. */
export async function fetchFromRegistry(reference: Reference, options: FetchOptions): Promise<Fetched> {
  const { domain, path, tag, digest } = reference;
  // Skopeo accepts a tag or a digest, but not both; the digest is more precise.
  const exact = { domain, path, ...(digest === undefined ? tag !== undefined && { tag } : { digest }) };
  const name = shortReference(reference);
  options.report(`pulling ${name}`);
  const { workDir, blobsDir, idleMs, signal } = options;
  const stalled = () =>
    new AppError('upstream', `cannot pull ${name}: the registry sent nothing for ${idleMs / 1000} s`);
  await using progress = new DownloadProgress({
    ...options,
    layout: layoutOf(workDir),
    requestSizes: (inner) =>
      requestSizes(exact, {
        ...options,
        signal: signal === undefined ? inner : AbortSignal.any([inner, signal]),
      }),
  });
  const started = new Set<string>();
  const toError = (cause: SkopeoError) => {
    const [reason] = NO_REFERENCE.exec(cause.message) ?? [];
    if (reason === undefined)
      return new AppError('upstream', `cannot pull ${name}: ${cause.message}`, { cause });
    const message = `image reference ${name} cannot be pulled: ${reason}; write it as Docker does, such as nginx:alpine`;
    return new AppError('invalid_argument', message, { cause });
  };
  const copyOptions = (which: Reference, postpone: (ms: number) => void): Copy => ({
    source: `docker://${formatReference(which)}`,
    args: isLoopback(reference) ? ['--src-tls-verify=false'] : [],
    onLayer: (hex) => {
      started.add(hex);
      progress.begin(hex);
    },
    what: `image ${name}`,
    toError,
    onDetail: (line) => {
      const [, text] = WAITS.exec(line) ?? [];
      if (text === undefined) return;
      const waitS = Math.min(Number(text), MAX_WAIT_S);
      postpone(waitS * 1000);
      options.report(`the registry has too many requests; it is asked again in ${waitS} s`);
    },
  });
  const attempt = async (): Promise<LaidOut> => {
    using stall = watchStall(workDir, idleMs, stalled, signal);
    const guarded = { ...options, signal: stall.signal };
    try {
      return await copy(guarded, copyOptions(exact, stall.postpone));
    } catch (error) {
      if (!isUnchosen(error)) throw error;
      const chosen = await choosePlatform(exact, guarded).catch((cause) => {
        throw cause instanceof SkopeoError ? toError(cause) : cause;
      });
      return await copy(guarded, copyOptions(chosen, stall.postpone));
    }
  };
  const countComplete = async () => [...started].filter((hex) => existsSync(blobPath(blobsDir, hex))).length;
  try {
    const laidOut = await retry(attempt, { ...options, countComplete });
    return { laidOut, names: [formatReference(reference)] };
  } catch (error) {
    if (isBrokenOff(error, true) || isCancelled(signal)) options.keepBlobs(started);
    throw error;
  }
}

function isCancelled(signal: AbortSignal | undefined): boolean {
  return isAppError(signal?.reason) && signal.reason.code === 'cancelled';
}

/** Skopeo resolves one level of indexes, and only the first variant of a platform. */
function isUnchosen(error: unknown): boolean {
  const cause = isAppError(error) ? error.cause : undefined;
  return cause instanceof SkopeoError && UNCHOSEN.test(cause.message);
}

/** Returns the image in an index that fits the guests' platform. AppError upstream when there is none. */
async function choosePlatform(exact: Reference, options: FetchOptions): Promise<Reference> {
  const { domain, path } = exact;
  const read = (digest: string) =>
    inspect({ domain, path, digest }, options).catch((error) => {
      if (error instanceof SkopeoError) return undefined;
      throw error;
    });
  try {
    const { descriptor } = await chooseFromIndex(await inspect(exact, options), { read, holder: 'list' });
    return { domain, path, digest: descriptor.digest };
  } catch (cause) {
    if (!isAppError(cause) || cause.code !== 'invalid_argument') throw cause;
    throw new AppError('upstream', `cannot pull ${shortReference(exact)}: ${cause.message}`, { cause });
  }
}

/** Returns a manifest or an index, unmodified. */
async function inspect(which: Reference, options: FetchOptions): Promise<string> {
  const { ociDir: dir, workDir: scratch, maxBytes: maxFileBytes, signal } = options;
  const tls = isLoopback(which) ? ['--tls-verify=false'] : [];
  const args = ['inspect', '--raw', ...tls, `docker://${formatReference(which)}`];
  return (await runSkopeo({ dir, scratch, maxFileBytes, args, signal })).join('\n');
}

/** Sizes of an image's layers, from its manifest in the registry. */
async function requestSizes(exact: Reference, options: FetchOptions): Promise<LayerSizes> {
  const { domain, path } = exact;
  const found = readSizes(await inspect(exact, options));
  const sizes =
    found !== undefined && 'digest' in found
      ? readSizes(await inspect({ domain, path, digest: found.digest }, options))
      : found;
  if (sizes === undefined || 'digest' in sizes)
    throw new Error('the registry has no sizes for this platform');
  return sizes;
}
