// Files with keys and passwords, which only the daemon may read.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { AppError, firstLine } from './errors.ts';

const OTHERS = 0o077;

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
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile()) throw new Error('it is not a file');
      const isOurs = stats.uid === (process.geteuid?.() ?? 0) || stats.uid === 0;
      if ((stats.mode & OTHERS) !== 0 && !(isCredential && (stats.mode & 0o777) === 0o440))
        throw new Error('other users can read it; chmod 600 it');
      if (!isOurs) throw new Error(`it belongs to user ${stats.uid}`);
      if (stats.size < minBytes || stats.size > maxBytes)
        throw new Error(`it has ${stats.size} bytes; ${advice}`);
      const bytes = Buffer.alloc(stats.size);
      if (readSync(fd, bytes, 0, bytes.length, 0) !== bytes.length) throw new Error('it changed meanwhile');
      return bytes;
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    throw new AppError('internal', `${what}, ${path}, cannot be used: ${firstLine(cause)}`, { cause });
  }
}
