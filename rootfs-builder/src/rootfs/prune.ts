// Removes replaced bakes. Each user of a bake holds a hard link to its image, so the link count shows whether it is in
// use.
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { retireDirectory } from '../lib/atomic.ts';
import { shortDigest } from '../lib/digest.ts';
import { CURRENT_FILE, profileDirectory, profilesDirectory } from '../lib/layout.ts';
import { ROOTFS_FILE } from './profiles.ts';

/** Unused replaced bakes to retain: a create that began before the newest bake may need the previous one. */
export const KEPT_BAKES = 2;
const BAKE_NAME = /^[0-9a-f]{16}$/;

export type PruneResult = {
  readonly removed: readonly string[];
  readonly freedBytes: number;
  /** Replaced bakes in use. */
  readonly inUse: readonly string[];
};

/** Retains the `keep` newest replaced bakes. Removes nothing where uses are not visible: across file systems. */
export async function pruneBakes(dataDir: string, name: string, keep = KEPT_BAKES): Promise<PruneResult> {
  const parent = profileDirectory(dataDir, name);
  const none: PruneResult = { removed: [], freedBytes: 0, inUse: [] };
  const current = (await readFile(join(parent, CURRENT_FILE), 'utf8').catch(() => '')).trim();
  if (current === '' || !(await isOneFileSystem(dataDir))) return none;
  const bakes = await Promise.all(
    (await readdir(parent))
      .filter((entry) => BAKE_NAME.test(entry) && entry !== shortDigest(current))
      .map(async (entry) => {
        const directory = join(parent, entry);
        const image = await stat(join(directory, ROOTFS_FILE)).catch(() => undefined);
        return { directory, image, madeMs: image?.mtimeMs ?? 0 };
      }),
  );
  bakes.sort((a, b) => b.madeMs - a.madeMs);
  const removed: string[] = [];
  const inUse: string[] = [];
  let freedBytes = 0;
  for (const { directory, image } of bakes.slice(keep)) {
    if ((image?.nlink ?? 1) > 1) inUse.push(directory);
    else {
      await retireDirectory(directory);
      removed.push(directory);
      freedBytes += (image?.blocks ?? 0) * 512;
    }
  }
  return { removed, freedBytes, inUse };
}

async function isOneFileSystem(dataDir: string): Promise<boolean> {
  const [outer, inner] = await Promise.all([stat(dataDir), stat(profilesDirectory(dataDir))]);
  return outer.dev === inner.dev;
}
