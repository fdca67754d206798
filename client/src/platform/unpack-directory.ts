// A tar archive into a directory of this machine. Neither what the archive makes nor what another user puts there meanwhile leads out
// of it: each directory is opened in the one above it and through no link, and each file is a new one.
import { chmod, link, lstat, utimes } from 'node:fs/promises';
import { createTarDecoder, type TarHeader } from 'modern-tar';
import type { Bytes } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';
import type { HeldDirectory } from './held-directory.ts';
import { linkIn, putInPlace, writeWholeIn } from './whole-file.ts';

const PERMISSIONS = 0o777;
const OWNER = 0o700;
/** What a name cannot have there. */
const FOREIGN = process.platform === 'win32' ? /[\\<>:"|?*]/ : undefined;

/** All is the caller's own, with the archive's permissions as far as the umask lets them; devices and pipes are left out. */
export async function unpackDirectory(archive: Bytes, directory: HeldDirectory): Promise<void> {
  await using tree = new Tree(directory);
  const decoder = createTarDecoder({ strict: true });
  const feeding = feed(archive, decoder.writable);
  // The entries fail with it, too.
  feeding.catch(() => undefined);
  const reader = decoder.readable.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const { header, body } = read.value;
      await tree.put(header, body as ReadableStream<Uint8Array> & Bytes);
      if (!body.locked) await body.cancel();
    }
    await feeding;
    await tree.finish();
  } catch (error) {
    await reader.cancel(error).catch(() => undefined);
    // What the archiver itself says; errors of ours and of the system say enough.
    if (error instanceof SandboxdError || !(error instanceof Error) || 'code' in error) throw error;
    throw new SandboxdError(`${directory.shown} cannot be unpacked into: ${error.message}`, { cause: error });
  }
}

async function feed(archive: Bytes, to: WritableStream<Uint8Array>): Promise<void> {
  const writer = to.getWriter();
  try {
    for await (const part of archive) await writer.write(part);
    await writer.close();
  } catch (error) {
    await writer.abort(error).catch(() => undefined);
    throw error;
  }
}

type Made = { readonly parts: readonly string[]; readonly ino: number; readonly header: TarHeader };

class Tree implements AsyncDisposable {
  readonly #root: HeldDirectory;
  /** From the root to the directory of the last entry. */
  readonly #names: string[] = [];
  readonly #held: HeldDirectory[] = [];
  readonly #made: Made[] = [];

  constructor(root: HeldDirectory) {
    this.#root = root;
  }

  async put({ mtime: time, ...rest }: TarHeader, body: Bytes): Promise<void> {
    // No date where it is beyond all dates.
    const header: TarHeader =
      time === undefined || Number.isNaN(time.getTime()) ? rest : { ...rest, mtime: time };
    const parts = toParts(header.name);
    const name = parts.pop();
    if (name === undefined) return;
    const parent = await this.#enter(parts);
    const { type, linkname = '', mtime } = header;
    const mode = header.mode === undefined ? undefined : header.mode & PERMISSIONS;
    if (type === 'file') await writeWholeIn(parent, name, body, { mode, mtime });
    else if (type === 'symlink') await linkIn(parent, name, checkTarget(header.name, linkname, parts.length));
    else if (type === 'link') {
      const from = toParts(linkname);
      const other = from.pop() ?? '';
      // Not the one that is entered: that is where it goes.
      await using directory = await this.#root.enterAll(from);
      await putInPlace(parent, name, (partial) => link(directory.at(other), partial));
    } else if (type === 'directory') await this.#makeDirectory(parent, [...parts, name], header);
  }

  /** What the archive says of its directories, once they are full. */
  async finish(): Promise<void> {
    for (const { parts, ino, header } of this.#made.reverse()) {
      await using directory = await this.#root.enterAll(parts);
      const found = await lstat(`${directory.path}/.`);
      if (found.ino !== ino) continue;
      const { mode = OWNER, mtime } = header;
      if ((mode & OWNER) !== OWNER) await chmod(directory.path, found.mode & mode & PERMISSIONS);
      if (mtime !== undefined) await utimes(`${directory.path}/.`, mtime, mtime);
    }
  }

  async #makeDirectory(parent: HeldDirectory, parts: readonly string[], header: TarHeader): Promise<void> {
    const name = parts.at(-1) ?? '';
    const isThere = await lstat(parent.at(name)).then(
      () => true,
      () => false,
    );
    // Its owner can fill it until the end.
    await using directory = await parent.enter(name, ((header.mode ?? PERMISSIONS) & PERMISSIONS) | OWNER);
    if (isThere) return;
    const { ino } = await lstat(`${directory.path}/.`);
    this.#made.push({ parts, ino, header });
  }

  async #enter(parts: readonly string[]): Promise<HeldDirectory> {
    let same = 0;
    while (same < parts.length && parts[same] === this.#names[same]) same += 1;
    this.#names.length = same;
    for (const left of this.#held.splice(same).reverse()) await left[Symbol.asyncDispose]();
    for (const name of parts.slice(same)) {
      this.#held.push(await (this.#held.at(-1) ?? this.#root).enter(name, PERMISSIONS));
      this.#names.push(name);
    }
    return this.#held.at(-1) ?? this.#root;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#enter([]);
  }
}

/** Of a path in the archive; throws SandboxdError for one that leads out of it. */
function toParts(path: string): string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw new SandboxdError(`the archive's ${path} leads out of the directory`);
  if (path.includes('\0') || FOREIGN?.test(path))
    throw new SandboxdError(`the archive's ${JSON.stringify(path)} cannot be the name of a file here`);
  return parts;
}

/** A link is followed by whoever reads the copy; one that stays inside leads up only first. Throws SandboxdError for others. */
function checkTarget(name: string, target: string, depth: number): string {
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const up = parts.lastIndexOf('..') + 1;
  if (!target.startsWith('/') && up <= depth && parts.slice(0, up).every((part) => part === '..'))
    return target;
  throw new SandboxdError(
    `the archive's link ${name} leads to ${target}, out of the directory; with - as target the archive itself is given`,
  );
}
