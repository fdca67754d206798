// Looks at what is in watched directories, and makes the tree have it.
//
// The kernel's events are behind what is there, and name directories by their watches alone. So for every name in a
// watched directory one of these holds: the tree has what is there; an event of the name waits in the kernel; a check
// of the name is deferred here. Whatever changes the tree keeps that, and is reported at once: the client has the tree.
import { constants } from 'node:fs';
import { constants as systemConstants } from 'node:os';
import { WATCH_END } from '@sandboxd/proto';
import { addon } from '../../native/addon.ts';
import type { ParkedStep, Step } from '../as-user.ts';
import { fileError } from '../errors.ts';
import { isDirectory, newStatus } from '../status.ts';
import { IN } from './events.ts';
import { copyOf, forgetTold, isWithin, type Node, WatchEnd, type WatchTree } from './tree.ts';

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
const { EACCES, ENOSPC } = systemConstants.errno;
/** Deferred looks, and tries of one of them; beyond, the watch begins again as after lost events. */
const MAX_DEFERRED = 1000;
const MAX_TRIES = 1000;

/** Gets what the client does not know. */
export type Reporter = {
  /** A directory is empty until what is in it is reported. */
  created(path: string, isDirectory: boolean): ParkedStep<void>;
  removed(path: string): ParkedStep<void>;
};

/** What the client knows of a name: nothing for certain; that a directory has it; that the directory is empty. */
export type Known = 'nothing' | 'name' | 'empty';

type Deferred = { readonly node: Node; readonly name: string; readonly tries: number };

const tooDeep = () =>
  new WatchEnd(WATCH_END.TOO_MANY, `has directories nested deeper than ${MAX_DEPTH}, or of too long a path`);

export class Looks {
  readonly #tree: WatchTree;
  readonly #place: number;
  readonly #isRecursive: boolean;
  readonly #status = newStatus();
  readonly #deferred = new Map<string, Deferred>();
  /** None while the watch begins: the client lists everything behind that. */
  #reporter: Reporter | undefined;
  #top: Node | undefined;
  /** The tree cannot be made right by events. */
  isLost = false;

  /** `place` is the watched directory's descriptor, which stays the caller's. */
  constructor(tree: WatchTree, place: number, isRecursive: boolean) {
    this.#tree = tree;
    this.#place = place;
    this.#isRecursive = isRecursive;
  }

  get top(): Node | undefined {
    return this.#top;
  }

