// Saving a guest: memory and device state of one moment.
import { join } from 'node:path';
import { AppError, toError } from '../../lib/errors.ts';
import type { SavedVm, SaveOptions, VmmIdentity } from '../engine.ts';
import { beginMemoryCopy } from './memory-copy.ts';
import type { QmpClient } from './qmp.ts';

/** Writing some 200 KiB; longer only on a disk in trouble. */
const STATE_TIMEOUT_MS = 30_000;

export async function saveQemu(
  identity: VmmIdentity,
  control: QmpClient,
  options: SaveOptions,
): Promise<SavedVm & { readonly pausedMs: number }> {
  const memoryPath = join(options.dir, 'memory');
  const statePath = join(options.dir, 'state');
  const finishMemory = await beginMemoryCopy(identity.pid, identity.memory, memoryPath);
  const pausedAt = performance.now();
  await control.execute('stop');
  try {
    await Promise.all([
      // Despite its name it has nothing to do with Xen: all device state, no memory, no disks. Not `live`: the guest
      // goes on, so its disks must stay active.
      control.execute('xen-save-devices-state', { filename: statePath, live: false }, STATE_TIMEOUT_MS),
      finishMemory(),
      options.whilePaused(),
    ]);
  } catch (error) {
    throw new AppError('internal', `cannot save the VM: ${toError(error).message}`, {
      stage: 'save',
      cause: error,
    });
  } finally {
    if (!options.staysPaused) await control.execute('cont');
  }
  return { memoryPath, statePath, pausedMs: performance.now() - pausedAt };
}
