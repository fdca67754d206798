// Keeps the root filesystem of a profile for what needs it: another name of the same file, beside the layer. Whoever prunes
// old bakes sees by the count of names that one is in use, whichever daemon uses it.
import { link } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../lib/errors.ts';

const NAME = 'rootfs.ext4';
/** There is one already; the bake is gone; its file system is another one, where nothing is pruned. */
const HARMLESS: readonly (string | undefined)[] = ['EEXIST', 'ENOENT', 'EXDEV'];

/** `dir` is that of a sandbox or of a saved guest, and goes with it. */
export async function pinRootfs(dir: string, rootfsPath: string): Promise<void> {
  await link(rootfsPath, join(dir, NAME)).catch((error) => {
    if (!HARMLESS.includes(errnoOf(error))) throw error;
  });
}
