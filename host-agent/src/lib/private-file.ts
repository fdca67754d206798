// Files with keys and passwords, which only the daemon may read.
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { AppError, firstLine } from './errors.ts';

const OTHERS = 0o077;
const WRITABLE = 0o022;

/** Sizes of a file with a key, and how to make one. */
export const KEY_FILE = {
  minBytes: 32,
  maxBytes: 4096,
  advice: 'a key has 32 to 4096, such as those of `openssl rand -out FILE 32`',
} as const;

export type PrivateFile = {
  /** Names the file in messages. */
  readonly what: string;
  readonly minBytes: number;
  readonly maxBytes: number;
  /** Follows the number of bytes that it has instead. */
  readonly advice: string;
  /** Systemd lets the group of the unit read it, 0440. */
  readonly isCredential?: boolean;
};

/** AppError `internal`, with the cause, if it cannot be read, others can read it, or its size is another. */
export function readPrivateFile(
  path: string,
  { what, minBytes, maxBytes, advice, isCredential = false }: PrivateFile,
): Buffer {
  try {
    return readOwn(path, ({ mode, size }) => {
      if ((mode & OTHERS) !== 0 && !(isCredential && (mode & 0o777) === 0o440))
        throw new Error('other users can read it; chmod 600 it');
      if (size < minBytes || size > maxBytes) throw new Error(`it has ${size} bytes; ${advice}`);
    });
  } catch (cause) {
    throw new AppError('internal', `${what}, ${path}, cannot be used: ${firstLine(cause)}`, { cause });
  }
}

/** A file that others may read, and not write. Throws Error. */
export function readTrustedFile(path: string, maxBytes: number): Buffer {
  return readOwn(path, ({ mode, size }) => {
    if ((mode & WRITABLE) !== 0) throw new Error('other users can write it; chmod go-w it');
    if (size > maxBytes) throw new Error(`it has ${size} bytes, and may have ${maxBytes}`);
  });
}

function readOwn(path: string, check: (stats: Stats) => void): Buffer {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new Error('it is not a file');
    const isOurs = stats.uid === (process.geteuid?.() ?? 0) || stats.uid === 0;
    check(stats);
    if (!isOurs) throw new Error(`it belongs to user ${stats.uid}`);
    const bytes = Buffer.alloc(stats.size);
    if (readSync(fd, bytes, 0, bytes.length, 0) !== bytes.length) throw new Error('it changed meanwhile');
    return bytes;
  } finally {
    closeSync(fd);
  }
}
