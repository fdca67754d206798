// Saves a guest: memory and device state of one moment. The guest is paused meanwhile and then resumed in any case. A
// guest that can neither be resumed nor trusted is ended.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';
import { everyOne } from '../../lib/wait.ts';
import type { SaveOptions, VmmIdentity, WrittenVm } from '../engine.ts';
import { withoutDiskLimits } from '../jail/cgroups.ts';
import { takeBack } from '../jail/jail.ts';
import { type FinishCopy, mapsFile } from '../mapping.ts';
import { ApiError, isStillRestoring, type VmmApi } from './api.ts';
import { beginBootedGuest, beginBootedLog, beginMappedGuest, beginMappedLog } from './mapped-memory.ts';
import {
  collectSaved,
  MAX_SAVED_BESIDE_BYTES,
  MEMORY_FILE,
  memoryPathOf,
  SAVED_FILES,
} from './saved-files.ts';
import { knowsSavedState } from './saved-state.ts';
import { Staging } from './staging.ts';

/** The VMM waits up to 30 s for its disks to finish. */
const PAUSE_TIMEOUT_MS = 60_000;
const RESUME_TIMEOUT_MS = 60_000;
const SAVE_BASE_MS = 60_000;
const SLOWEST_MIB_PER_S = 50;
const MAX_SAVE_MS = 600_000;
/** Exponential backoff for a fork whose memory is still being loaded from its source. */
const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 2000;
const RETRY_FOR_MS = 120_000;

type SaveContext = {
  readonly api: VmmApi;
  readonly identity: VmmIdentity;
  readonly log: Logger;
  /** Path of native/claim.c. */
  readonly claimProgram: string;
  /** Ends a VM whose state is unknown. */
  readonly terminate: (reason: string) => Promise<void>;
};

export async function saveVm(context: SaveContext, options: SaveOptions): Promise<WrittenVm> {
  const { identity, claimProgram, terminate, log } = context;
  const { memoryBytes } = options;
  const deadlineMs = performance.now() + RETRY_FOR_MS;
  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(LONGEST_RETRY_MS, retryMs * 2)) {
    try {
      const memory = await beginMemory(context, options);
      const isMemoryThere = memory !== undefined;
      await using staging = await Staging.open({
        ...{ identity, terminate, log, names: SAVED_FILES },
        ...{ maxBytes: (isMemoryThere ? 0 : memoryBytes) + MAX_SAVED_BESIDE_BYTES },
        reserved: isMemoryThere ? [MEMORY_FILE] : [],
      });
      const from = staging.path;
      const collect = async (pausedMs: number): Promise<WrittenVm> => {
        await staging.close();
        const there = memory && { memoryPath: memory.memoryPath };
        const collecting = { from, to: options.dir, memoryBytes, ...there, claimProgram, log };
        const saved = await collectSaved(collecting);
        if (memory === undefined) await digHoles(saved.memoryPath, log);
        else if (memory.changesPath === undefined) await takeBack(saved.memoryPath);
        const { changesPath } = memory ?? {};
        return { ...saved, pausedMs, ...(changesPath !== undefined && { changesPath }) };
      };
      return await saveOnce(context, options, { staging: from, memory, collect });
    } catch (error) {
      if (!isStillRestoring(error) || performance.now() >= deadlineMs) throw error;
      await sleep(retryMs);
    }
  }
}

type Memory = Pick<WrittenVm, 'memoryPath' | 'changesPath'> & { readonly finish: FinishCopy };

type SaveSteps = {
  readonly staging: string;
  /** Undefined: the VMM writes it. */
  readonly memory: Memory | undefined;
  /** Takes over what the VMM wrote. */
  readonly collect: (pausedMs: number) => Promise<WrittenVm>;
};

