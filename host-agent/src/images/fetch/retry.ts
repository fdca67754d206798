// A pull that a registry or the network breaks off is tried again. What came whole by then is here, so each try has less to fetch.
import { setTimeout as sleep } from 'node:timers/promises';
import { backOffMs } from '../../lib/back-off.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import type { Report } from '../progress.ts';
import { SkopeoError } from './skopeo.ts';

export type RetryOptions = {
  /** Before the second try; twice as long before each further one, more or less. */
  readonly pauseMs: number;
  /** How much is whole: whenever that has grown, the count of tries begins anew. */
  readonly countWhole: () => Promise<number>;
  readonly report: Report;
  readonly signal?: AbortSignal | undefined;
};

const MAX_TRIES = 6;
/** Also of a registry that gives a layer now and then. */
const MAX_TRIES_IN_ALL = 60;

/** The server, or one on the way to it, is busy or restarts. 429 is skopeo's own to wait for: it sees when to ask again. */
const BUSY = /\b(?:HTTP status:|from registry|fetching blob:?) 50[234]\b/;
const CUT =
  /\bEOF\b|connection reset by peer|connection refused|broken pipe|i\/o timeout|TLS handshake timeout|server sent GOAWAY|stream error: stream ID|http2: client connection lost|server closed idle connection/;
/** Before that nothing is known of a registry, not even that there is one. */
const FIRST_WORD = /\bpinging container registry\b/;

/** Whether what failed may come the next time: the source was there and broke off. */
export function isBrokenOff(error: unknown, wasThere = false): boolean {
  if (!isAppError(error) || !(error.cause instanceof SkopeoError)) return false;
  const { message } = error.cause;
  return BUSY.test(message) || (CUT.test(message) && (wasThere || !FIRST_WORD.test(message)));
}

/** Rejects with the last failure, or at once with the signal's reason. */
export async function retry<T>(
  attempt: () => Promise<T>,
  { pauseMs, countWhole, report, signal }: RetryOptions,
): Promise<T> {
  let whole = await countWhole();
  let tries = 0;
  for (let all = 1; ; all++) {
    try {
      return await attempt();
    } catch (error) {
      signal?.throwIfAborted();
      if (!isBrokenOff(error, all > 1)) throw error;
      const wholeNow = await countWhole();
      tries = wholeNow > whole ? 1 : tries + 1;
      whole = wholeNow;
      if (tries === MAX_TRIES || all === MAX_TRIES_IN_ALL) throw toLast(error, all);
      // All clients of a registry that was away come back at once, but for this.
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
