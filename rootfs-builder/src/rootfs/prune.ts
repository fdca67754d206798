// Removes bakes that were replaced by newer ones. Who uses a bake has given its image another name (a hard link), so that
// the count of names says whether anybody does.
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { retireDirectory } from '../lib/atomic.ts';
import { shortDigest } from '../lib/digest.ts';
import { CURRENT_FILE, profileDirectory, profilesDirectory } from '../lib/layout.ts';
import { ROOTFS_FILE } from './profiles.ts';

/** Replaced bakes that stay although nobody uses them: a create that began before the newest bake may need the last one. */
export const KEPT_BAKES = 2;
const BAKE_NAME = /^[0-9a-f]{16}$/;

export type PruneResult = {
  readonly removed: readonly string[];
  readonly freedBytes: number;
  /** Old ones that somebody uses. */
  readonly inUse: readonly string[];
};

/** `keep` replaced bakes stay, the newest ones. Nothing is removed where uses cannot be seen: across file systems. */
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
