// The rows of the tree of files: directories that are open, and what they have.
import type { FileEntry } from '@sandboxd/client';
import type { Listing } from './read-directory.ts';

/** What is known of a directory: nothing while it is read. */
export type Branch = Partial<Listing> & { readonly problem?: string };

export type Row =
  | { readonly kind: 'entry'; readonly entry: FileEntry; readonly depth: number; readonly isOpen: boolean }
  /** In place of entries: that they are read, or why there are none. */
  | { readonly kind: 'note'; readonly id: string; readonly text: string; readonly depth: number };

/**
 * A guest makes the listings. Only paths below a directory are drawn in it, each once, so that no listing leads back
 * to itself.
 */
export function toRows(branches: ReadonlyMap<string, Branch>, open: ReadonlySet<string>): readonly Row[] {
  const rows: Row[] = [];
  const add = (path: string, depth: number): void => {
    const { entries, hasMore, problem } = branches.get(path) ?? {};
    const note = problem ?? (entries === undefined ? 'Loading…' : undefined);
    if (note !== undefined) rows.push({ kind: 'note', id: path, text: note, depth });
    for (const entry of entries ?? []) {
      if (!isBelow(entry.path, path)) continue;
      const isOpen = entry.type === 'directory' && open.has(entry.path);
      rows.push({ kind: 'entry', entry, depth, isOpen });
      if (isOpen) add(entry.path, depth + 1);
    }
    if (hasMore) rows.push({ kind: 'note', id: `${path} more`, text: 'More are in the list', depth });
  };
  add('/', 1);
  return rows;
}

function isBelow(path: string, directory: string): boolean {
  const prefix = directory === '/' ? '/' : `${directory}/`;
  const name = path.slice(prefix.length);
  return path.startsWith(prefix) && !/^\.{0,2}$|\//.test(name);
}
