// A guest that was saved before it had a root gets one: the copy's own disks.
import { AgentError } from '@sandboxd/proto';
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { ensureDirectories, mountRun } from './mounts.ts';

/** A word of the kernel's command line, written by the host's engine: init.c reads it likewise. */
const DISK_ERRORS = 'sandbox.disk-errors';
/** As in init.c, where each is explained. */
const LAYER_OPTIONS = 'nobarrier,noinit_itable';

/** `joinsAgent`: the agent's image is joined above it. Throws AgentError when the disks are no root. */
export function enterRoot(joinsAgent: boolean): void {
  const words = addon.readText(NO_DIRECTORY, '/proc/cmdline').split(/\s/);
  try {
    const options = words.includes(DISK_ERRORS) ? `${LAYER_OPTIONS},nodelalloc` : LAYER_OPTIONS;
    addon.enterRoot(options, joinsAgent ? 1 : 0);
  } catch (error) {
    throw new AgentError('not_found', `cannot enter the root: ${(error as Error).message}`);
  }
  mountRun();
  ensureDirectories();
}
