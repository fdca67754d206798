// A guest that was saved before it had a root gets one: the copy's own disks.
import { AgentError } from '@sandboxd/proto';
import { hasKernelWord } from '../lib/kernel-words.ts';
import { addon } from '../native/addon.ts';
import { mountModules } from './modules.ts';
import { ensureDirectories, mountRun } from './mounts.ts';

/** A word of the kernel's command line, written by the host's engine: init.c reads it likewise. */
const DISK_ERRORS = 'sandbox.disk-errors';
/** As in init.c, where each is explained. */
const LAYER_OPTIONS = 'nobarrier,noinit_itable';

/** Throws AgentError when the disks are no root. */
export function enterRoot(): void {
  try {
    const options = hasKernelWord(DISK_ERRORS) ? `${LAYER_OPTIONS},nodelalloc` : LAYER_OPTIONS;
    addon.enterRoot(options);
  } catch (error) {
    throw new AgentError('not_found', `cannot enter the root: ${(error as Error).message}`);
  }
  mountModules();
  mountRun();
  ensureDirectories();
}
