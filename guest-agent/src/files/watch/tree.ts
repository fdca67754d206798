// The directories of one watch, as its client knows them: which watch of the kernel (inotify) is of which directory.
import { AgentError, MAX_WATCHED_DIRECTORIES, WATCH_END } from '@sandboxd/proto';
import { addon } from '../../native/addon.ts';
import type { Step } from '../as-user.ts';
import type { WatchBudget } from './budget.ts';

export type Node = {
  readonly number: number;
  name: string;
  /** Undefined for the watched directory itself, and for one that is not watched any more. */
  parent: Node | undefined;
  children: Map<string, Node> | undefined;
  /** All in it was reported, so that the client need not have listed it. */
  isTold: boolean;
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

export class WatchTree {
  readonly inotify: number;
  readonly #budget: WatchBudget;
  readonly #nodes = new Map<number, Node>();
  /** Watches of the kernel that are not needed any more. */
  readonly #stale = new Set<number>();

  /** Throws AgentError. */
  constructor(budget: WatchBudget) {
    this.inotify = addon.openInotify();
    if (this.inotify < 0)
      throw new AgentError(
        'busy',
        'the programs of this guest watch too much: there is no inotify instance left',
      );
    this.#budget = budget;
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

  has(node: Node): boolean {
    return this.#nodes.get(node.number) === node;
  }

  /** Path of an entry of the directory, relative to the watched one. */
  pathOf(node: Node, name: string): string {
    let path = name;
    for (let at = node; at.parent !== undefined; at = at.parent) path = `${at.name}/${path}`;
    return path;
  }

  depthOf(node: Node): number {
    let depth = 0;
    for (let at = node.parent; at !== undefined; at = at.parent) depth += 1;
    return depth;
  }

  /** Throws WatchEnd. */
  add(number: number, name: string, parent: Node | undefined): Node {
    if (!this.#budget.add())
      throw new WatchEnd(
        WATCH_END.TOO_MANY,
        `has too many directories: all watches of this sandbox have at most ${MAX_WATCHED_DIRECTORIES} together`,
      );
    this.#stale.delete(number);
    const node: Node = { number, name: '', parent: undefined, children: undefined, isTold: false };
    this.#nodes.set(number, node);
    if (parent !== undefined) this.#put(node, parent, copyOf(name));
    return node;
  }

  /** A directory has another name now, in place of what had it. `parent` must not be in it. */
  move(node: Node, parent: Node, name: string): void {
    this.#detach(node);
    this.drop(parent.children?.get(name));
    this.#put(node, parent, name);
  }

  /** Ends the watch of a directory and all in it. */
  drop(node: Node | undefined): void {
    if (node === undefined || !this.has(node)) return;
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

  /** Of a directory that was opened and is not in the tree. */
  dropWatch(number: number): void {
    if (!this.#nodes.has(number)) this.#stale.add(number);
  }

  /** Ends the kernel's watches of dropped directories, of which there may be many. */
  *sweep(): Step<void> {
    for (const number of this.#stale) {
      this.#stale.delete(number);
      addon.unwatchDirectory(this.inotify, number);
      yield;
    }
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
}

export function isWithin(node: Node, directory: Node): boolean {
  for (let at: Node | undefined = node; at !== undefined; at = at.parent) if (at === directory) return true;
  return false;
}

/** All in the directory is to be reported again. */
export function forgetTold(node: Node): void {
  const rest = [node];
  for (let at = rest.pop(); at !== undefined; at = rest.pop()) {
    at.isTold = false;
    if (at.children !== undefined) rest.push(...at.children.values());
  }
}

/** A part of a longer text would keep all of it in memory. */
export function copyOf(name: string): string {
  return Buffer.from(name, 'latin1').toString('latin1');
}
