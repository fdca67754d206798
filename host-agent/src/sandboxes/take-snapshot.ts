// Saving a sandbox that goes on, within what the host has room for.
import type { Owner } from '../keys/index.ts';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { allocatedBytes } from '../lib/extents.ts';
import { type Admission, asNoSpace } from './admission.ts';
import type { Sandbox } from './sandbox.ts';
import type { Snapshots } from './snapshots.ts';
import type { SnapshotInfo } from './types.ts';

export type TakeParts = {
  readonly admission: Pick<Admission, 'reserve'>;
  readonly snapshots: Pick<Snapshots, 'create'>;
};

/** AppError with everything undone; the signal's reason when cancelled. One at a time of a sandbox. */
export async function takeSnapshot(
  sandbox: Sandbox,
  { admission, snapshots }: TakeParts,
  signal: AbortSignal,
  owner?: Owner,
): Promise<SnapshotInfo> {
  signal.throwIfAborted();
  sandbox.assertAlive();
  const { record, paths } = sandbox;
  const diskBytes = record.options.memoryMib * 2 ** 20 + (await allocatedBytes(paths.layerPath));
  using _held = await admission.reserve({ memoryMib: [], areCopies: false, diskBytes });
  sandbox.isSaving = true;
  try {
    return await snapshots.create(sandbox, signal, owner);
  } catch (error) {
    signal.throwIfAborted();
    // A source that died or was deleted meanwhile is the better reason.
    sandbox.assertAlive();
    throw describeFailure(error);
  } finally {
    sandbox.isSaving = false;
  }
}

/** For a client. */
function describeFailure(error: unknown): AppError {
  const noSpace = asNoSpace(error, 'take the snapshot', 'save');
  if (noSpace !== undefined) return noSpace;
  if (isAppError(error)) return error;
  return new AppError('internal', `cannot take the snapshot: ${toError(error).message}`, { cause: error });
}
