// Keeps the root filesystem of a profile for what needs it: another name of the same file, beside the layer. Whoever prunes
// old bakes sees by the count of names that one is in use, whichever daemon uses it.
import { link } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../lib/errors.ts';

const ROOTFS = 'rootfs.ext4';
const AGENT = 'agent.ext4';
/** There is one already; the bake is gone; its file system is another one, where nothing is pruned. */
const HARMLESS: readonly (string | undefined)[] = ['EEXIST', 'ENOENT', 'EXDEV'];

/** `dir` is that of a sandbox or of a saved guest, and goes with it. */
export function pinRootfs(dir: string, rootfsPath: string): Promise<void> {
  return pin(rootfsPath, join(dir, ROOTFS));
}

/** The same for the image that the agent runs from. */
export function pinAgent(dir: string, agentPath: string): Promise<void> {
  return pin(agentPath, join(dir, AGENT));
}

async function pin(path: string, name: string): Promise<void> {
  await link(path, name).catch((error) => {
    if (!HARMLESS.includes(errnoOf(error))) throw error;
  });
}
