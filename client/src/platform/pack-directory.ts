// Packs a local directory into a tar archive. Its owner can rename entries meanwhile (TOCTOU), so each directory is
// opened relative to its parent without following links: nothing outside of it is sent.
import { constants, type FileHandle, lstat, open, readdir, readlink } from 'node:fs/promises';
import { createTarPacker, type TarHeader } from 'modern-tar';
import type { Bytes } from '../connection/transport.ts';
import { fill } from '../files/one-file.ts';
import type { HeldDirectory } from './held-directory.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
const CHUNK_BYTES = 256 << 10;

type Packer = {
  /** First names of files with several hard links, by device and inode. */
  readonly linked: Map<string, string>;
  add(header: TarHeader, body?: Bytes): Promise<void>;
};

/** Packs the contents: files, directories and links. Other types, such as pipes, are omitted. */
export async function* packDirectory(directory: HeldDirectory): Bytes {
  const { readable, controller } = createTarPacker();
  const add = (header: TarHeader, body: Bytes | Uint8Array = new Uint8Array()) =>
    fill(controller.add(header), body, header);
  const filling = addContents({ add, linked: new Map() }, directory, '').then(
    () => controller.finalize(),
    (error: unknown) => controller.error(error),
  );
  const reader = readable.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    await reader.cancel().catch(() => undefined);
    await filling;
  }
}

async function addContents(packer: Packer, directory: HeldDirectory, prefix: string): Promise<void> {
  for (const name of await listNames(directory)) {
    try {
      const path = directory.at(name);
      // Only for the type: a file's header comes from the opened file.
      const about = await lstat(path);
      if (about.isDirectory()) {
        await using inner = await directory.enter(name);
        await packer.add({
          ...toHeader(await lstat(`${inner.path}/.`), `${prefix}${name}/`),
          type: 'directory',
        });
        await addContents(packer, inner, `${prefix}${name}/`);
      } else if (about.isSymbolicLink()) {
        const linkname = await readlink(path);
        await packer.add({ ...toHeader(about, `${prefix}${name}`), type: 'symlink', linkname });
      } else if (about.isFile()) {
        await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        await addFile(packer, file, `${prefix}${name}`);
      }
    } catch (error) {
      throw directory.withShownPath(error);
    }
  }
}

async function listNames(directory: HeldDirectory): Promise<string[]> {
  return readdir(directory.path).catch((error: unknown) => {
    throw directory.withShownPath(error);
  });
}

async function addFile({ add, linked }: Packer, file: FileHandle, name: string): Promise<void> {
  const about = await file.stat({ bigint: true });
  if (!about.isFile()) return;
  const key = `${about.dev}:${about.ino}`;
  const linkname = linked.get(key);
  const header = toHeader(about, name);
  if (linkname !== undefined) return add({ ...header, type: 'link', linkname });
  if (about.nlink > 1n) linked.set(key, name);
  const size = Number(about.size);
  await add({ ...header, type: 'file', size }, readChunks(file, size));
}

function toHeader(
  {
    mode,
    uid,
    gid,
    mtime,
  }: { mode: number | bigint; uid: number | bigint; gid: number | bigint; mtime: Date },
  name: string,
) {
  return { name, size: 0, mode: Number(mode) & 0o7777, uid: Number(uid), gid: Number(gid), mtime };
}

/** Reads at most `sizeBytes`, even if the file grows. */
export async function* readChunks(file: FileHandle, sizeBytes: number): Bytes {
  for (let at = 0; at < sizeBytes; ) {
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, sizeBytes - at));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
