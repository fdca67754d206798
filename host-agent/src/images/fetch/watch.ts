// What a pull may cost that its source has in hand: disk until none is left, and time in which nothing comes.
import type { Dirent } from 'node:fs';
import { readdir, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../../lib/errors.ts';

type Watched = { readonly signal: AbortSignal } & Disposable;
/** `postpone`: the source said that nothing will come for so long. */
type ArrivalWatch = Watched & { readonly postpone: (ms: number) => void };

/** Sandboxes write to the same disk, and what they find full they cannot say no to. */
const RESERVE_BYTES = 256 * 2 ** 20;
const LOOK_MS = 500;
const LOOKS_WITHIN_IDLE = 5;

/** Fires with AppError exhausted when the disk that `dir` is on is about to be full, or as the outer one does. */
export function watchFreeDisk(dir: string, outer?: AbortSignal, reserveBytes = RESERVE_BYTES): Watched {
  return every(LOOK_MS, outer, async () => {
    const { bavail, bsize } = await statfs(dir);
    if (bavail * bsize >= reserveBytes) return undefined;
    const message = 'no room for the image: the disk of the data directory is full, but for a reserve';
    return new AppError('exhausted', message);
  });
}

/** Fires with `reason()` when nothing was written beneath `dir` for so long, or as the outer one does. */
export function watchStall(
  dir: string,
  idleMs: number,
  reason: () => Error,
  outer?: AbortSignal,
): ArrivalWatch {
  let known = -1;
  let since = performance.now();
  const watched = every(idleMs / LOOKS_WITHIN_IDLE, outer, async () => {
    const bytes = await bytesBeneath(dir);
    if (bytes !== known) {
      known = bytes;
      since = Math.max(since, performance.now());
    }
    return performance.now() - since < idleMs ? undefined : reason();
  });
  const postpone = (ms: number) => {
    since = performance.now() + ms;
  };
  return Object.assign(watched, { postpone });
}

/** Looks again and again until there is a reason to end. */
function every(ms: number, outer: AbortSignal | undefined, look: () => Promise<Error | undefined>): Watched {
  const ended = new AbortController();
  let isLooking = false;
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    look()
      .catch(() => undefined)
      .then((why) => {
        isLooking = false;
        if (why !== undefined) ended.abort(why);
      });
  }, ms);
  const signal = outer === undefined ? ended.signal : AbortSignal.any([ended.signal, outer]);
  return { signal, [Symbol.dispose]: () => clearInterval(timer) };
}

/** Each file counts one more, so that also an empty one is something. */
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
