// Packs a local directory into a tar archive. Its owner can rename entries meanwhile (TOCTOU), so each directory is
// opened relative to its parent without following links: nothing outside of it is sent.
import { constants, type FileHandle, lstat, open, readdir, readlink } from 'node:fs/promises';
import type { Bytes } from '../connection/transport.ts';
import { END_MARK, type NewMember, packMember } from '../files/one-file.ts';
import type { HeldDirectory } from './held-directory.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
const CHUNK_BYTES = 256 << 10;

/** First names of files with several hard links, by device and inode. */
type Linked = Map<string, string>;

/** Packs the contents: files, directories and links. Other types, such as pipes, are omitted. */
export async function* packDirectory(directory: HeldDirectory): Bytes {
  yield* packContents(directory, '', new Map());
  yield END_MARK;
}

async function* packContents(directory: HeldDirectory, prefix: string, linked: Linked): Bytes {
  for (const name of await listNames(directory)) {
    try {
      const path = directory.at(name);
      // Only for the type: a file's header comes from the opened file.
      const about = await lstat(path);
      if (about.isDirectory()) {
        await using inner = await directory.enter(name);
        const header = toHeader(await lstat(`${inner.path}/.`), `${prefix}${name}/`);
        yield* packMember({ ...header, type: 'directory' });
        yield* packContents(inner, `${prefix}${name}/`, linked);
      } else if (about.isSymbolicLink()) {
        const linkname = await readlink(path);
        yield* packMember({ ...toHeader(about, `${prefix}${name}`), type: 'symlink', linkname });
      } else if (about.isFile()) {
        await using file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        yield* packLocalFile(file, `${prefix}${name}`, linked);
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

async function* packLocalFile(file: FileHandle, name: string, linked: Linked): Bytes {
  const about = await file.stat({ bigint: true });
  if (!about.isFile()) return;
  const key = `${about.dev}:${about.ino}`;
  const linkname = linked.get(key);
  const header = toHeader(about, name);
  if (linkname !== undefined) return yield* packMember({ ...header, type: 'link', linkname });
  if (about.nlink > 1n) linked.set(key, name);
  const size = Number(about.size);
  yield* packMember({ ...header, type: 'file', size }, readChunks(file, size));
}

type Stats = { mode: number | bigint; uid: number | bigint; gid: number | bigint; mtime: Date };

function toHeader({ mode, uid, gid, mtime }: Stats, name: string): Omit<NewMember, 'type'> {
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
