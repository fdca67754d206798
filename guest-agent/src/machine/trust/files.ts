// Small files of a guest's root file system, read and written whatever its image or its users have put there: nothing
// blocks on a FIFO, nothing large is read, no link is written through, and what fails leaves the file as it was.
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';

const { O_CREAT, O_EXCL, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants;
const MODE = 0o644;
const TEMPORARY = '.sandboxd-new';

/** The content of a regular file, behind links, too. Undefined: there is none. Throws for one above `maxBytes`. */
export function readSmall(path: string, maxBytes: number): Buffer | undefined {
  let fd: number;
  try {
    fd = openSync(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) return undefined;
    if (stats.size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`);
    return readWhole(fd, stats.size);
  } finally {
    closeSync(fd);
  }
}

function readWhole(fd: number, sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  let at = 0;
  while (at < sizeBytes) {
    const count = readSync(fd, bytes, at, sizeBytes - at, at);
    if (count === 0) break;
    at += count;
  }
  return bytes.subarray(0, at);
}

/** Replaces the end of a regular file, which is `before` now, from a position on. */
export function replaceEnd(path: string, before: Buffer, at: number, end: string): void {
  const fd = openSync(path, O_RDWR | O_NONBLOCK | O_NOCTTY);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile() || stats.size !== before.length) throw new Error('it was changed meanwhile');
    const bytes = Buffer.from(end);
    try {
      writeAll(fd, bytes, at);
      ftruncateSync(fd, at + bytes.length);
    } catch (error) {
      // Half a certificate would make the whole file useless for many programs.
      ftruncateSync(fd, at);
      throw error;
    }
  } finally {
    closeSync(fd);
  }
}

/** Makes it this file, unless it has this text already. Links to directories are followed. */
export function writeSmall(path: string, text: string): void {
  if (hasText(path, text)) return;
  const temporary = `${path}${TEMPORARY}`;
  rmSync(temporary, { force: true });
  try {
    const fd = openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, MODE);
    try {
      writeAll(fd, Buffer.from(text), 0);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}

function hasText(path: string, text: string): boolean {
  try {
    return readSmall(path, text.length)?.equals(Buffer.from(text)) === true;
  } catch {
    return false;
  }
}

function writeAll(fd: number, bytes: Buffer, position: number): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, position + at);
}

export function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Whether there is anything, also a link that leads nowhere. */
export function exists(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

function isAbsent(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENXIO';
}
