// Lists a tree in pages: depth first, each directory in the order of its names' bytes. Links are never followed. Memory
// is bound by the page, not by the directories.
import { AgentError, FILE_ENTRIES, type FileEntryInput, type ResultInput, showName } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';
import type { Step } from './as-user.ts';
import { readAttributes, sizeOfAttributes } from './attributes.ts';
import { type Describer, settledStatus } from './entry.ts';
import { fileError } from './errors.ts';
import { MAX_PATH_BYTES } from './place.ts';
import { isDirectory, isSymlink, newStatus } from './status.ts';

/** Each level holds an open descriptor. */
const MAX_DEPTH = 256;
/** A page ends before its entries take more than this in the answer. */
const MAX_PAGE_BYTES = 1024 * 1024;
/** Of an entry in the answer, without its texts. */
const ENTRY_BYTES = 160;

export type ListOptions = {
  readonly depth: number;
  readonly maxEntries: number;
  /** Path after which the page begins, a byte string; "" for the first. */
  readonly after: string;
  /** With extended attributes. */
  readonly attributes: boolean;
};

type Level = { readonly fd: number; readonly path: string; names: string[]; next: number };

/** Takes the directory's descriptor, which is open for reading, and closes it. */
export function* listTree(
  fd: number,
  name: string,
  describer: Describer,
  { depth, maxEntries, after, attributes: hasAttributes }: ListOptions,
): Step<ResultInput> {
  const entries: FileEntryInput[] = [];
  const levels: Level[] = [];
  const status = newStatus();
  /** The parts of `after` that lead to where the page begins; as long as each level's name is the part's. */
  const way = after === '' ? [] : after.split('/');
  let bytes = 0;
  let opened = fd;
  try {
    levels.push({
      fd: opened,
      path: '',
      names: yield* readNames(opened, way[0] ?? '', maxEntries + 1),
      next: 0,
    });
    opened = -1;
    for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
      const leaf = level.names[level.next++];
      if (leaf === undefined) {
        levels.pop();
        addon.close(level.fd);
        continue;
      }
      yield;
      const path = level.path + leaf;
      // Its entry could be neither named by a request nor by a cursor.
      if (path.length > MAX_PATH_BYTES)
        throw new AgentError('invalid', `${showName(path.slice(0, 80))}… is a path too long for Linux`);
      const { fd: directory } = level;
      if ((yield* settledStatus(status, () => addon.statusAt(directory, leaf, status))) < 0) continue;
      // The way's own entries were in an earlier page, but what is below them was not.
      const isOnWay = after === path || after.startsWith(`${path}/`);
      if (!isOnWay) {
        const target = isSymlink(status) ? addon.readLink(level.fd, leaf) : '';
        const text = typeof target === 'string' ? target : '';
        const attributes = hasAttributes && !isSymlink(status) ? readAttributes(level.fd, leaf) : [];
        bytes += ENTRY_BYTES + path.length + text.length + sizeOfAttributes(attributes);
        if (entries.length === maxEntries || (entries.length > 0 && bytes > MAX_PAGE_BYTES))
          return { fileCall: { entries: FILE_ENTRIES.encode(entries), hasMore: true } };
        entries.push(describer.describe(status, path, text, attributes));
      }
      if (!isDirectory(status) || levels.length >= Math.max(1, depth)) continue;
      if (levels.length >= MAX_DEPTH)
        throw new AgentError('invalid', `${showName(path)} is nested deeper than ${MAX_DEPTH} directories`);
      opened = addon.openEntry(level.fd, leaf, status);
      // Removed or replaced meanwhile, or not readable for this user: its own entry is all there is to say.
      if (opened < 0 || !isDirectory(status)) {
        if (opened >= 0) addon.close(opened);
        opened = -1;
        continue;
      }
      const from = isOnWay && after !== path ? (way[levels.length] ?? '') : '';
      const names = yield* readNames(opened, from, maxEntries + 1 - entries.length);
      levels.push({ fd: opened, path: `${path}/`, names, next: 0 });
      opened = -1;
    }
    return { fileCall: { entries: FILE_ENTRIES.encode(entries), hasMore: false } };
  } catch (error) {
    if (error instanceof NotListed) throw fileError(error.result, name);
    throw error;
  } finally {
    if (opened >= 0) addon.close(opened);
    for (const level of levels) addon.close(level.fd);
  }
}

class NotListed extends Error {
  readonly result: number;

  constructor(result: number) {
    super();
    this.result = result;
  }
}

/** The directory's first `most` names from `from` on, in order, and one more if `from` itself is among them. */
function* readNames(fd: number, from: string, most: number): Step<string[]> {
  let names: string[] = [];
  let isSorted = true;
  const cut = (): void => {
    if (!isSorted) names.sort(compare);
    names = names.slice(0, most + 1);
    isSorted = true;
  };
  for (;;) {
    const batch = addon.nextEntries(fd);
    if (typeof batch !== 'string') throw new NotListed(batch);
    if (batch === '') break;
    for (const name of batch.slice(0, -1).split('/')) {
      if (name < from) continue;
      names.push(name);
      isSorted = false;
    }
    if (names.length > 4 * (most + 1) + 4096) cut();
    yield;
  }
  cut();
  return names;
}

/** By bytes: each character is one. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
