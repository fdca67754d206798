// Whether the registry of a name may be used on this host, as `registries.conf` says. skopeo decides, without a
// network: prefixes, other locations and mirrors count as for a pull.
import { AppError } from '../../lib/errors.ts';
import { formatReference, type Reference } from '../reference.ts';
import { runSkopeo, SkopeoError } from './skopeo.ts';

const CHECK_MS = 10_000;
const MAX_FILE_BYTES = 1 << 20;
/** It would ask a registry now. */
const ALLOWED = /\b(?:pinging container registry|dial (?:tcp|udp))\b/;

export type CheckOptions = {
  /** Directories as of `runSkopeo`. */
  readonly ociDir: string;
  readonly workDir: string;
  readonly signal?: AbortSignal | undefined;
};

/** AppError forbidden with skopeo's sentence; also where it cannot say. */
export async function assertNotBlocked(
  { domain, path, tag, digest }: Reference,
  { ociDir: dir, workDir: scratch, signal: outer }: CheckOptions,
): Promise<void> {
  const exact = { domain, path, ...(digest === undefined ? tag !== undefined && { tag } : { digest }) };
  const args = ['inspect', '--raw', `docker://${formatReference(exact)}`];
  const limit = AbortSignal.timeout(CHECK_MS);
  const signal = outer === undefined ? limit : AbortSignal.any([outer, limit]);
  try {
    await runSkopeo({ dir, scratch, maxFileBytes: MAX_FILE_BYTES, isOffline: true, args, signal });
  } catch (error) {
    if (!(error instanceof SkopeoError)) throw error;
    if (ALLOWED.test(error.message)) return;
    throw new AppError('forbidden', error.message, { cause: error });
  }
  throw new AppError('forbidden', `skopeo reached ${domain} without a network`);
}
