// Saves a sandbox: as a user's snapshot while it keeps running, for forks or a move alone, or to destroy it afterwards.
import { mkdir } from 'node:fs/promises';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { allocatedBytes } from '../lib/extents.ts';
import { newId } from '../lib/ids.ts';
import { type Admission, asNoSpace } from './admission.ts';
import { toSavedOptions } from './record.ts';
import { explainExit } from './resources/agent.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import type { SavedManifest } from './saved/manifest.ts';
import { pausedDir } from './saved/paused.ts';
import { type SaveInput, saveGuest } from './saved/save.ts';
import { copyPaused } from './saved/save-paused.ts';
import { removeSaved, type SavedGuest, snapshotsRoot, unfinishedDir } from './saved/saved-guest.ts';
import type { SnapshotFor, Snapshots } from './snapshots.ts';
import type { SnapshotInfo } from './types.ts';

type TakeSnapshotDeps = {
  readonly admission: Pick<Admission, 'reserve'>;
  readonly snapshots: Pick<Snapshots, 'create'>;
};

/** AppError with everything undone; the signal's reason when cancelled. One at a time for each sandbox. */
export function takeSnapshot(
  sandbox: Sandbox,
  { admission, snapshots }: TakeSnapshotDeps,
  signal: AbortSignal,
  by?: SnapshotFor,
): Promise<SnapshotInfo> {
  return saveRunning(sandbox, admission, signal, () => snapshots.create(sandbox, signal, by));
}

type SaveTemporarilyDeps = Pick<TakeSnapshotDeps, 'admission'> & {
  readonly context: Pick<ResourceContext, 'directories' | 'engines' | 'faults'>;
  /** Waits for the VMM of a paused sandbox. */
  readonly endVm: () => Promise<void>;
};

/**
 * Saves a sandbox for forks or a move alone, under a hidden name, which the next daemon removes after a crash. One that
 * is paused with its memory stays paused. Rejects as `takeSnapshot` does.
 */
export async function saveTemporarily(
  sandbox: Sandbox,
  { context, admission, endVm }: SaveTemporarilyDeps,
  signal: AbortSignal,
): Promise<SavedGuest> {
  const root = snapshotsRoot(context.directories.dataDir);
  const dir = unfinishedDir(root, newId('snap'));
  const save = async (): Promise<SavedGuest> => {
    await mkdir(root, { recursive: true, mode: 0o700 });
    const { paused, options, compatibility, kernelDigest } = sandbox.record;
    const manifest = { compatibility, kernelDigest, options: toSavedOptions(sandbox.record) };
    const input = { dir, layerPath: sandbox.paths.layerPath, manifest };
    if (sandbox.state === 'paused' && paused?.hasMemory === true) {
      const diskBytes = options.memoryMib * 2 ** 20 + (await allocatedBytes(input.layerPath));
      using _reservation = await admission.reserve({ memoryMib: [], areCopies: false, diskBytes });
      await endVm();
      const { engines, faults } = context;
      const saved = await copyPaused({ ...input, pausedDir: pausedDir(sandbox.paths.dir), faults, signal });
      const reason = saved.incompatibility(engines.current.compatibility());
      if (reason === undefined) return saved;
      throw new AppError('conflict', `sandbox ${sandbox.id} does not fit the engine any more: ${reason}`);
    }
    return await saveRunning(sandbox, admission, signal, async () => {
      const { vm, guest } = sandbox.awake;
      const { saved } = await saveGuest({ ...input, vm, guest, isTemporary: true, signal });
      sandbox.assertAlive();
      return saved;
    });
  };
  const saved = await sandbox.snapshotQueue.add(() =>
    save().catch(async (error) => {
      await removeSaved(dir).catch(() => undefined);
      throw error;
    }),
  );
  return saved;
}

async function saveRunning<T>(
  sandbox: Sandbox,
  admission: Pick<Admission, 'reserve'>,
  signal: AbortSignal,
  save: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  sandbox.assertAlive();
  const { record, paths } = sandbox;
  const diskBytes = record.options.memoryMib * 2 ** 20 + (await allocatedBytes(paths.layerPath));
  using _reservation = await admission.reserve({ memoryMib: [], areCopies: false, diskBytes });
  const { awake: running } = sandbox;
  running.isSaving = true;
  try {
    return await save();
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
  /** Hash of the service that runs in it. */
  readonly service?: string | undefined;
};

/** Resolves after the sandbox is removed: nothing may write to its memory file when it is first restored. */
export async function saveAndDestroy(
  { engines, system }: Pick<ResourceContext, 'engines' | 'system'>,
  sandbox: Sandbox,
  { options, owner, service, ...input }: SaveAndDestroyInput,
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
      ...(service !== undefined && { service }),
    },
    staysPaused: true,
  });
  await sandbox.remove();
  return saved;
}
