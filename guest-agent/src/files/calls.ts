// The calls about single files: stat, list, mkdir, move, copy, remove, change.
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import {
  AgentError,
  type FileCall,
  type FileChange,
  type FileEntryInput,
  type FileList,
  type FileMove,
  type FilePlace,
  type MakeDirectory,
  type ResultInput,
  type Stream,
  showName,
} from '@sandboxd/proto';
import { readUserFiles, resolveUser, type UserFiles } from '../exec/users.ts';
import { addon } from '../native/addon.ts';
import { findActor, runSteps, type Step } from './as-user.ts';
import { readAttributes, setAttributes } from './attributes.ts';
import { copyTo, openDirectory, remove, temporaryName } from './copy.ts';
import { pathOf } from './destination.ts';
import { Describer, settledStatus } from './entry.ts';
import { fileError } from './errors.ts';
import { listTree } from './list.ts';
import { Root, type Spot, toPath } from './place.ts';
import { isDirectory, isSymlink, newStatus, ownerOf } from './status.ts';

const MAX_PAGE_ENTRIES = 10_000;
const PERMISSIONS = 0o7777;
const DIRECTORY_MODE = 0o755;
const { EXDEV, EEXIST, EINVAL, ENOTEMPTY, EISDIR } = systemConstants.errno;

export type CallInput = { readonly place: FilePlace; readonly names: UserFiles };

/** Throws AgentError for a user that does not exist. */
export function startFileCall(stream: Stream, call: FileCall): void {
  const place = call.place as FilePlace | null | undefined;
  if (!place) throw new AgentError('invalid', 'the call names no file');
  const names = readUserFiles();
  runSteps(stream, findActor(place.user, names), perform(call, { place, names }));
}

function* perform(call: FileCall, input: CallInput): Step<ResultInput> {
  using root = new Root(input.place);
  const path = toPath(input.place.path);
  const describer = new Describer(input.names);
  if (call.stat) {
    const { isLink, attributes } = call.stat;
    return entryResult(yield* statOf(root, path, describer, isLink === true, attributes === true));
  }
  if (call.list) return yield* list(root, path, describer, call.list as FileList);
  if (call.makeDirectory) makeDirectory(root, path, call.makeDirectory as MakeDirectory);
  else if (call.change) change(root, path, call.change as FileChange, input.names);
  else if (call.move) return yield* move(root, path, describer, call.move as FileMove);
  else if (call.copy) return yield* copy(root, path, describer, call.copy as FileMove);
  else if (call.remove) return yield* removeAt(root, path, call.remove.recursive === true);
  else throw new AgentError('unsupported', 'this agent does not know the call; bake the profile again');
  return entryResult(yield* statOf(root, path, describer, false));
}

function entryResult(entry: FileEntryInput): ResultInput {
  return { fileCall: { entry } };
}

function* statOf(
  root: Root,
  path: string,
  describer: Describer,
  isLink: boolean,
  hasAttributes = false,
): Step<FileEntryInput> {
  const fd = root.at(path, isLink);
  try {
    const status = newStatus();
    const result = yield* settledStatus(status, () => addon.statusOf(fd, status));
    if (result < 0) throw fileError(result, path);
    const target = isSymlink(status) ? addon.readLink(fd, '') : '';
    const attributes = hasAttributes && !isSymlink(status) ? readAttributes(fd, '') : [];
    return describer.describe(status, '', typeof target === 'string' ? target : '', attributes);
  } finally {
    addon.close(fd);
  }
}

function* list(root: Root, path: string, describer: Describer, call: FileList): Step<ResultInput> {
  const place = root.at(path);
  let fd: number;
  try {
    fd = addon.reopen(place, constants.O_RDONLY | constants.O_DIRECTORY);
  } finally {
    addon.close(place);
  }
  if (fd < 0) throw fileError(fd, path);
  const maxEntries = Math.min(Math.max(1, call.maxEntries), MAX_PAGE_ENTRIES);
  const after = Buffer.from(call.after).toString('latin1');
  return yield* listTree(fd, path, describer, {
    depth: call.depth,
    maxEntries,
    after,
    attributes: call.attributes,
  });
}

function makeDirectory(root: Root, path: string, { mode, parents, mayExist }: MakeDirectory): void {
  const { parent, leaf } = root.spot(path, parents);
  try {
    const made = addon.addDirectory(parent, leaf);
    if (made === -EEXIST && mayExist && isDirectoryAt(root, path)) return;
    if (made < 0) throw fileError(made, path);
    changeMode({ parent, leaf }, mode ?? DIRECTORY_MODE, path);
  } finally {
    addon.close(parent);
  }
}

function isDirectoryAt(root: Root, path: string): boolean {
  const fd = root.find(path);
  if (fd < 0) return false;
  const status = newStatus();
  addon.statusOf(fd, status);
  addon.close(fd);
  return isDirectory(status);
}

/** Of a new directory: not of a link or file that has been put in its place. */
function changeMode(spot: Spot, mode: number, path: string): void {
  const fd = openDirectory(spot);
  if (fd < 0) throw fileError(fd, path);
  const result = addon.changeMode(fd, mode & PERMISSIONS);
  addon.close(fd);
  if (result < 0) throw fileError(result, path);
}

