// Extracts a tar archive into a local directory. Neither the archive (tar slip) nor another user (TOCTOU) can make it
// write outside: each directory is opened relative to its parent without following links, and each file is created new.
import { chmod, link, lstat, utimes } from 'node:fs/promises';
import { ArchiveError, type ArchiveHeader, readArchive } from '@sandboxd/api/archive';
import type { Bytes } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';
import type { HeldDirectory } from './held-directory.ts';
import { linkIn, putInPlace, writeWholeIn } from './whole-file.ts';

const PERMISSIONS = 0o777;
const OWNER = 0o700;
/** Characters that file names cannot contain on Windows. */
export const FOREIGN = process.platform === 'win32' ? /[\\<>:"|?*]/ : undefined;

/** Entries belong to the caller, with the archive's permissions limited by the umask. Devices and pipes are omitted. */
export async function unpackDirectory(
  archive: Bytes,
  directory: HeldDirectory,
  maxEntries = Number.POSITIVE_INFINITY,
): Promise<void> {
  await using tree = new Tree(directory);
  try {
    let entries = 0;
    for await (const { header, body } of readArchive(archive)) {
      entries += 1;
      if (entries > maxEntries) throw new SandboxdError(`the archive has more than ${maxEntries} entries`);
      await tree.put(header, body);
    }
    await tree.finish();
  } catch (error) {
    if (!(error instanceof ArchiveError)) throw error;
    throw new SandboxdError(`${directory.shown} cannot be unpacked into: ${error.message}`, { cause: error });
  }
}

type CreatedDirectory = {
  readonly parts: readonly string[];
  readonly ino: number;
  readonly header: ArchiveHeader;
};

class Tree implements AsyncDisposable {
  readonly #root: HeldDirectory;
  /** The open directories from the root to the parent of the last entry. */
  readonly #names: string[] = [];
  readonly #open: HeldDirectory[] = [];
  readonly #created: CreatedDirectory[] = [];

  constructor(root: HeldDirectory) {
    this.#root = root;
  }

  async put(header: ArchiveHeader, body: Bytes): Promise<void> {
    const parts = toParts(header.name);
    const name = parts.pop();
    if (name === undefined) return;
    const parent = await this.#enter(parts);
    const { type, mode } = header;
    const linkname = header.linkname ?? '';
    const mtime = toTime(header);
    if (type === 'file' || type === 'contiguous-file')
      await writeWholeIn(parent, name, body, { mode: mode & PERMISSIONS, mtime });
    else if (type === 'symlink') await linkIn(parent, name, checkTarget(header.name, linkname, parts.length));
    else if (type === 'link') {
      const from = toParts(linkname);
      const other = from.pop() ?? '';
      // Opened separately: the cached directories belong to the parent of the new entry.
      await using directory = await this.#root.enterAll(from);
      await putInPlace(parent, name, (partial) => link(directory.at(other), partial));
    } else if (type === 'directory') await this.#makeDirectory(parent, [...parts, name], header);
  }

  /** Applies the archive's modes and times to its directories, after they are filled. */
  async finish(): Promise<void> {
    for (const { parts, ino, header } of this.#created.reverse()) {
      await using directory = await this.#root.enterAll(parts);
      const found = await lstat(`${directory.path}/.`);
      if (found.ino !== ino) continue;
      const { mode } = header;
      const mtime = toTime(header);
      if ((mode & OWNER) !== OWNER) await chmod(directory.path, found.mode & mode & PERMISSIONS);
      if (mtime !== undefined) await utimes(`${directory.path}/.`, mtime, mtime);
    }
  }

  async #makeDirectory(
    parent: HeldDirectory,
    parts: readonly string[],
    header: ArchiveHeader,
  ): Promise<void> {
    const name = parts.at(-1) ?? '';
    const exists = await lstat(parent.at(name)).then(
      () => true,
      () => false,
    );
    // The owner needs access until all entries are written.
    await using directory = await parent.enter(name, (header.mode & PERMISSIONS) | OWNER);
    if (exists) return;
    const { ino } = await lstat(`${directory.path}/.`);
    this.#created.push({ parts, ino, header });
  }

  async #enter(parts: readonly string[]): Promise<HeldDirectory> {
    let common = 0;
    while (common < parts.length && parts[common] === this.#names[common]) common += 1;
    this.#names.length = common;
    for (const closed of this.#open.splice(common).reverse()) await closed[Symbol.asyncDispose]();
    for (const name of parts.slice(common)) {
      this.#open.push(await (this.#open.at(-1) ?? this.#root).enter(name, PERMISSIONS));
      this.#names.push(name);
    }
    return this.#open.at(-1) ?? this.#root;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#enter([]);
  }
}

/** An invalid date counts as absent. */
function toTime({ mtime, pax }: ArchiveHeader): Date | undefined {
  const time = pax?.mtime === undefined ? mtime : new Date(Number(pax.mtime) * 1000);
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/** Splits a path of the archive; SandboxdError for a path that leaves the directory. */
function toParts(path: string): string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw new SandboxdError(`the archive's ${path} leads out of the directory`);
  if (path.includes('\0') || FOREIGN?.test(path))
    throw new SandboxdError(`the archive's ${JSON.stringify(path)} cannot be the name of a file here`);
  return parts;
}

/**
 * Programs that read the copy follow its links, so a link must stay inside: `..` is allowed only at the beginning.
 * SandboxdError for others.
 */
function checkTarget(name: string, target: string, depth: number): string {
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const up = parts.lastIndexOf('..') + 1;
  if (!target.startsWith('/') && up <= depth && parts.slice(0, up).every((part) => part === '..'))
    return target;
  throw new SandboxdError(
    `the archive's link ${name} leads to ${target}, out of the directory; with - as target the archive itself is given`,
  );
}
