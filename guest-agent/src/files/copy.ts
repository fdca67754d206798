// Copies a file or a tree beside its destination under a temporary name, so that the destination appears whole or not
// at all.
import { constants } from 'node:fs';
import { AgentError, showName } from '@sandboxd/proto';
import { randomHex } from '../lib/random.ts';
import { addon } from '../native/addon.ts';
import type { Step } from './as-user.ts';
import { fileError } from './errors.ts';
import type { Spot } from './place.ts';
import {
  inodeOf,
  isDirectory,
  isRegular,
  isSymlink,
  modeOf,
  mtimeOf,
  newStatus,
  ownerOf,
  SPECIAL,
} from './status.ts';

/** Each level holds two open descriptors. */
const MAX_DEPTH = 256;
const STEP_BYTES = 1024 * 1024;
const PERMISSIONS = 0o7777;

/** Name of a file that is being written, in the directory of its final name. */
export function temporaryName(): string {
  return `.sandbox-${randomHex()}.part`;
}

export type CopyOptions = {
  /** Keeps owner and modification time, for a move between file systems. */
  readonly keepsAll: boolean;
  readonly recursive: boolean;
};

/** `root`: the inode of the copied directory itself, which must not be copied into itself. */
type Copying = CopyOptions & { root?: string };

/** Copies `from` to a new name in `to`. Returns the number of sockets, FIFOs and devices that were left out. */
export function* copyTo(from: Spot, to: Spot, options: CopyOptions): Step<number> {
  const status = newStatus();
  const found = addon.statusAt(from.parent, from.leaf, status);
  if (found < 0) throw fileError(found, from.leaf);
  if (isDirectory(status) && !options.recursive)
    throw new AgentError(
      'is_directory',
      `${showName(from.leaf)} is a directory; recursive copies what is in it`,
    );
  if (!isDirectory(status) && !isRegular(status) && !isSymlink(status))
    throw new AgentError('invalid', `${showName(from.leaf)} is neither a file nor a directory nor a link`);
  return yield* copyEntry(from, to, { ...options }, 0);
}

function* copyEntry(from: Spot, to: Spot, options: Copying, depth: number): Step<number> {
  const status = newStatus();
  const fd = addon.openEntry(from.parent, from.leaf, status);
  if (fd === SPECIAL) return copySpecial(from, to, status, options);
  if (fd < 0) throw fileError(fd, from.leaf);
  try {
    if (!isDirectory(status)) {
      yield* copyFile(fd, status, to, options);
      return 0;
    }
    if (inodeOf(status) === options.root)
      throw new AgentError('invalid', `${showName(from.leaf)} is the copy itself, inside what is copied`);
    if (depth >= MAX_DEPTH)
      throw new AgentError(
        'invalid',
        `${showName(from.leaf)} is nested deeper than ${MAX_DEPTH} directories`,
      );
    return yield* copyDirectory(fd, status, to, options, depth);
  } finally {
    addon.close(fd);
  }
}

function copySpecial(from: Spot, to: Spot, status: Float64Array, options: CopyOptions): number {
  if (!isSymlink(status)) return 1;
  const target = addon.readLink(from.parent, from.leaf);
  if (typeof target !== 'string') throw fileError(target, from.leaf);
  const seconds = options.keepsAll ? mtimeOf(status) : Math.floor(Date.now() / 1000);
  const result = addon.addSymlink(to.parent, to.leaf, target, seconds, 0);
  if (result < 0) throw fileError(result, to.leaf);
  return 0;
}

function* copyFile(fd: number, status: Float64Array, to: Spot, options: CopyOptions): Step<void> {
  const copy = addon.createFile(to.parent, to.leaf);
  if (copy < 0) throw fileError(copy, to.leaf);
  try {
    for (;;) {
      const copied = addon.copyBytes(fd, copy, STEP_BYTES);
      if (copied < 0) throw fileError(copied, to.leaf);
      if (copied === 0) break;
      yield;
    }
    finish(copy, status, options);
  } finally {
    addon.close(copy);
  }
}

function* copyDirectory(
  fd: number,
  status: Float64Array,
  to: Spot,
  options: Copying,
  depth: number,
): Step<number> {
  const made = addon.addDirectory(to.parent, to.leaf);
  if (made < 0) throw fileError(made, to.leaf);
  const copy = openDirectory(to);
  if (copy < 0) throw fileError(copy, to.leaf);
  let leftOut = 0;
  try {
    if (depth === 0) options.root = inodeAt(copy);
    for (;;) {
      const names = addon.nextEntries(fd);
      if (typeof names !== 'string') throw fileError(names, to.leaf);
      if (names === '') break;
      for (const leaf of names.slice(0, -1).split('/')) {
        leftOut += yield* copyEntry({ parent: fd, leaf }, { parent: copy, leaf }, options, depth + 1);
        yield;
      }
    }
    finish(copy, status, options);
    return leftOut;
  } finally {
    addon.close(copy);
  }
}

/** A directory of that name, never through a link; or -errno. */
export function openDirectory({ parent, leaf }: Spot): number {
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  return addon.openBeneath(parent, leaf, flags, 0);
}

function inodeAt(fd: number): string {
  const status = newStatus();
  addon.statusOf(fd, status);
  return inodeOf(status);
}

/** Sets owner, permissions and time. A copy for another user has no set-user-id bit of the original's. */
function finish(fd: number, status: Float64Array, { keepsAll }: CopyOptions): void {
  const { uid, gid } = ownerOf(status);
  const results = [
    keepsAll ? addon.changeOwner(fd, uid, gid) : 0,
    addon.changeMode(fd, modeOf(status) & (keepsAll ? PERMISSIONS : 0o777)),
    keepsAll ? addon.changeTime(fd, mtimeOf(status), status[3] ?? 0) : 0,
  ];
  const failed = results.find((result) => result < 0);
  if (failed !== undefined) throw fileError(failed, 'the copy');
}

/** Removes an entry, `path`, with everything in it if `recursive`. Returns the number of entries removed. */
export function* remove({ parent, leaf }: Spot, recursive: boolean, path: string, depth = 0): Step<number> {
  const status = newStatus();
  const found = addon.statusAt(parent, leaf, status);
  if (found < 0) throw fileError(found, path);
  let removed = 0;
  if (isDirectory(status) && recursive) {
    if (depth >= MAX_DEPTH)
      throw new AgentError('invalid', `${showName(path)} is nested deeper than ${MAX_DEPTH} directories`);
    removed += yield* removeContent({ parent, leaf }, path, depth);
  }
  const result = isDirectory(status) ? addon.removeEmpty(parent, leaf) : addon.removeFile(parent, leaf);
  if (result < 0) throw fileError(result, path);
  return removed + 1;
}

function* removeContent(spot: Spot, path: string, depth: number): Step<number> {
  const fd = openDirectory(spot);
  if (fd < 0) throw fileError(fd, path);
  let removed = 0;
  try {
    for (;;) {
      const names = addon.nextEntries(fd);
      if (typeof names !== 'string') throw fileError(names, path);
      if (names === '') return removed;
      for (const leaf of names.slice(0, -1).split('/')) {
        removed += yield* remove({ parent: fd, leaf }, true, `${path}/${leaf}`, depth + 1);
        yield;
      }
    }
  } finally {
    addon.close(fd);
  }
}
