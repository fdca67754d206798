// A guest that was snapshotted without a root file system switches to one: the disks attached to its copy.
import { AgentError } from '@sandboxd/proto';
import { readHasDiskErrors } from '../lib/kernel-parameters.ts';
import { addon } from '../native/addon.ts';
import { mountModules } from './modules.ts';
import { ensureDirectories, mountRun } from './mounts.ts';

/** Mount options of the writable layer; init.c explains each. */
const LAYER_OPTIONS = 'nobarrier,noinit_itable,commit=60';

/** Throws AgentError when the disks do not form a root file system. */
export function enterRoot(): void {
  try {
    const options = readHasDiskErrors() ? `${LAYER_OPTIONS},nodelalloc` : LAYER_OPTIONS;
    addon.enterRoot(options);
  } catch (error) {
    throw new AgentError('not_found', `cannot enter the root: ${(error as Error).message}`);
  }
  mountModules();
  mountRun();
  ensureDirectories();
}
