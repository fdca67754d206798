// Retries a pull whose connection broke. Complete layers stay on disk, so each attempt has less to fetch.
import { setTimeout as sleep } from 'node:timers/promises';
import { backOffMs } from '../../lib/back-off.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import type { Report } from '../progress.ts';
import { SkopeoError } from './skopeo.ts';

export type RetryOptions = {
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
export function isBrokenOff(error: unknown, wasReached = false): boolean {
  if (!isAppError(error) || !(error.cause instanceof SkopeoError)) return false;
  const { message } = error.cause;
  return BUSY.test(message) || (CUT.test(message) && (wasReached || !FIRST_CONTACT.test(message)));
}

/** Rejects with the last failure, or at once with the signal's reason. */
export async function retry<T>(
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