/** Undefined if the VMM must write the memory: for a large guest that was booted, or an unknown version. */
async function beginMemory(
  { api, identity, log }: SaveContext,
  { memoryBytes, dir, base, since }: SaveOptions,
): Promise<Memory | undefined> {
  try {
    const { version } = await api.ping({ timeoutMs: PAUSE_TIMEOUT_MS });
    if (!knowsSavedState(version)) return undefined;
    const { pid, memory } = identity;
    const isBooted = memory.kind === 'anonymous' && memory.isBooted === true;
    const known = since ?? ((await mapsFile(memory, base ?? '')) ? base : undefined);
    if (known !== undefined) {
      const changesPath = join(dir, 'changes');
      const beginLog = isBooted ? beginBootedLog : beginMappedLog;
      const finish = await beginLog(pid, {
        ...{ memoryBytes, base: known, target: changesPath, isCached: since !== undefined },
      });
      if (finish !== undefined) return { memoryPath: known, changesPath, finish };
    }
    const memoryPath = memoryPathOf(dir);
    const begin = isBooted ? beginBootedGuest : beginMappedGuest;
    const finish = await begin(pid, memoryBytes, memoryPath);
    return finish && { memoryPath, finish };
  } catch (err) {
    log.debug({ err: toError(err) }, 'the memory of a guest cannot be read, the VMM writes it');
    return undefined;
  }
}

async function saveOnce(context: SaveContext, options: SaveOptions, steps: SaveSteps): Promise<WrittenVm> {
  let pausedMs = 0;
  let written: WrittenVm | undefined;
  try {
    await options.beforePause?.();
    const pausedAt = performance.now();
    written = await saveWhilePaused(context, options, steps, pausedAt);
    pausedMs = performance.now() - pausedAt;
  } finally {
    options.afterPause?.();
  }
  return written ?? (await steps.collect(pausedMs));
}

/** Undefined if the files remain to be collected. */
async function saveWhilePaused(
  context: SaveContext,
  options: SaveOptions,
  { staging, memory, collect }: SaveSteps,
  pausedAt: number,
): Promise<WrittenVm | undefined> {
  const { api } = context;
  await pause(context);
  let isDone = false;
  let written: WrittenVm | undefined;
  try {
    const timeoutMs = Math.min(
      MAX_SAVE_MS,
      SAVE_BASE_MS + (options.memoryBytes / 2 ** 20 / SLOWEST_MIB_PER_S) * 1000,
    );
    // The limits are for the guest, which is paused; the memory is written for the host.
    const body = { destination_url: `file://${staging}` };
    await withoutDiskLimits(context.identity.jail?.cgroup, () =>
      api.put('vm.snapshot', body, { timeoutMs }).catch((error: unknown) => {
        if (memory === undefined || !isMemoryRefused(error)) throw error;
      }),
    );
    // After the VMM has accepted: a refusal must not have cost a copy of the disk.
    await everyOne([memory?.finish(), options.whilePaused()]);
    if (options.staysPaused) {
      // The kernel takes the pages of a VMM that it kills for its memory while they are read as absent. An answer to a
      // request says that it was not killed before; one that goes on answers to its resume.
      if (memory !== undefined) await api.ping({ timeoutMs: PAUSE_TIMEOUT_MS });
      written = await collect(performance.now() - pausedAt);
      await options.commit?.(written);
    }
    isDone = true;
  } finally {
    if (!isDone || options.staysPaused !== true) await resume(context);
  }
  return written;
}

/**
 * A failed pause can leave vCPUs stopped in a VM that reports Running. One more pause and resume repairs that; if it
 * fails as well, the VM is ended.
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
      await context.terminate(
        `it could not be paused, and not be resumed either: ${toError(second).message}`,
      );
      throw error;
    }
    await resume(context);
    throw error;
  }
}

async function resume({ api, terminate }: SaveContext): Promise<void> {
  try {
    await api.put('vm.resume', undefined, { timeoutMs: RESUME_TIMEOUT_MS });
  } catch (error) {
    await terminate(`it could not be resumed after it was saved: ${toError(error).message}`);
    throw error;
  }
}

/**
 * The VMM writes the memory last, to a new file. If that file exists already, it stops there, and everything else is
 * written. No request saves without memory, so this is used instead.
 */
function isMemoryRefused(error: unknown): boolean {
  return error instanceof ApiError && error.says(/memory snapshot file/) && error.says(/File exists/);
}

/** The VMM writes every page. Pages of zeros need no disk space, and no memory in a fork. */
async function digHoles(path: string, log: Logger): Promise<void> {
  try {
    await runProgram('fallocate', ['--dig-holes', '--', path]);
  } catch (err) {
    log.debug({ err: toError(err) }, 'cannot make a memory file sparse, it keeps its full size');
  }
}
