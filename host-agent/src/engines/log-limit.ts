// Keeps a log that a guest can fill small: it may print without end, the host's disk must not fill.
import { constants } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tailFile } from '../lib/tail.ts';
import { openRegular } from '../lib/untrusted-path.ts';

const { O_WRONLY, O_CREAT, O_EXCL } = constants;

const CHECK_MS = 2000;
const LIMIT_BYTES = 1024 * 1024;
/** Unit of `blocks`, whatever the file system's own is. */
const BLOCK_BYTES = 512;
const KEEP_BYTES = 64 * 1024;

/** Cuts the log whenever it is over 1 MiB, keeping its last 64 KiB beside it as `<path>.1`. */
export function limitLog(path: string): Disposable {
  const check = async (): Promise<void> => {
    // Of a VMM that writes on at its old position only the size grows: what is before it became a hole.
    await using log = await openRegular(path, O_WRONLY);
    if ((await log.stat()).blocks * BLOCK_BYTES <= LIMIT_BYTES) return;
    // What cannot be kept must not keep the rest from going.
    await keep(`${path}.1`, await tailFile(path, Number.POSITIVE_INFINITY, KEEP_BYTES)).catch(
      () => undefined,
    );
    await log.truncate();
  };
  const timer = setInterval(() => void check().catch(() => undefined), CHECK_MS);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Never into what is there: it may be another file's name. */
async function keep(path: string, text: string): Promise<void> {
  await rm(path, { force: true });
  await using file = await openRegular(path, O_WRONLY | O_CREAT | O_EXCL);
  await file.writeFile(text);
}