function change(root: Root, path: string, wanted: FileChange, names: UserFiles): void {
  const { mode, owner, mtimeUs, attributes } = wanted;
  const fd = root.at(path);
  const must = (result: number): void => {
    if (result < 0) throw fileError(result, path);
  };
  try {
    // First, because it clears set-user-id bits.
    if (owner !== '') {
      const found = resolveUser(owner, names);
      if ('error' in found) throw new AgentError('invalid', found.error);
      const status = newStatus();
      must(addon.statusOf(fd, status));
      // A user alone leaves the group, as chown does.
      const gid = owner.includes(':') ? found.user.gid : ownerOf(status).gid;
      must(addon.changeOwner(fd, found.user.uid, gid));
    }
    if (mode !== undefined && mode !== null) must(addon.changeMode(fd, mode & PERMISSIONS));
    setAttributes(fd, attributes, path);
    if (mtimeUs !== undefined && mtimeUs !== null) {
      const seconds = Math.floor(mtimeUs / 1e6);
      must(addon.changeTime(fd, seconds, (mtimeUs - seconds * 1e6) * 1000));
    }
  } finally {
    addon.close(fd);
  }
}

function* move(
  root: Root,
  path: string,
  describer: Describer,
  { to, replaces }: FileMove,
): Step<ResultInput> {
  const from = root.spotOfEntry(path);
  let target: Spot | undefined;
  try {
    const toText = toPath(to, 'to');
    target = root.spot(toText);
    const moved = addon.renameEntry(from.parent, from.leaf, target.parent, target.leaf, replaces ? 1 : 0);
    if (moved === -EXDEV) {
      yield* place(from, target, { keepsAll: true, recursive: true }, replaces, toText);
      yield* remove(from, true, path);
    } else if (moved < 0) throw moveError(moved, path, toText);
    return entryResult(yield* statOf(root, toText, describer, true));
  } finally {
    addon.close(from.parent);
    if (target !== undefined) addon.close(target.parent);
  }
}

function* copy(root: Root, path: string, describer: Describer, call: FileMove): Step<ResultInput> {
  const { to, replaces, recursive } = call;
  const from = root.spotOfFile(path);
  let target: Spot | undefined;
  try {
    const toText = toPath(to, 'to');
    target = root.spot(toText);
    const leftOut = yield* place(from, target, { keepsAll: false, recursive }, replaces, toText);
    return { fileCall: { entry: yield* statOf(root, toText, describer, true), count: leftOut } };
  } finally {
    addon.close(from.parent);
    if (target !== undefined) addon.close(target.parent);
  }
}

/** Copies under a temporary name and renames. After a failure nothing of the copy is left. */
function* place(
  from: Spot,
  target: Spot,
  options: { readonly keepsAll: boolean; readonly recursive: boolean },
  replaces: boolean,
  toText: string,
): Step<number> {
  const source = `${pathOf(from.parent)}/${from.leaf}/`.replace(/\/+/g, '/');
  if (`${pathOf(target.parent)}/`.startsWith(source))
    throw new AgentError('invalid', `${showName(toText)} is inside what is copied`);
  const status = newStatus();
  if (!replaces && addon.statusAt(target.parent, target.leaf, status) === 0) throw fileError(-EEXIST, toText);
  const temporary = { parent: target.parent, leaf: temporaryName() };
  let isPlaced = false;
  try {
    const leftOut = yield* copyTo(from, temporary, options);
    if (options.keepsAll && leftOut > 0)
      throw new AgentError(
        'invalid',
        `${showName(toText)} is on another file system, and ${leftOut} sockets, FIFOs or devices would be lost`,
      );
    const { parent, leaf } = target;
    const placed = addon.renameEntry(temporary.parent, temporary.leaf, parent, leaf, replaces ? 1 : 0);
    if (placed < 0) throw moveError(placed, temporary.leaf, toText);
    isPlaced = true;
    return leftOut;
  } finally {
    if (!isPlaced) removeQuietly(temporary);
  }
}

/** Clean-up of a call that has failed, which has the error to tell. */
function removeQuietly(spot: Spot): void {
  try {
    for (const _step of { [Symbol.iterator]: () => remove(spot, true, spot.leaf) });
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
  }
}

function moveError(result: number, path: string, to: string): AgentError {
  if (result === -EINVAL) return new AgentError('invalid', `${showName(to)} is inside ${showName(path)}`);
  if (result === -ENOTEMPTY) return new AgentError('conflict', `${showName(to)} is a directory with entries`);
  if (result === -EISDIR) return new AgentError('conflict', `${showName(to)} is a directory`);
  return fileError(result, result === -EEXIST ? to : path);
}

function* removeAt(root: Root, path: string, recursive: boolean): Step<ResultInput> {
  const spot = root.spotOfEntry(path);
  try {
    return { fileCall: { count: yield* remove(spot, recursive, path) } };
  } catch (error) {
    if (!recursive && error instanceof AgentError && isDirectoryAt(root, path) && error.code === 'conflict')
      throw new AgentError('conflict', `${showName(path)} is not empty; recursive removes what is in it`);
    throw error;
  } finally {
    addon.close(spot.parent);
  }
}
