// The directory that a push writes into. The kernel resolves every name (openat2) from the directory's descriptor, and
// files are created relative to the resulting descriptor. So no symbolic link leads outside, even if a process of the
// guest swaps one in between (TOCTOU).
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import { AgentError, showName } from '@sandboxd/proto';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { fileError } from './errors.ts';
import { isSymlink, newStatus, ownerOf } from './status.ts';

const RESOLVE_NO_MAGICLINKS = 0x02;
const RESOLVE_NO_SYMLINKS = 0x04;
const RESOLVE_BENEATH = 0x08;
/** Resolves absolute links against the given root: for names that are below the guest's root. */
const RESOLVE_IN_ROOT = 0x10;
const O_PATH = 0o10000000;
/** The kernel's limit for a path, without its zero byte. */
const MAX_PATH_BYTES = 4095;
/** The kernel's limit for symbolic links in one path. */
const MAX_LINKS = 40;
const ROOT = 0;
const { ENOENT, EEXIST, ELOOP, ENAMETOOLONG, ENOTDIR, EXDEV } = systemConstants.errno;

/** Where a name is created: the parent's descriptor, owned by the destination, and the last component. */
export type Place = { readonly parent: number; readonly leaf: string };

export class Destination {
  readonly #fd: number;
  readonly #resolve: number;
  readonly #realPath: string;
  /** Whether this push created the directory, so that the archive may set its attributes. */
  readonly isNew: boolean;
  #cached: { readonly path: string; readonly fd: number } | undefined;

  /** Creates the directory and its parents when missing. `path` is absolute. Throws AgentError. */
  static open(path: string): Destination {
    const root = addon.openBeneath(NO_DIRECTORY, '/', O_PATH | constants.O_DIRECTORY, 0);
    if (root < 0) throw fileError(root, '/');
    try {
      const resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
      const opened = openDirectory(root, path, resolve);
      if (opened !== -ENOENT && opened < 0) throw fileError(opened, path, 'destination ');
      const fd = opened >= 0 ? opened : makeDirectories(root, normalizeAtRoot(path), resolve, path);
      return new Destination(fd, opened < 0);
    } finally {
      addon.close(root);
    }
  }

  private constructor(fd: number, isNew: boolean) {
    this.#fd = fd;
    this.isNew = isNew;
    this.#realPath = pathOf(fd);
    // Nothing lies outside the root, so absolute links may be followed there.
    this.#resolve = (this.#realPath === '/' ? RESOLVE_IN_ROOT : RESOLVE_BENEATH) | RESOLVE_NO_MAGICLINKS;
  }

