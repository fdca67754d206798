// Opens paths that a VMM may have manipulated: a symbolic link to a host file, a pipe that blocks the opener, a
// directory.
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
/** Not among Node's constants; the same value on each architecture that VMMs support. */
export const O_PATH = 0o10000000;

/** Rejects if the path is not a regular file; `flags` are those of open(2). */
export function openRegular(path: string, flags = O_RDONLY): Promise<FileHandle> {
  return openFile(path, flags | O_NOFOLLOW);
}

/**
 * Opens for reading, by its /proc link, a file that a process has open or mapped. The process may have replaced it by
 * now.
 */
export function openProcessFile(path: string): Promise<FileHandle> {
  return openFile(path, O_RDONLY);
}

async function openFile(path: string, flags: number): Promise<FileHandle> {
  const file = await open(path, flags | O_NONBLOCK, 0o600);
  try {
    if ((await file.stat()).isFile()) return file;
    throw new Error(`${path} is not a regular file`);
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Copies a regular file; `copy` gets a /proc path for it. */
export async function copyRegular(path: string, copy: (from: string) => Promise<void>): Promise<void> {
  await using file = await openRegular(path);
  await copy(`/proc/${process.pid}/fd/${file.fd}`);
}

/** The content of a small file; rejects if it is longer. */
export async function readSmall(path: string, maxBytes: number): Promise<Buffer> {
  await using file = await openRegular(path);
  const { size } = await file.stat();
  if (size > maxBytes) throw new Error(`${path} is longer than ${maxBytes} bytes`);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
  return buffer.subarray(0, bytesRead);
}

/**
 * A /proc path for exactly the socket at a path, until disposed: connect(2) follows symbolic links, which could lead to
 * another VM's socket. Throws the system error, or an error if it is not a socket.
 */
export function holdSocket(path: string): { readonly path: string } & Disposable {
  const fd = openSync(path, O_PATH | O_NOFOLLOW);
  if (!fstatSync(fd).isSocket()) {
    closeSync(fd);
    throw new Error(`${path} is not a socket`);
  }
  return { path: `/proc/self/fd/${fd}`, [Symbol.dispose]: () => closeSync(fd) };
}
