// Images from registries: by skopeo, tried again when the registry breaks off, and chosen from lists that skopeo does not follow.
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
 * What skopeo says of a reference that it cannot ask a registry for: its grammar and its digests are narrower than Docker's, and
 * differ from version to version.
 */
const NO_REFERENCE =
  /\b(invalid reference format|unsupported digest algorithm|invalid checksum digest|invalid repository name|repository name must|invalid port)\b.*/;

const UNCHOSEN =
  /no image found in (?:image index|manifest list)|Unexpectedly received a manifest list instead of/;

/** How skopeo says that it waits after a 429, as `Retry-After` wants it; it never waits for longer at once. */
const WAITS = /^time="[^"]*" level=debug msg="Too many requests to \S+: sleeping for ([\d.]+) seconds /;
const MAX_WAIT_S = 60;

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
  await using amount = new DownloadProgress({
    ...options,
    layout: layoutOf(workDir),
    askSizes: (given) =>
      askSizes(exact, {
        ...options,
        signal: signal === undefined ? given : AbortSignal.any([given, signal]),
      }),
  });
  const begun = new Set<string>();
  const toError = (cause: SkopeoError) => {
    const [reason] = NO_REFERENCE.exec(cause.message) ?? [];
    if (reason === undefined)
      return new AppError('upstream', `cannot pull ${name}: ${cause.message}`, { cause });
    const message = `image reference ${name} cannot be pulled: ${reason}; write it as Docker does, such as nginx:alpine`;
    return new AppError('invalid_argument', message, { cause });
  };
  const order = (which: Reference, postpone: (ms: number) => void): Copy => ({
    source: `docker://${formatReference(which)}`,
    args: isLoopback(reference) ? ['--src-tls-verify=false'] : [],
    onLayer: (hex) => {
      begun.add(hex);
      amount.begin(hex);
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
    using arrival = watchStall(workDir, idleMs, stalled, signal);
    const watched = { ...options, signal: arrival.signal };
    try {
      return await copy(watched, order(exact, arrival.postpone));
    } catch (error) {
      if (!isUnchosen(error)) throw error;
      const chosen = await choosePlatform(exact, watched).catch((cause) => {
        throw cause instanceof SkopeoError ? toError(cause) : cause;
      });
      return await copy(watched, order(chosen, arrival.postpone));
    }
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

/** Skopeo knows lists of one level, and no variant of a platform but the first. */
function isUnchosen(error: unknown): boolean {
  const cause = isAppError(error) ? error.cause : undefined;
  return cause instanceof SkopeoError && UNCHOSEN.test(cause.message);
}

/** The image in a list that is for the guests here. AppError upstream when none is. */
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

/** A manifest, or a list of them, as the registry has it. */
async function inspect(which: Reference, options: FetchOptions): Promise<string> {
  const { ociDir: dir, workDir: scratch, maxBytes: maxFileBytes, signal } = options;
  const tls = isLoopback(which) ? ['--tls-verify=false'] : [];
  const args = ['inspect', '--raw', ...tls, `docker://${formatReference(which)}`];
  return (await runSkopeo({ dir, scratch, maxFileBytes, args, signal })).join('\n');
}

/** Of the layers of an image in its registry. */
async function askSizes(exact: Reference, options: FetchOptions): Promise<LayerSizes> {
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
