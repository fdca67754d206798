// Opening by name what a VMM may have put there: a link to a file of the host, a pipe that holds up who opens it, a directory.
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
/** Not among Node's constants; the same on each architecture that there are VMMs for. */
export const O_PATH = 0o10000000;

/** Rejects when there is anything but a file of its own; `flags` are those of open(2). */
export function openRegular(path: string, flags = O_RDONLY): Promise<FileHandle> {
  return openFile(path, flags | O_NOFOLLOW);
}

/** For reading, by its link beneath /proc, a file that a process has open or mapped: by now that may be anything else that it has. */
export function openProcessFile(path: string): Promise<FileHandle> {
  return openFile(path, O_RDONLY);
}

async function openFile(path: string, flags: number): Promise<FileHandle> {
  const file = await open(path, flags | O_NONBLOCK, 0o600);
  try {
    if ((await file.stat()).isFile()) return file;
    throw new Error(`${path} is no regular file`);
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** A copy of what is there and is a file; `copy` gets another name for it. */
export async function copyRegular(path: string, copy: (from: string) => Promise<void>): Promise<void> {
  await using file = await openRegular(path);
  await copy(`/proc/${process.pid}/fd/${file.fd}`);
}

/** The content of a small file; rejects when it is longer. */
export async function readSmall(path: string, maxBytes: number): Promise<Buffer> {
  await using file = await openRegular(path);
  const { size } = await file.stat();
  if (size > maxBytes) throw new Error(`${path} is longer than ${maxBytes} bytes`);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, 0);
  return buffer.subarray(0, bytesRead);
}

/**
 * Another name for the socket at a path, and for nothing else, until it is disposed: connecting to a path follows links,
 * which could lead to the socket of another VM. Throws the system error, or that it is no socket.
 */
export function holdSocket(path: string): { readonly path: string } & Disposable {
  const fd = openSync(path, O_PATH | O_NOFOLLOW);
  if (!fstatSync(fd).isSocket()) {
    closeSync(fd);
    throw new Error(`${path} is no socket`);
  }
  return { path: `/proc/self/fd/${fd}`, [Symbol.dispose]: () => closeSync(fd) };
}
