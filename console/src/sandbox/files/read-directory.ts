// The entries of a directory as a guest lists them: bounded, each path once, directories first.
import type { FileEntry, Files } from '@sandboxd/client';

export type Listing = {
  readonly entries: readonly FileEntry[];
  /** There are more than were read. */
  readonly hasMore: boolean;
};

export async function readDirectory(
  files: Files,
  path: string,
  maxEntries: number,
  signal: AbortSignal,
): Promise<Listing> {
  const entries = new Map<string, FileEntry>();
  let hasMore = false;
  for await (const entry of files.list(path, { signal })) {
    hasMore = entries.size === maxEntries;
    if (hasMore) break;
    entries.set(entry.path_base64 ?? entry.path, entry);
  }
  return { entries: [...entries.values()].sort(byKindAndName), hasMore };
}

/** A path that is not UTF-8 cannot be named in a request. */
export function canBeNamed({ path_base64 }: FileEntry): boolean {
  return path_base64 === undefined;
}

export function joinPath(directory: string, name: string): string {
  return `${directory.replace(/\/$/, '')}/${name.replaceAll('/', '_')}`;
}

/** `/`, `/srv`, `/srv/app` of `/srv/app`. */
export function withParents(path: string): readonly string[] {
  const parts = path.split('/').filter(Boolean);
  return ['/', ...parts.map((_, at) => `/${parts.slice(0, at + 1).join('/')}`)];
}

function byKindAndName(a: FileEntry, b: FileEntry): number {
  const kind = Number(b.type === 'directory') - Number(a.type === 'directory');
  return kind === 0 ? a.name.localeCompare(b.name) : kind;
}