  /**
   * The name's parent directory, created when missing. The descriptor is valid until the next call. Throws AgentError.
   */
  place(parts: readonly string[]): Place {
    const path = parts.slice(0, -1).join('/');
    const leaf = parts.at(-1) ?? '.';
    if (path === '') return { parent: this.#fd, leaf };
    if (this.#cached?.path === path) return { parent: this.#cached.fd, leaf };
    let fd = openDirectory(this.#fd, path, this.#resolve);
    if (fd === -ENOENT) fd = makeDirectories(this.#fd, parts.slice(0, -1), this.#resolve);
    if (fd < 0) throw fileError(fd, parts.join('/'));
    this.#closeCached();
    this.#cached = { path, fd };
    return { parent: fd, leaf };
  }

  /** Opens the directory of that name to change it, through links that stay inside; or -errno. The caller closes it. */
  openDirectory(parts: readonly string[]): number {
    const fd = openDirectory(this.#fd, parts.join('/'), this.#resolve);
    if (fd < 0) return fd;
    const flags = constants.O_RDONLY | constants.O_DIRECTORY;
    const opened = addon.openBeneath(fd, '.', flags, this.#resolve);
    addon.close(fd);
    return opened;
  }

  /** The existing parent of a name, for a link to it; or -errno. The caller closes it. */
  openParent(parts: readonly string[]): number {
    return openDirectory(this.#fd, parts.slice(0, -1).join('/'), this.#resolve);
  }

  /**
   * Throws AgentError when a symbolic link in `parent` with this target, resolved textually, would point outside. Other
   * links on the way are left to the kernel's check: nothing is ever written through a link that leads outside.
   */
  checkTarget(name: string, parent: number, target: string): void {
    const from = target.startsWith('/') ? '' : pathOf(parent);
    const end = normalizeAtRoot(`${from}/${target}`);
    const home = this.#realPath.split('/').filter((part) => part !== '');
    if (home.every((part, index) => end[index] === part)) return;
    throw new AgentError(
      'invalid',
      `${showName(name)} is a symbolic link to ${showName(target)}, out of the destination`,
    );
  }

  close(): void {
    this.#closeCached();
    addon.close(this.#fd);
  }

  #closeCached(): void {
    if (this.#cached !== undefined) addon.close(this.#cached.fd);
    this.#cached = undefined;
  }
}

/**
 * The components of a name below the destination; empty for the destination itself. A leading slash is dropped, as in
 * tar. Throws AgentError when the name leads outside or is not a file name.
 */
export function normalize(name: string, prefix = ''): string[] {
  if (name === '' || name.includes('\0'))
    throw new AgentError('invalid', `${prefix}${showName(name)} is not a file name`);
  if (name.length > MAX_PATH_BYTES) throw fileError(-ENAMETOOLONG, name, prefix);
  const parts: string[] = [];
  for (const part of name.split('/')) {
    if (part === '' || part === '.') continue;
    if (part !== '..') parts.push(part);
    else if (parts.pop() === undefined)
      throw new AgentError('invalid', `${prefix}${showName(name)} leads out of the destination`);
  }
  return parts;
}

/** Resolves a path textually as Linux does: `..` at the root is the root. */
function normalizeAtRoot(path: string): string[] {
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  return parts;
}

function openDirectory(directory: number, path: string, resolve: number): number {
  const flags = O_PATH | constants.O_DIRECTORY;
  const fd = addon.openBeneath(directory, path || '.', flags, resolve | RESOLVE_NO_SYMLINKS);
  if (fd !== -ELOOP) return fd;
  const way = followLinks(directory, path, resolve);
  return typeof way === 'number'
    ? way
    : addon.openBeneath(directory, way.join('/') || '.', flags, resolve | RESOLVE_NO_SYMLINKS);
}

/**
 * The same path without its links, or -errno. An archive may lead through a directory of another user of the guest,
 * who could place a link there to redirect root's writes. So a link that is not root's is followed only to a directory
 * of the link's owner; otherwise the result is -ELOOP.
 */
function followLinks(directory: number, path: string, resolve: number): string[] | number {
  const way: string[] = [];
  const status = newStatus();
  const resolveParts = (parts: readonly string[]): number => {
    const flags = O_PATH | constants.O_NOFOLLOW;
    const fd = addon.openBeneath(directory, parts.join('/') || '.', flags, resolve | RESOLVE_NO_SYMLINKS);
    if (fd >= 0) addon.statusOf(fd, status);
    return fd;
  };
  /** Names. After the names of a link follows the uid that must own the directory they lead to. */
  const rest: (string | number)[] = path.split('/');
  let links = 0;
  for (let part = rest.shift(); part !== undefined; part = rest.shift()) {
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (way.pop() === undefined && (resolve & RESOLVE_IN_ROOT) === 0) return -EXDEV;
      continue;
    }
    const fd = resolveParts(typeof part === 'number' ? way : [...way, part]);
    if (fd < 0) return fd;
    const target = isSymlink(status) ? addon.readLink(fd, '') : undefined;
    addon.close(fd);
    const { uid } = ownerOf(status);
    if (typeof part === 'number') {
      if (uid !== part) return -ELOOP;
    } else if (target === undefined) way.push(part);
    else {
      if (typeof target === 'number') return target;
      links += 1;
      if (links > MAX_LINKS) return -ELOOP;
      if (target.startsWith('/')) {
        if ((resolve & RESOLVE_IN_ROOT) === 0) return -EXDEV;
        way.length = 0;
      }
      rest.unshift(...target.split('/'), ...(uid === ROOT ? [] : [uid]));
    }
  }
  return way;
}

/**
 * Creates each missing directory of the path. Returns the descriptor of the last one. Throws AgentError, which names
 * the destination as the client gave it, if `path` is the destination.
 */
function makeDirectories(
  root: number,
  parts: readonly string[],
  resolve: number,
  destination?: string,
): number {
  let parent = root;
  for (let depth = 1; ; depth++) {
    const path = parts.slice(0, depth).join('/');
    let fd = openDirectory(root, path, resolve);
    if (fd === -ENOENT) {
      const created = addon.addDirectory(parent, parts[depth - 1] ?? '.');
      fd = created < 0 && created !== -EEXIST ? created : openDirectory(root, path, resolve);
      // A dangling link has this name.
      if (fd === -ENOENT) fd = -ENOTDIR;
    }
    if (parent !== root) addon.close(parent);
    if (fd < 0)
      throw destination === undefined ? fileError(fd, path) : fileError(fd, destination, 'destination ');
    if (depth >= parts.length) return fd;
    parent = fd;
  }
}

/** Path of a descriptor in the guest, to compare places. Throws AgentError. */
export function pathOf(fd: number): string {
  const path = addon.readLink(NO_DIRECTORY, `/proc/self/fd/${fd}`);
  if (typeof path !== 'string') throw fileError(path, `/proc/self/fd/${fd}`);
  return path;
}