  /** Watches the directory and all in it; changes from here on are reported. Throws AgentError, WatchEnd. */
  *start(name: string, reporter: Reporter): Step<void> {
    const fd = addon.reopen(this.#place, constants.O_RDONLY | constants.O_DIRECTORY);
    if (fd < 0) throw fileError(fd, name);
    let isTaken = false;
    try {
      const number = addon.watchDirectory(this.#tree.inotify, fd, TOP_MASK);
      if (number < 0) throw fileError(number, name);
      this.#top = this.#tree.add(number, '', undefined);
      isTaken = this.#isRecursive;
    } finally {
      if (!isTaken) addon.close(fd);
    }
    if (isTaken) for (const step of this.#read(fd, this.#top, 0)) if (step === undefined) yield;
    this.#reporter = reporter;
  }

  /** Makes the tree have what is at the name now; false if that is not possible yet. Throws WatchEnd. */
  *at(node: Node, name: string, known: Known): ParkedStep<boolean> {
    yield;
    if (!this.#tree.has(node)) return true;
    const directory = this.#open(node);
    if (directory === undefined) {
      this.#defer(node, name);
      return false;
    }
    try {
      return yield* this.#lookIn(directory, node, name, known, this.#tree.depthOf(node));
    } finally {
      addon.close(directory);
    }
  }

  /** Looks at the names that could not be looked at before; false if none could be now. Throws WatchEnd. */
  *again(): ParkedStep<boolean> {
    let hasLooked = false;
    for (const [key, { node, name, tries }] of [...this.#deferred]) {
      this.#deferred.delete(key);
      if (yield* this.at(node, name, 'nothing')) hasLooked = true;
      else if (tries < MAX_TRIES) this.#deferred.set(key, { node, name, tries: tries + 1 });
      else this.isLost = true;
    }
    return hasLooked;
  }

  /** An event has removed the name. */
  *removed(node: Node, name: string): ParkedStep<void> {
    this.#deferred.delete(keyOf(node, name));
    yield* this.forget(node.children?.get(name));
  }

  /** Ends the watch of a directory and all in it, and reports them as removed. */
  *forget(node: Node | undefined): ParkedStep<void> {
    if (node?.parent === undefined) return;
    const path = this.#tree.pathOf(node.parent, node.name);
    this.#tree.drop(node);
    if (this.#reporter !== undefined) yield* this.#reporter.removed(path);
  }

  /** After a change of rights: leaves the directories that the user cannot read any more, which is not reported. */
  *recheck(node: Node): Step<void> {
    if (node.parent === undefined) return;
    const directory = this.#open(node.parent);
    if (directory === undefined) {
      this.#defer(node.parent, node.name);
      return;
    }
    try {
      yield* this.#recheckIn(directory, node);
    } finally {
      addon.close(directory);
    }
  }

  *#recheckIn(directory: number, node: Node): Step<void> {
    yield;
    const fd = addon.openBeneath(directory, node.name, READ, RESOLVE);
    if (fd === -EACCES) this.#tree.drop(node);
    // An event of the name waits.
    if (fd < 0) return;
    try {
      if (!this.#isOf(fd, node)) return;
      for (const child of [...(node.children?.values() ?? [])])
        if (child.parent === node) yield* this.#recheckIn(fd, child);
    } finally {
      addon.close(fd);
    }
  }

  #defer(node: Node, name: string): void {
    const key = keyOf(node, name);
    if (!this.#deferred.has(key)) this.#deferred.set(key, { node, name: copyOf(name), tries: 0 });
    if (this.#deferred.size > MAX_DEFERRED) this.isLost = true;
  }

  /** Opens a watched directory; undefined if its path is not, or not yet, the one in the tree. */
  #open(node: Node): number | undefined {
    const { parent, name } = node;
    const fd =
      parent === undefined
        ? addon.reopen(this.#place, constants.O_RDONLY | constants.O_DIRECTORY)
        : addon.openBeneath(this.#place, this.#tree.pathOf(parent, name), READ, RESOLVE);
    if (fd < 0) return undefined;
    if (parent === undefined || this.#isOf(fd, node)) return fd;
    addon.close(fd);
    return undefined;
  }

  /** Whether the open directory is the node's: the kernel has one number for it, however often it is watched. */
  #isOf(fd: number, node: Node): boolean {
    const number = addon.watchDirectory(this.#tree.inotify, fd, MASK);
    if (number >= 0) this.#tree.dropWatch(number);
    return number === node.number;
  }

  *#lookIn(directory: number, node: Node, name: string, known: Known, depth: number): ParkedStep<boolean> {
    if (addon.statusAt(directory, name, this.#status) < 0) {
      yield* this.forget(node.children?.get(name));
      return true;
    }
    const isDir = isDirectory(this.#status);
    const fd = isDir && this.#isRecursive ? addon.openBeneath(directory, name, READ, RESOLVE) : -1;
    if (fd >= 0) return yield* this.#enter(fd, node, name, known, depth + 1);
    yield* this.forget(node.children?.get(name));
    if (!isDir || known === 'nothing') yield* this.#created(node, name, isDir);
    return true;
  }

  /** Makes an open directory, which it closes, the one of the name. */
  *#enter(fd: number, parent: Node, name: string, known: Known, depth: number): ParkedStep<boolean> {
    const number = addon.watchDirectory(this.#tree.inotify, fd, MASK);
    let isTaken = false;
    try {
      if (number === -ENOSPC)
        throw new WatchEnd(WATCH_END.TOO_MANY, 'needs more inotify watches than the guest has');
      const there = parent.children?.get(name);
      if (there?.number !== number) yield* this.forget(there);
      const found = this.#tree.find(number);
      // The tree still has this one within the other, and the event of that waits.
      const isAbove = found !== undefined && isWithin(parent, found);
      if (isAbove) this.#defer(parent, name);
      if (isAbove || number < 0) {
        if (known === 'nothing') yield* this.#created(parent, name, true);
        return !isAbove;
      }
      if (found !== undefined && found === there && (found.isTold || this.#reporter === undefined))
        return true;
      if (found?.parent !== undefined && found !== there) {
        // It was moved here, and what has its name now may have no event that waits.
        this.#defer(found.parent, found.name);
        yield* this.forget(found);
      }
      const node = found === there && found !== undefined ? found : this.#tree.add(number, name, parent);
      if (this.#reporter !== undefined) {
        forgetTold(node);
        node.isTold = true;
        if (known !== 'empty') yield* this.#created(parent, name, true);
      }
      isTaken = true;
      yield* this.#read(fd, node, depth);
      return true;
    } finally {
      if (!isTaken) addon.close(fd);
    }
  }

  /** Reads an open directory, which it closes, and watches the directories in it. */
  *#read(fd: number, node: Node, depth: number): ParkedStep<void> {
    try {
      if (depth > MAX_DEPTH) throw tooDeep();
      for (;;) {
        const batch = addon.nextEntries(fd);
        // The directory was removed.
        if (typeof batch !== 'string' || batch === '') return;
        for (const part of batch.slice(0, -1).split('/')) {
          yield;
          yield* this.#lookIn(fd, node, part, 'nothing', depth);
        }
      }
    } finally {
      addon.close(fd);
    }
  }

  *#created(node: Node, name: string, isDir: boolean): ParkedStep<void> {
    const path = this.#tree.pathOf(node, name);
    if (path.length > MAX_PATH_BYTES) throw tooDeep();
    if (this.#reporter !== undefined) yield* this.#reporter.created(path, isDir);
  }
}

function keyOf(node: Node, name: string): string {
  return `${node.number}/${name}`;
}
