// Small files of a guest's root file system, read and written whatever its image or its users have put there: nothing
// waits for a FIFO or device, nothing large is read, no link is written through, and what fails leaves the file whole.
// By the addon: a copy of a guest is usable only after this, and Node's file calls are slow when emulated.
import { constants, ftruncateSync } from 'node:fs';
import { constants as system } from 'node:os';
import { AgentError } from '@sandboxd/proto';
import { fileError } from '../../files/errors.ts';
import {
  freshUs,
  isDirectory as isDirectoryStatus,
  modeOf,
  newStatus,
  SPECIAL,
  sizeOf,
} from '../../files/status.ts';
import { addon, NO_DIRECTORY } from '../../native/addon.ts';

const { O_NOCTTY, O_NONBLOCK, O_RDWR, S_IFMT, S_IFREG } = constants;
const { ENOENT, ENOTDIR, ELOOP, EEXIST } = system.errno;
const WRITING = O_RDWR | O_NONBLOCK | O_NOCTTY;
const ABSENT: readonly number[] = [-ENOENT, -ENOTDIR, -ELOOP, SPECIAL];
const MODE = 0o644;
const MODE_BITS = 0o7777;
const TEMPORARY = '.sandboxd-new';

const status = newStatus();
const isRegular = () => (modeOf(status) & S_IFMT) === S_IFREG;

/** The content of a regular file, behind links, too; undefined: there is none. AgentError if it has more bytes. */
export function readSmall(path: string, maxBytes: number): Buffer | undefined {
  const fd = addon.openFile(path, status);
  if (ABSENT.includes(fd)) return undefined;
  must(fd, path);
  try {
    if (!isRegular()) return undefined;
    const sizeBytes = sizeOf(status);
    if (sizeBytes > maxBytes)
      throw new AgentError('invalid', `${JSON.stringify(path)} has more than ${maxBytes} bytes`);
    const bytes = Buffer.allocUnsafe(sizeBytes);
    let at = 0;
    while (at < sizeBytes) {
      const count = addon.read(fd, bytes, at, sizeBytes - at);
      if (count <= 0) break;
      at += count;
    }
    return bytes.subarray(0, at);
  } finally {
    addon.close(fd);
  }
}

/** Writes a regular file that is `before` now, from where `after` differs. AgentError if that fails. */
export function replaceContent(path: string, before: Buffer, after: Buffer): void {
  const shorter = Math.min(before.length, after.length);
  let at = 0;
  while (at < shorter && before[at] === after[at]) at++;
  const fd = must(addon.openBeneath(NO_DIRECTORY, path, WRITING, 0), path);
  try {
    must(addon.statusOf(fd, status), path);
    if (!isRegular() || sizeOf(status) !== before.length)
      throw new AgentError('conflict', `${JSON.stringify(path)} was changed meanwhile`);
    putAt(fd, path, after.subarray(at), at);
    if (after.length < before.length) ftruncateSync(fd, after.length);
  } finally {
    addon.close(fd);
  }
}

/** Numbers that change with the content of a file. */
export type Version = Float64Array;

/** Undefined: it is no regular file. `canChange`: a further change at this moment would leave the version as it is. */
export function versionAt(
  path: string,
): { readonly version: Version; readonly canChange: boolean } | undefined {
  const fd = addon.openFile(path, status);
  if (fd < 0) return undefined;
  addon.close(fd);
  if (!isRegular()) return undefined;
  return { version: status.slice(), canChange: freshUs(status, addon.coarseClock()) > 0 };
}

export function isSame(one: Version, other: Version): boolean {
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false;
  return true;
}

/** Appends to a regular file of this version, and returns the next one. Undefined, and nothing done: it is another. */
export function appendTo(path: string, version: Version, text: string): Version | undefined {
  // A device is not opened for writing.
  const found = addon.openFile(path, status);
  if (found < 0) return undefined;
  addon.close(found);
  if (!isSame(status, version)) return undefined;
  const fd = must(addon.openBeneath(NO_DIRECTORY, path, WRITING, 0), path);
  try {
    must(addon.statusOf(fd, status), path);
    if (!isSame(status, version)) return undefined;
    putAt(fd, path, Buffer.from(text), sizeOf(status));
    must(addon.statusOf(fd, status), path);
    return status.slice();
  } finally {
    addon.close(fd);
  }
}

/** Half a certificate would make the whole file useless for many programs. */
function putAt(fd: number, path: string, bytes: Buffer, at: number): void {
  const result = addon.writeAt(fd, bytes, 0, bytes.length, at);
  if (result < 0) ftruncateSync(fd, at);
  must(result, path);
}

/** Has the kernel copy a regular file to the writable layer, if it is not there. AgentError if that fails. */
export function makeOwn(path: string): void {
  addon.close(must(addon.openBeneath(NO_DIRECTORY, path, WRITING, 0), path));
}

/** The same for a directory, if there is one: a change of its mode does it, also to the mode that it has. */
export function makeOwnDirectory(path: string): void {
  const fd = addon.openFile(path, status);
  if (fd < 0) return;
  if (isDirectoryStatus(status)) addon.changeMode(fd, modeOf(status) & MODE_BITS);
  addon.close(fd);
}

/** Makes it this file, unless it has this content already. AgentError if that fails. */
export function writeSmall(path: string, content: string | Buffer): void {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  if (hasBytes(path, bytes)) return;
  const put = (to: string) =>
    must(
      addon.putFile(NO_DIRECTORY, to, bytes, 0, bytes.length, MODE, Math.floor(Date.now() / 1000), 0),
      path,
    );
  if (addon.statusAt(NO_DIRECTORY, path, status) < 0) {
    put(path);
    return;
  }
  const temporary = `${path}${TEMPORARY}`;
  put(temporary);
  const result = addon.renameEntry(NO_DIRECTORY, temporary, NO_DIRECTORY, path, 1);
  if (result < 0) addon.removeFile(NO_DIRECTORY, temporary);
  must(result, path);
}

function hasBytes(path: string, bytes: Buffer): boolean {
  try {
    return readSmall(path, bytes.length)?.equals(bytes) === true;
  } catch {
    return false;
  }
}

/** Makes a directory unless there is anything. AgentError if that fails. */
export function makeDirectory(path: string): void {
  const result = addon.addDirectory(NO_DIRECTORY, path);
  if (result !== -EEXIST) must(result, path);
}

/** Behind links, too. */
export function isDirectory(path: string): boolean {
  const fd = addon.openFile(path, status);
  if (fd < 0) return false;
  addon.close(fd);
  return isDirectoryStatus(status);
}

/** Where a link leads; undefined: there is nothing, null: there is something else. */
export function readLink(path: string): string | null | undefined {
  const result = addon.readLink(NO_DIRECTORY, path);
  if (typeof result === 'string') return result;
  return result === -ENOENT ? undefined : null;
}

/** A new one, where nothing is. AgentError if that fails. */
export function makeLink(path: string, target: string): void {
  must(addon.addSymlink(NO_DIRECTORY, path, target, Math.floor(Date.now() / 1000), 0), path);
}

function must(result: number, path: string): number {
  if (result < 0) throw fileError(result, path);
  return result;
}
