// Resolves the paths of file calls. The kernel resolves each one below the call's root (openat2 with RESOLVE_IN_ROOT),
// so no link leads out of it, whatever processes of the guest rename meanwhile.
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import { AgentError, type FilePlace, showName } from '@sandboxd/proto';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { fileError } from './errors.ts';
import { isDirectory, isSymlink, newStatus } from './status.ts';

const O_PATH = 0o10000000;
const RESOLVE = 0x10 /* IN_ROOT */ | 0x02; /* NO_MAGICLINKS */
/** The kernel's limit for symbolic links in one path. */
const MAX_LINKS = 40;
const { ENOENT, EEXIST, ENOTDIR, ELOOP, ENAMETOOLONG } = systemConstants.errno;
/** The kernel's limit for a path, without its zero byte. */
export const MAX_PATH_BYTES = 4095;

/** What a name of a directory may end with. */
const SLASHES = /(?:\/\.?)+$/;

/** An entry of a directory: the directory's descriptor, which the caller closes, and the name. */
export type Spot = { readonly parent: number; readonly leaf: string };

export class Root implements Disposable {
  readonly #fd: number;

  /** Throws AgentError. */
  constructor({ root }: Pick<FilePlace, 'root'>) {
    const path = root.length === 0 ? '/' : toPath(root, 'root');
    const fd = addon.openBeneath(NO_DIRECTORY, path, O_PATH | constants.O_DIRECTORY, 0);
    if (fd < 0) throw fileError(fd, path, 'root ');
    this.#fd = fd;
  }

  /** Its descriptor, which stays the root's. */
  get fd(): number {
    return this.#fd;
  }

  [Symbol.dispose](): void {
    addon.close(this.#fd);
  }

  /** A descriptor that only names the file (O_PATH), through links; or -errno. `isLink`: of a link itself. */
  find(path: string, isLink = false): number {
    return this.#open(path, O_PATH | (isLink ? constants.O_NOFOLLOW : 0));
  }

  /** As `find`, but throws AgentError. */
  at(path: string, isLink = false): number {
    const fd = this.find(path, isLink);
    if (fd < 0) throw fileError(fd, path);
    return fd;
  }

  /** Where the name is, which need not exist. `makes`: with its parents. Throws AgentError. */
  spot(path: string, makes = false): Spot {
    const parts = path.split('/').filter((part) => part !== '' && part !== '.');
    const leaf = parts.pop();
    if (leaf === undefined || leaf === '..')
      throw new AgentError('invalid', `${showName(path)} names no entry of a directory`);
    const parent = `/${parts.join('/')}`;
    const fd = this.#open(parent, O_PATH | constants.O_DIRECTORY);
    if (fd === -ENOENT && makes) return { parent: this.#make(parts, path), leaf };
    if (fd < 0) throw fileError(fd, fd === -ENOENT ? parent : path);
    return { parent: fd, leaf };
  }

  /** As `spot`, for a name that exists: with a slash at its end it must be a directory's. Throws AgentError. */
  spotOfEntry(path: string): Spot {
    const spot = this.spot(path);
    assertKind(spot, path);
    return spot;
  }

  /** Where the file itself is: as `spot`, but through links. */
  spotOfFile(path: string, makes = false): Spot {
    let at = path;
    for (let links = 0; links <= MAX_LINKS; links++) {
      at = at.replace(SLASHES, '');
      const spot = this.spot(at, makes);
      const status = newStatus();
      if (addon.statusAt(spot.parent, spot.leaf, status) < 0 || !isSymlink(status)) {
        assertKind(spot, path);
        return spot;
      }
      const target = addon.readLink(spot.parent, spot.leaf);
      addon.close(spot.parent);
      if (typeof target !== 'string') throw fileError(target, path);
      at = target.startsWith('/') ? target : `${at.slice(0, at.lastIndexOf('/'))}/${target}`;
      if (at.length > MAX_PATH_BYTES) throw fileError(-ENAMETOOLONG, path);
    }
    throw fileError(-ELOOP, path);
  }

  #open(path: string, flags: number): number {
    return addon.openBeneath(this.#fd, path, flags, RESOLVE);
  }

  /** Makes each missing directory of the path; the last one's descriptor. Throws AgentError. */
  #make(parts: readonly string[], path: string): number {
    let at = '/';
    let fd = this.#open(at, O_PATH | constants.O_DIRECTORY);
    for (const part of parts) {
      if (fd < 0) break;
      const parent = fd;
      at = `${at === '/' ? '' : at}/${part}`;
      fd = this.#open(at, O_PATH | constants.O_DIRECTORY);
      if (fd === -ENOENT) {
        const made = part === '..' ? -ENOENT : addon.addDirectory(parent, part);
        fd = made < 0 && made !== -EEXIST ? made : this.#open(at, O_PATH | constants.O_DIRECTORY);
        // A dangling link has this name.
        if (made === -EEXIST && fd === -ENOENT) fd = -ENOTDIR;
      }
      addon.close(parent);
    }
    if (fd < 0) throw fileError(fd, path);
    return fd;
  }
}

/** Closes the spot and throws AgentError if the path ends as a directory's name, and is the name of something else. */
function assertKind({ parent, leaf }: Spot, path: string): void {
  const status = newStatus();
  if (!SLASHES.test(path) || addon.statusAt(parent, leaf, status) < 0 || isDirectory(status)) return;
  addon.close(parent);
  throw fileError(-ENOTDIR, path);
}

/** The bytes of an absolute path as the addon takes them. Throws AgentError. */
export function toPath(bytes: Uint8Array, what = 'path'): string {
  const path = Buffer.from(bytes).toString('latin1');
  if (!path.startsWith('/') || path.includes('\0'))
    throw new AgentError('invalid', `${what} ${showName(path.slice(0, 120))} is not an absolute path`);
  if (path.length > MAX_PATH_BYTES) throw fileError(-ENAMETOOLONG, path.slice(0, 120), `${what} `);
  return path;
}
