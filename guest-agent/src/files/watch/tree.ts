// The directories of one watch: which of the kernel's watches (inotify) is of which directory. The kernel knows
// directories and no names, so a name is wrong for as long as the event of its change waits; that event corrects it.
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import { AgentError, MAX_WATCHED_DIRECTORIES, WATCH_END } from '@sandboxd/proto';
import { addon } from '../../native/addon.ts';
import type { ParkedStep, Step } from '../as-user.ts';
import { fileError } from '../errors.ts';
import { isDirectory, newStatus } from '../status.ts';
import type { WatchBudget } from './budget.ts';
import { IN } from './events.ts';

/** Each level that is read holds an open descriptor. */
const MAX_DEPTH = 256;
const MAX_PATH_BYTES = 4095;
const MASK =
  IN.create |
  IN.modify |
  IN.closeWrite |
  IN.attrib |
  IN.delete |
  IN.movedFrom |
  IN.movedTo |
  IN.onlyDirectory |
  IN.excludeUnlinked;
/** Of the watched directory itself; what happens to others is reported by the one that they are in. */
const TOP_MASK = MASK | IN.deleteSelf | IN.moveSelf;
const RESOLVE = 0x01 /* NO_XDEV */ | 0x02 /* NO_MAGICLINKS */ | 0x04 /* NO_SYMLINKS */ | 0x08; /* BENEATH */
const READ = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const O_PATH = 0o10000000;
const { ENOSPC } = systemConstants.errno;

export type Node = {
  readonly number: number;
  name: string;
  /** Undefined for the watched directory itself, and for one that is not watched any more. */
  parent: Node | undefined;
  children: Map<string, Node> | undefined;
};

/** Gets what a reading of new directories finds. */
export type Visitor = {
  entry(path: string, isDirectory: boolean): ParkedStep<void>;
  gone(path: string): ParkedStep<void>;
};

/** A watch that cannot go on. */
export class WatchEnd extends Error {
  readonly reason: number;

  /** `message` follows the path, for a watch that could not be begun. */
  constructor(reason: number, message = '') {
    super(message);
    this.reason = reason;
  }
}

const tooDeep = () =>
  new WatchEnd(WATCH_END.TOO_MANY, `has directories nested deeper than ${MAX_DEPTH}, or of too long a path`);

export class WatchTree {
  readonly inotify: number;
  readonly #place: number;
  readonly #isRecursive: boolean;
  readonly #budget: WatchBudget;
  readonly #nodes = new Map<number, Node>();
  readonly #status = newStatus();
  /** Watches of the kernel that are not needed any more. */
  readonly #stale = new Set<number>();
  /** Names whose directory was found under another name. */
  #displaced: { readonly parent: Node; readonly name: string }[] = [];
  #top: Node | undefined;

  /** `place` is the directory's descriptor, which stays the caller's. Throws AgentError. */
  constructor(place: number, isRecursive: boolean, budget: WatchBudget) {
    this.inotify = addon.openInotify();
    if (this.inotify < 0)
      throw new AgentError(
        'busy',
        'the programs of this guest watch too much: there is no inotify instance left',
      );
    this.#place = place;
    this.#isRecursive = isRecursive;
    this.#budget = budget;
  }

  get top(): Node | undefined {
    return this.#top;
  }

  get size(): number {
    return this.#nodes.size;
  }

  close(): void {
    addon.close(this.inotify);
    this.#budget.remove(this.#nodes.size);
    this.#nodes.clear();
  }

  find(number: number): Node | undefined {
    return this.#nodes.get(number);
  }

  /** Path of an entry of the directory, relative to the watched one. */
  pathOf(node: Node, name: string): string {
    let path = name;
    for (let at = node; at.parent !== undefined; at = at.parent) path = `${at.name}/${path}`;
    return path;
  }

