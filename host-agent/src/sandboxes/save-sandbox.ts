// Saves a sandbox: as a user's snapshot while it keeps running, or to destroy it afterwards.
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { allocatedBytes } from '../lib/extents.ts';
import { type Admission, asNoSpace } from './admission.ts';
import { explainExit } from './resources/agent.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import type { SavedManifest } from './saved/manifest.ts';
import { type SaveInput, saveGuest } from './saved/save.ts';
import type { SnapshotFor, Snapshots } from './snapshots.ts';
import type { SnapshotInfo } from './types.ts';

type TakeSnapshotDeps = {
  readonly admission: Pick<Admission, 'reserve'>;
  readonly snapshots: Pick<Snapshots, 'create'>;
};

/** AppError with everything undone; the signal's reason when cancelled. One at a time for each sandbox. */
export async function takeSnapshot(
  sandbox: Sandbox,
  { admission, snapshots }: TakeSnapshotDeps,
  signal: AbortSignal,
  by?: SnapshotFor,
): Promise<SnapshotInfo> {
  signal.throwIfAborted();
  sandbox.assertAlive();
  const { record, paths } = sandbox;
  const diskBytes = record.options.memoryMib * 2 ** 20 + (await allocatedBytes(paths.layerPath));
  using _reservation = await admission.reserve({ memoryMib: [], areCopies: false, diskBytes });
  const { awake: running } = sandbox;
  running.isSaving = true;
  try {
    return await snapshots.create(sandbox, signal, by);
  } catch (error) {
    signal.throwIfAborted();
    // If the sandbox died or was deleted, that is the better reason; what it was asked fails a moment earlier.
    if (!sandbox.leaving.aborted) await explainExit(running.vm);
    sandbox.assertAlive();
    throw describeFailure(error);
  } finally {
    running.isSaving = false;
  }
}

/** The error as the client gets it. */
function describeFailure(error: unknown): AppError {
  const noSpace = asNoSpace(error, 'take the snapshot', 'save');
  if (noSpace !== undefined) return noSpace;
  if (isAppError(error)) return error;
  return new AppError('internal', `cannot take the snapshot: ${toError(error).message}`, { cause: error });
}

type SaveAndDestroyInput = Pick<SaveInput, 'dir' | 'signal'> & {
  readonly options: SavedManifest['options'];
  readonly owner?: string | undefined;
};

/** Resolves after the sandbox is removed: nothing may write to its memory file when it is first restored. */
export async function saveAndDestroy(
  { engines, system }: Pick<ResourceContext, 'engines' | 'system'>,
  sandbox: Sandbox,
  { options, owner, ...input }: SaveAndDestroyInput,
): ReturnType<typeof saveGuest> {
  const saved = await saveGuest({
    ...input,
    vm: sandbox.awake.vm,
    guest: sandbox.awake.guest,
    layerPath: sandbox.paths.layerPath,
    manifest: {
      compatibility: engines.current.compatibility(),
      kernelDigest: system.kernel.digest,
      options,
      ...(owner !== undefined && { owner }),
    },
    staysPaused: true,
  });
  await sandbox.remove();
  return saved;
}
