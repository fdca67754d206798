// Random changes of a tree, the same for a seed, and what a client of a watch believes of it.
import { type Dirent, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export type Change = {
  readonly kind: 'mkdir' | 'write' | 'remove' | 'link' | 'rename';
  readonly path: string;
  /** Of a rename. */
  readonly to: string;
};

/** A small generator of numbers below 1 (mulberry32). */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Few names, so that changes meet. Some of the changes fail. */
export function* changes(seed: number, count: number): Generator<Change, void> {
  const next = random(seed);
  const pick = (most: number): number => Math.floor(next() * most);
  const path = (): string => Array.from({ length: 1 + pick(4) }, () => 'abcd'[pick(4)]).join('/');
  for (let at = 0; at < count; at++) {
    const kind = (
      ['mkdir', 'mkdir', 'mkdir', 'write', 'write', 'rename', 'rename', 'remove', 'link'] as const
    )[pick(9)];
    yield { kind: kind ?? 'write', path: path(), to: path() };
  }
}

export function apply(root: string, change: Change): void {
  const path = join(root, change.path);
  try {
    if (change.kind === 'mkdir') mkdirSync(path);
    else if (change.kind === 'write') writeFileSync(path, 'x');
    else if (change.kind === 'link') symlinkSync('a', path);
    else if (change.kind === 'remove') rmSync(path, { recursive: true });
    else renameSync(path, join(root, change.to));
  } catch (error) {
    if (!('code' in (error as Error))) throw error;
  }
}

/** The same, for a shell of a guest. */
export function toShell(change: Change): string {
  const { kind, path } = change;
  if (kind === 'mkdir') return `mkdir ${path}`;
  if (kind === 'write') return `[ -d ${path} ] || echo x > ${path}`;
  if (kind === 'link') return `ln -snT a ${path}`;
  if (kind === 'remove') return `rm -r ${path}`;
  return `mv -T ${path} ${change.to}`;
}

/** A directory may be gone by now. */
function entriesOf(path: string): Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch {
    return [];
  }
}

export function readTree(root: string): Map<string, boolean> {
  const tree = new Map<string, boolean>();
  const read = (below: string): void => {
    for (const entry of entriesOf(join(root, below))) {
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      tree.set(path, entry.isDirectory());
      if (entry.isDirectory()) read(path);
    }
  };
  read('');
  return tree;
}

type Event = {
  readonly type: string;
  readonly path?: string | undefined;
  readonly from?: string | undefined;
  readonly isDirectory?: boolean;
};

/** Paths, and whether each is a directory. */
export class TreeModel {
  tree = new Map<string, boolean>();

  /** Everything but `armed`, `overflow` and `end`. */
  apply({ type, path = '', from = '', isDirectory = false }: Event): void {
    if (type === 'create') {
      // What is in a directory follows.
      if (isDirectory || this.tree.get(path) !== isDirectory) this.remove(path);
      this.tree.set(path, isDirectory);
    } else if (type === 'remove') this.remove(path);
    else if (type === 'rename') {
      const moved = [...this.tree].filter(([each]) => each === from || each.startsWith(`${from}/`));
      this.remove(from);
      // What is not known as it was may be known under its new name.
      if (moved.length > 0 || !isDirectory) this.remove(path);
      for (const [each, isDir] of moved) this.tree.set(path + each.slice(from.length), isDir);
      this.tree.set(path, isDirectory);
    }
  }

  remove(path: string): void {
    for (const each of [...this.tree.keys()])
      if (each === path || each.startsWith(`${path}/`)) this.tree.delete(each);
  }

  get sorted(): string[] {
    return [...this.tree].map(([path, isDir]) => `${path}${isDir ? '/' : ''}`).sort();
  }
}