  /** Whether the entry is a directory; undefined if there is none. */
  isDirectoryAt(node: Node, name: string): boolean | undefined {
    const flags = O_PATH | constants.O_NOFOLLOW;
    const fd = addon.openBeneath(this.#place, this.pathOf(node, name), flags, RESOLVE);
    if (fd < 0) return undefined;
    addon.statusOf(fd, this.#status);
    addon.close(fd);
    return isDirectory(this.#status);
  }

  /** Watches the directory and all in it. Throws AgentError, WatchEnd. */
  *start(name: string): Step<void> {
    const fd = addon.reopen(this.#place, constants.O_RDONLY | constants.O_DIRECTORY);
    if (fd < 0) throw fileError(fd, name);
    let isTaken = false;
    try {
      const number = addon.watchDirectory(this.inotify, fd, TOP_MASK);
      if (number < 0) throw fileError(number, name);
      this.#top = this.#add(number, '', undefined);
      if (!this.#isRecursive) return;
      isTaken = true;
    } finally {
      if (!isTaken) addon.close(fd);
    }
    for (const step of this.#read(fd, this.#top, 0, undefined)) if (step === undefined) yield;
  }

  /**
   * Watches the directory that has this name now, if any, and all in it, in place of one that had the name. `visit`
   * gets every entry in it. Throws WatchEnd.
   */
  *enter(parent: Node, name: string, visit: Visitor): ParkedStep<void> {
    yield* this.#enter(parent, name, visit);
    // What is at a name now that an event has given to another directory is not known.
    for (let at = this.#displaced.pop(); at !== undefined; at = this.#displaced.pop()) {
      if (this.#nodes.get(at.parent.number) !== at.parent || at.parent.children?.has(at.name)) continue;
      const path = this.pathOf(at.parent, at.name);
      yield* visit.gone(path);
      yield* this.#enter(at.parent, at.name, visit);
      if (at.parent.children?.has(at.name)) yield* visit.entry(path, true);
    }
  }

  *#enter(parent: Node, name: string, visit: Visitor): ParkedStep<void> {
    const fd = addon.openBeneath(this.#place, this.pathOf(parent, name), READ, RESOLVE);
    if (fd < 0) this.drop(parent.children?.get(name));
    else yield* this.#watch(fd, parent, name, visit);
  }

  /** Watches an open directory, which it closes. */
  *#watch(fd: number, parent: Node, name: string, visit: Visitor | undefined): ParkedStep<void> {
    const node = this.#nodeOf(fd, parent, name, visit !== undefined);
    if (node === undefined) addon.close(fd);
    else yield* this.#read(fd, node, this.#depthOf(node), visit);
  }

  #nodeOf(fd: number, parent: Node, name: string, isLive: boolean): Node | undefined {
    const number = addon.watchDirectory(this.inotify, fd, MASK);
    const known = this.#nodes.get(number);
    const there = parent.children?.get(name);
    if (there !== known) this.drop(there);
    try {
      if (number === -ENOSPC)
        throw new WatchEnd(WATCH_END.TOO_MANY, 'needs more inotify watches than the guest has');
      if (number < 0) return undefined;
      if (known === undefined) return this.#add(number, name, parent);
    } catch (error) {
      addon.close(fd);
      throw error;
    }
    if (known === there) return known;
    // It was moved, and the event of that waits.
    if (isWithin(parent, known)) return undefined;
    if (isLive && known.parent !== undefined)
      this.#displaced.push({ parent: known.parent, name: known.name });
    this.#put(known, parent, name);
    return known;
  }

  /** Reads an open directory, which it closes, and watches the directories in it. */
  *#read(fd: number, node: Node, depth: number, visit: Visitor | undefined): ParkedStep<void> {
    try {
      if (depth > MAX_DEPTH) throw tooDeep();
      for (;;) {
        const batch = addon.nextEntries(fd);
        // The directory was removed.
        if (typeof batch !== 'string' || batch === '') return;
        for (const part of batch.slice(0, -1).split('/')) {
          yield;
          if (addon.statusAt(fd, part, this.#status) < 0) continue;
          const isDir = isDirectory(this.#status);
          const path = visit === undefined && !isDir ? '' : this.pathOf(node, part);
          if (path.length > MAX_PATH_BYTES) throw tooDeep();
          if (visit !== undefined) yield* visit.entry(path, isDir);
          if (!isDir) continue;
          const opened = addon.openBeneath(fd, part, READ, RESOLVE);
          if (opened >= 0) yield* this.#watch(opened, node, copyOf(part), visit);
        }
      }
    } finally {
      addon.close(fd);
    }
  }

  /** After a change of rights: forgets the directories that the user cannot read any more. */
  *recheck(node: Node): Step<void> {
    const { parent } = node;
    if (parent === undefined) return;
    yield;
    const fd = addon.openBeneath(this.#place, this.pathOf(parent, node.name), READ, RESOLVE);
    if (fd < 0) {
      this.drop(node);
      return;
    }
    addon.close(fd);
    for (const child of [...(node.children?.values() ?? [])])
      if (child.parent === node) yield* this.recheck(child);
  }

  /** A directory has another name now. */
  move(node: Node, parent: Node, name: string): void {
    const there = parent.children?.get(name);
    if (there !== node) this.drop(there);
    // Of an event that is older than what is known.
    if (isWithin(parent, node)) return;
    this.#put(node, parent, name);
  }

  /** Ends the watch of a directory and all in it. */
  drop(node: Node | undefined): void {
    if (node === undefined || this.#nodes.get(node.number) !== node) return;
    this.#detach(node);
    const rest = [node];
    for (let at = rest.pop(); at !== undefined; at = rest.pop()) {
      if (at.children !== undefined) rest.push(...at.children.values());
      at.parent = undefined;
      at.children = undefined;
      this.#nodes.delete(at.number);
      this.#budget.remove(1);
      this.#stale.add(at.number);
    }
  }

  /** Ends the kernel's watches of dropped directories, of which there may be many. */
  *sweep(): Step<void> {
    for (const number of this.#stale) {
      this.#stale.delete(number);
      addon.unwatchDirectory(this.inotify, number);
      yield;
    }
  }

  #add(number: number, name: string, parent: Node | undefined): Node {
    if (!this.#budget.add())
      throw new WatchEnd(
        WATCH_END.TOO_MANY,
        `has too many directories: all watches of this sandbox have at most ${MAX_WATCHED_DIRECTORIES} together`,
      );
    this.#stale.delete(number);
    const node: Node = { number, name, parent: undefined, children: undefined };
    this.#nodes.set(number, node);
    if (parent !== undefined) this.#put(node, parent, name);
    return node;
  }

  #put(node: Node, parent: Node, name: string): void {
    this.#detach(node);
    node.parent = parent;
    node.name = name;
    parent.children ??= new Map();
    parent.children.set(name, node);
  }

  #detach(node: Node): void {
    if (node.parent?.children?.get(node.name) === node) node.parent.children.delete(node.name);
    node.parent = undefined;
  }

  #depthOf(node: Node): number {
    let depth = 0;
    for (let at = node.parent; at !== undefined; at = at.parent) depth += 1;
    return depth;
  }
}

function isWithin(node: Node, directory: Node): boolean {
  for (let at: Node | undefined = node; at !== undefined; at = at.parent) if (at === directory) return true;
  return false;
}

/** A part of a longer text would keep all of it in memory. */
function copyOf(name: string): string {
  return Buffer.from(name, 'latin1').toString('latin1');
}
