// Saving a guest: memory and device state of one moment. The guest stands still meanwhile, and then goes on whatever
// happened; a guest that can neither go on nor be trusted is ended.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';
import { everyOne } from '../../lib/wait.ts';
import type { SavedVm, SaveOptions, VmmIdentity } from '../engine.ts';
import { withoutDiskLimits } from '../jail/cgroups.ts';
import { takeBack } from '../jail/jail.ts';
import type { FinishCopy } from '../mapped-copy.ts';
import type { VmmApi } from './api.ts';
import { ApiError, isStillRestoring } from './api-error.ts';
import { beginMappedGuest } from './mapped-guest.ts';
import {
  collectSaved,
  MAX_SAVED_BESIDE_BYTES,
  MEMORY_FILE,
  memoryPathOf,
  SAVED_FILES,
} from './saved-files.ts';
import { knowsSavedState } from './saved-state.ts';
import { Staging } from './staging.ts';

/** The VMM lets its disks finish for up to 30 s. */
const PAUSE_TIMEOUT_MS = 60_000;
const RESUME_TIMEOUT_MS = 60_000;
const SAVE_BASE_MS = 60_000;
const SLOWEST_MIB_PER_S = 50;
const MAX_SAVE_MS = 600_000;
/** A copy whose memory still comes from its source is asked again, longer and longer later. */
const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 2000;
const RETRY_FOR_MS = 120_000;

export type SaveContext = {
  readonly api: VmmApi;
  readonly identity: VmmIdentity;
  readonly log: Logger;
  /** Path of native/claim.c. */
  readonly claimProgram: string;
  /** Ends a VM that was left in a state that nobody knows. */
  readonly giveUp: (reason: string) => Promise<void>;
};

export async function saveVm(
  context: SaveContext,
  options: SaveOptions,
): Promise<SavedVm & { readonly pausedMs: number }> {
  const { identity, claimProgram, giveUp, log } = context;
  const { memoryBytes } = options;
  const giveUpAt = performance.now() + RETRY_FOR_MS;
  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2)) {
    try {
      const finishMemory = await beginMemory(context, options);
      const isMemoryThere = finishMemory !== undefined;
      await using staging = await Staging.open({
        ...{ identity, giveUp, log, names: SAVED_FILES },
        ...{ maxBytes: (isMemoryThere ? 0 : memoryBytes) + MAX_SAVED_BESIDE_BYTES },
        taken: isMemoryThere ? [MEMORY_FILE] : [],
      });
      const from = staging.path;
      const pausedMs = await saveOnce(context, options, from, finishMemory);
      await staging.close();
      const collecting = { from, to: options.dir, memoryBytes, isMemoryThere, claimProgram, log };
      const saved = await collectSaved(collecting);
      if (isMemoryThere) await takeBack(saved.memoryPath);
      else await digHoles(saved.memoryPath, log);
      return { ...saved, pausedMs };
    } catch (error) {
      if (!isStillRestoring(error) || performance.now() >= giveUpAt) throw error;
      await sleep(retryMs);
    }
  }
}

/** Undefined where the memory is the VMM's to write: of a guest that was booted, and of a version that is not known. */
async function beginMemory(
  { api, identity, log }: SaveContext,
  { memoryBytes, dir }: SaveOptions,
): Promise<FinishCopy | undefined> {
  try {
    const { version } = await api.ping({ timeoutMs: PAUSE_TIMEOUT_MS });
    if (!knowsSavedState(version)) return undefined;
    return await beginMappedGuest(identity.pid, memoryBytes, memoryPathOf(dir));
  } catch (err) {
    log.debug({ err: toError(err) }, 'the memory of a copy cannot be read');
    return undefined;
  }
}

/** Gives the time that the guest stood still. */
async function saveOnce(
  context: SaveContext,
  options: SaveOptions,
  staging: string,
  finishMemory: FinishCopy | undefined,
): Promise<number> {
  try {
    await options.beforePause?.();
    return await saveWhilePaused(context, options, staging, finishMemory);
  } finally {
    options.afterPause?.();
  }
}

async function saveWhilePaused(
  context: SaveContext,
  options: SaveOptions,
  staging: string,
  finishMemory: FinishCopy | undefined,
): Promise<number> {
  const { api } = context;
  const pausedAt = performance.now();
  await pause(context);
  let isDone = false;
  try {
    const timeoutMs = Math.min(
      MAX_SAVE_MS,
      SAVE_BASE_MS + (options.memoryBytes / 2 ** 20 / SLOWEST_MIB_PER_S) * 1000,
    );
    // The memory that is written is the host's doing; the guest, whom the limits are for, stands still.
    const body = { destination_url: `file://${staging}` };
    await withoutDiskLimits(context.identity.jail?.cgroup, () =>
      api.put('vm.snapshot', body, { timeoutMs }).catch((error: unknown) => {
        if (finishMemory === undefined || !isMemoryRefused(error)) throw error;
      }),
    );
    // Only now: a refusal must not have cost a copy of the disk.
    await everyOne([finishMemory?.(), options.whilePaused()]);
    isDone = true;
  } finally {
    if (!isDone || options.staysPaused !== true) await resume(context);
  }
  return performance.now() - pausedAt;
}

/**
 * A pause that failed half-way leaves vCPUs standing in a VM that says it runs. Pausing and resuming it once more puts
 * that right; where even that fails the guest is lost.
 */
async function pause(context: SaveContext): Promise<void> {
  const { api } = context;
  const call = { timeoutMs: PAUSE_TIMEOUT_MS };
  try {
    await api.put('vm.pause', undefined, call);
  } catch (error) {
    try {
      if ((await api.info(call)).state === 'Running') await api.put('vm.pause', undefined, call);
    } catch (second) {
      await context.giveUp(`it could not be paused, and not be resumed either: ${toError(second).message}`);
      throw error;
    }
    await resume(context);
    throw error;
  }
}

async function resume({ api, giveUp }: SaveContext): Promise<void> {
  try {
    await api.put('vm.resume', undefined, { timeoutMs: RESUME_TIMEOUT_MS });
  } catch (error) {
    await giveUp(`it could not be resumed after it was saved: ${toError(error).message}`);
    throw error;
  }
}

/**
 * Memory is what the VMM writes last, to a new file. Where one is in its place it stops there, and all else was written: this is
 * how it is had without memory, for which there is no request.
 */
function isMemoryRefused(error: unknown): boolean {
  return error instanceof ApiError && error.says(/memory snapshot file/) && error.says(/File exists/);
}

/** The VMM writes every page. Those of zeros need neither disk nor, in a copy, memory. */
async function digHoles(path: string, log: Logger): Promise<void> {
  try {
    await runProgram('fallocate', ['--dig-holes', '--', path]);
  } catch (err) {
    log.debug({ err: toError(err) }, 'cannot dig holes into a memory file; it stays as long as the memory');
  }
}
