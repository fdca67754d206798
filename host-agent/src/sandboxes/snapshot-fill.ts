// Saves a running sandbox to the directory of a new snapshot.
import type { Faults } from '../lib/faults.ts';
import { toSavedOptions } from './record.ts';
import type { Sandbox } from './sandbox.ts';
import { saveGuest } from './saved/save.ts';
import type { Fill } from './snapshot-record.ts';

/** The sandbox keeps running. */
export function fillFrom(sandbox: Sandbox, faults: Faults, signal: AbortSignal): Fill {
  const { compatibility, kernelDigest } = sandbox.record;
  const options = toSavedOptions(sandbox.record);
  return async (dir, snapshot) => {
    const { saved, pausedMs, totalMs } = await saveGuest({
      dir,
      vm: sandbox.awake.vm,
      guest: sandbox.awake.guest,
      layerPath: sandbox.paths.layerPath,
      manifest: { compatibility, kernelDigest, options },
      writesOut: true,
      onPaused: () => faults.reach('snapshot.paused'),
      signal,
    });
    faults.reach('snapshot.saved');
    sandbox.assertAlive();
    const times = { pausedMs: Math.round(pausedMs), totalMs: Math.round(totalMs) };
    return { saved, event: { kind: 'snapshot-taken', snapshot, sandbox: sandbox.id, ...times } };
  };
}
