// Bounds what an untrusted source can cost a pull: free disk space and idle time.
import type { Dirent } from 'node:fs';
import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../../lib/errors.ts';

type Watched = { readonly signal: AbortSignal } & Disposable;
/** `postpone`: the source has announced that it sends nothing for this time. */
type StallWatch = Watched & { readonly postpone: (ms: number) => void };

/** Sandboxes write to the same disk, so a pull must leave space for them. */
const RESERVE_BYTES = 256 * 2 ** 20;
const POLL_MS = 500;
const POLLS_PER_IDLE = 5;

/** The signal aborts with AppError exhausted when the disk of `dir` is nearly full, or when the outer signal aborts. */
export function watchFreeDisk(dir: string, outer?: AbortSignal, reserveBytes = RESERVE_BYTES): Watched {
  return poll(POLL_MS, outer, async () => {
    const { bavail, bsize } = await statfs(dir);
    if (bavail * bsize >= reserveBytes) return undefined;
    const message = 'no room for the image: the disk of the data directory is full, but for a reserve';
    return new AppError('exhausted', message);
  });
}

/**
 * The signal aborts with `reason()` when nothing was written below `dir` for `idleMs`, or when the outer signal aborts.
 */
export function watchStall(
  dir: string,
  idleMs: number,
  reason: () => Error,
  outer?: AbortSignal,
): StallWatch {
  let lastBytes = -1;
  let since = performance.now();
  const watched = poll(idleMs / POLLS_PER_IDLE, outer, async () => {
    const bytes = await bytesBeneath(dir);
    if (bytes !== lastBytes) {
      lastBytes = bytes;
      since = Math.max(since, performance.now());
    }
    return performance.now() - since < idleMs ? undefined : reason();
  });
  const postpone = (ms: number) => {
    since = performance.now() + ms;
  };
  return Object.assign(watched, { postpone });
}

/** Polls until `check` returns a reason to abort. */
function poll(ms: number, outer: AbortSignal | undefined, check: () => Promise<Error | undefined>): Watched {
  const ended = new AbortController();
  let isChecking = false;
  const timer = setInterval(() => {
    if (isChecking) return;
    isChecking = true;
    check()
      .catch(() => undefined)
      .then((reason) => {
        isChecking = false;
        if (reason !== undefined) ended.abort(reason);
      });
  }, ms);
  const signal = outer === undefined ? ended.signal : AbortSignal.any([ended.signal, outer]);
  return { signal, [Symbol.dispose]: () => clearInterval(timer) };
}

/** Each file adds one byte, so that a new empty file counts as a change. */
async function bytesBeneath(dir: string): Promise<number> {
  const entries: Dirent[] = await readdir(dir, { withFileTypes: true, recursive: true });
  const sizes = await Promise.all(
    entries.map((entry) =>
      stat(join(entry.parentPath, entry.name)).then(
        ({ size }) => size + 1,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
