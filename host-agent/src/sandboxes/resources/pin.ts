// Pins a root file system: a hard link beside the layer. Garbage collection of old bakes sees by the link count that
// a file is in use, by any daemon.
import { link } from 'node:fs/promises';
import { join } from 'node:path';
import { errnoOf } from '../../lib/errors.ts';

const ROOTFS = 'rootfs.ext4';
const AGENT = 'agent.ext4';
/** The link exists already; the bake was removed; the file is on another file system, where nothing is collected. */
const IGNORED_ERRORS: readonly (string | undefined)[] = ['EEXIST', 'ENOENT', 'EXDEV'];

/** `dir`: the directory of a sandbox or saved guest, with which the link is removed. */
export function pinRootfs(dir: string, rootfsPath: string): Promise<void> {
  return pin(rootfsPath, join(dir, ROOTFS));
}

/** The same for the agent image. */
export function pinAgent(dir: string, agentPath: string): Promise<void> {
  return pin(agentPath, join(dir, AGENT));
}

async function pin(path: string, name: string): Promise<void> {
  await link(path, name).catch((error) => {
    if (!IGNORED_ERRORS.includes(errnoOf(error))) throw error;
  });
}
