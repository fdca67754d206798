// Saves a guest: memory and device state of one moment.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readSmall } from '../../lib/untrusted-path.ts';
import { everyOne } from '../../lib/wait.ts';
import type { SavedVm, SaveOptions, VmmIdentity } from '../engine.ts';
import { takeBack } from '../jail/jail.ts';
import { qemuFiles } from './files.ts';
import { beginMemoryCopy } from './memory-copy.ts';
import type { QmpClient } from './qmp.ts';

/** For writing some 200 KiB; only an overloaded disk takes longer. */
const STATE_TIMEOUT_MS = 30_000;

/** The real size is some 200 KiB. */
const MAX_STATE_BYTES = 64 * 2 ** 20;

export type SaveContext = {
  readonly identity: VmmIdentity;
  readonly control: Pick<QmpClient, 'execute'>;
  /** Resumes the guest, or ends a VM that cannot be resumed. */
  readonly resume: () => Promise<void>;
};

export async function saveQemu(
  { identity, control, resume }: SaveContext,
  options: SaveOptions,
): Promise<SavedVm & { readonly pausedMs: number }> {
  const memoryPath = join(options.dir, 'memory');
  const statePath = join(options.dir, 'state');
  const own = qemuFiles(identity.paths).statePath;
  const finishMemory = await beginMemoryCopy(identity, options.memoryBytes, memoryPath);
  let pausedAt = 0;
  try {
    await options.beforePause?.();
    pausedAt = performance.now();
    // A `stop` that timed out may still take effect, so the guest is resumed then, too.
    try {
      await control.execute('stop');
      await everyOne([
        // Despite its name this is not specific to Xen: it saves all device state, no memory, no disks. `live: false`
        // keeps the disks active, because the guest resumes.
        control.execute('xen-save-devices-state', { filename: own, live: false }, STATE_TIMEOUT_MS),
        finishMemory(),
        options.whilePaused(),
      ]);
    } catch (error) {
      await resume().catch(() => undefined);
      throw error;
    }
    if (!options.staysPaused) await resume();
  } finally {
    options.afterPause?.();
  }
  const state = await readSmall(own, MAX_STATE_BYTES);
  if (state.length === 0) throw new Error('the VMM has saved no state of its devices');
  await writeFile(statePath, state, { mode: 0o600 });
  if (identity.jail !== undefined) await takeBack(memoryPath);
  return { memoryPath, statePath, pausedMs: performance.now() - pausedAt };
}
