// Pulls images from registries with skopeo. Retries when the connection breaks, and resolves nested indexes, which
// skopeo does not support.
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { backOffMs } from '../../lib/back-off.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import { formatReference, isLoopback, type Reference, shortReference } from '../reference.ts';
import { chooseFromIndex } from './choose.ts';
import { DownloadProgress, type LayerSizes, type Report, readSizes } from './download-progress.ts';
import { type Copy, copy, type Fetched, type FetchOptions, layoutOf } from './fetcher.ts';
import { blobPath, type LaidOut } from './layout.ts';
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

// Retries a pull whose connection broke. Complete layers stay on disk, so each attempt has less to fetch.
type RetryOptions = {
  /** First delay of the exponential backoff. */
  readonly pauseMs: number;
  /** Counts complete layers: each increase resets the number of attempts. */
  readonly countComplete: () => Promise<number>;
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
};

const MAX_TRIES = 6;
/** Also bounds a registry that serves one layer per attempt. */
const MAX_TRIES_TOTAL = 60;

/**
 * The registry or a proxy before it is overloaded or restarting. Skopeo handles 429 itself, because it sees
 * `Retry-After`.
 */
const BUSY = /\b(?:HTTP status:|from registry|fetching blob:?) 50[234]\b/;
const CUT =
  /\bEOF\b|connection reset by peer|connection refused|broken pipe|i\/o timeout|TLS handshake timeout|server sent GOAWAY|stream error: stream ID|http2: client connection lost|server closed idle connection/;
/** Skopeo's first request, before which the registry may not exist at all. */
const FIRST_CONTACT = /\bpinging container registry\b/;

/** Whether a retry may succeed: the registry was reachable and the connection broke. */
function isBrokenOff(error: unknown, wasReached = false): boolean {
  if (!isAppError(error) || !(error.cause instanceof SkopeoError)) return false;
  const { message } = error.cause;
  return BUSY.test(message) || (CUT.test(message) && (wasReached || !FIRST_CONTACT.test(message)));
}

/** Rejects with the last failure, or at once with the signal's reason. */
async function retry<T>(
  attempt: () => Promise<T>,
  { pauseMs, countComplete, report, signal }: RetryOptions,
): Promise<T> {
  let complete = await countComplete();
  let tries = 0;
  for (let all = 1; ; all++) {
    try {
      return await attempt();
    } catch (error) {
      signal?.throwIfAborted();
      if (!isBrokenOff(error, all > 1)) throw error;
      const completeNow = await countComplete();
      tries = completeNow > complete ? 1 : tries + 1;
      complete = completeNow;
      if (tries === MAX_TRIES || all === MAX_TRIES_TOTAL) throw toLast(error, all);
      // Jitter, so that the clients of a recovered registry do not all return at once.
      const waitMs = backOffMs(tries, { firstMs: pauseMs, jitter: 0.5 });
      report(
        `trying again in ${(waitMs / 1000).toFixed(1)} s: ${error instanceof Error ? error.message : ''}`,
      );
      await sleep(waitMs, undefined, { signal }).catch(() => signal?.throwIfAborted());
    }
  }
}

function toLast(error: unknown, all: number): unknown {
  if (!isAppError(error)) return error;
  return new AppError(error.code, `${error.message}; tried ${all} times`, { cause: error.cause });
}
