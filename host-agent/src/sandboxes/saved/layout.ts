// Directories of saved guests. Names of unfinished ones begin with a dot and are removed at the next start.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { removeSaved } from './saved-guest.ts';

export function snapshotsRoot(dataDir: string): string {
  return join(dataDir, 'snapshots');
}

export function templatesRoot(dataDir: string): string {
  return join(dataDir, 'templates');
}

export function unfinishedDir(root: string, name: string): string {
  return join(root, `.${name}`);
}

/** Removes directories for which `keep` returns false, and unfinished ones. Returns the other names. */
export async function sweepSaved(root: string, keep: (name: string) => boolean): Promise<string[]> {
  const names = await readdir(root).catch(() => []);
  const kept = names.filter((name) => !name.startsWith('.') && keep(name));
  for (const name of names) if (!kept.includes(name)) await removeSaved(join(root, name));
  return kept;
}
