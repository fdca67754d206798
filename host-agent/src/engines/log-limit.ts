// Limits the size of a log that a guest can fill without end, so that it does not fill the host's disk.
import { constants } from 'node:fs';
import { lstat, rm } from 'node:fs/promises';
import { tailFile } from '../lib/tail.ts';
import { openRegular } from '../lib/untrusted-path.ts';

const { O_WRONLY, O_CREAT, O_EXCL } = constants;

const CHECK_MS = 2000;
const LIMIT_BYTES = 1024 * 1024;
/** Unit of `blocks`, independent of the file system's own. */
const BLOCK_BYTES = 512;
const KEEP_BYTES = 64 * 1024;

/** Truncates the log when it exceeds 1 MiB, and keeps its last 64 KiB in `<path>.1`. */
export function limitLog(path: string): Disposable {
  const check = async (): Promise<void> => {
    // A VMM that continues to write at its old offset increases only the size: the part before it is a hole.
    if ((await lstat(path)).blocks * BLOCK_BYTES <= LIMIT_BYTES) return;
    await using log = await openRegular(path, O_WRONLY);
    // Truncate even if the last part cannot be kept.
    await keep(`${path}.1`, await tailFile(path, Number.POSITIVE_INFINITY, KEEP_BYTES)).catch(
      () => undefined,
    );
    await log.truncate();
  };
  const timer = setInterval(() => void check().catch(() => undefined), CHECK_MS);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Creates a new file: an existing path may be a link to another file. */
async function keep(path: string, text: string): Promise<void> {
  await rm(path, { force: true });
  await using file = await openRegular(path, O_WRONLY | O_CREAT | O_EXCL);
  await file.writeFile(text);
}
