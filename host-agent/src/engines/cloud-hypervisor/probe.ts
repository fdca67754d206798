// Finds out whether guests run on this host, by running one.
import { readFileSync } from 'node:fs';
import { release } from 'node:os';
import { z } from 'zod';
import { errnoOf, toError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';
import type { EngineContext, EngineProbe, UsableEngine, VmPaths } from '../engine.ts';
import { findProgram, kvmObstacle, readKvmFacts, readProgramFacts } from '../host-facts.ts';
import { tryGuest } from '../trial.ts';
import { VmmApi } from './api.ts';
import { cloudHypervisor } from './control.ts';
import { VMM_NAME, vmmFiles } from './files.ts';
import { type MemoryModes, refusalSchema } from './memory-modes.ts';
import { restoreVm } from './restore.ts';
import { knowsSavedState } from './saved-state.ts';
import { bootVm, type VmmSetup } from './start.ts';

const CALL_TIMEOUT_MS = 10_000;

export type Probed = { readonly setup: VmmSetup; readonly version: string };

const memoSchema = z.object({
  hasLandlock: z.boolean(),
  refusedModes: z.array(refusalSchema),
});

export async function probeHost(
  context: EngineContext,
  modes: MemoryModes,
  signal?: AbortSignal,
): Promise<{ readonly result: EngineProbe; readonly probed?: Probed }> {
  const unusable = (reason: string) => ({ result: { isUsable: false, reason } as const });
  const program = findProgram(context.program ?? VMM_NAME);
  const found = await readVersion(program);
  if (!found.isUsable) return unusable(found.reason);
  const learn = (paths: VmPaths, limit: AbortSignal) => learnModes(paths, found.version, modes, limit);
  let noLandlock = landlockObstacle();
  const { jail } = context;
  const kind = cloudHypervisor(context.claimProgram);
  const knowsState = knowsSavedState(found.version);
  let setup: VmmSetup = { kind, program, jail, hasLandlock: noLandlock === undefined, knowsState };
  const tryOut = () =>
    tryGuest({
      context,
      boot: (options) => bootVm(options, setup),
      restore: (options) => restoreVm(options, setup, modes),
      consolePath: (paths) => vmmFiles(paths).consolePath,
      learn,
      signal,
    });
  let failure = await tryOut();
  if (setup.hasLandlock && failure !== undefined && /landlock/i.test(failure)) {
    noLandlock = failure;
    setup = { ...setup, hasLandlock: false };
    failure = await tryOut();
  }
  if (modes.obstacle !== undefined) return unusable(modes.obstacle);
  if (failure !== undefined) {
    const obstacle = await kvmObstacle(context.kvmPath);
    return unusable(obstacle === undefined ? failure : `${obstacle}; ${failure}`);
  }
  const confined = noLandlock === undefined ? 'Landlock on' : `no Landlock: ${noLandlock}`;
  const detail = `hardware virtualisation (KVM); ${modes.describe()}; ${confined}`;
  const { version } = found;
  const memo: z.infer<typeof memoSchema> = {
    hasLandlock: setup.hasLandlock,
    refusedModes: [...modes.refused],
  };
  return {
    result: { isUsable: true, version, detail, memo: JSON.stringify(memo) },
    probed: { setup, version },
  };
}

/** Restores the result of an earlier probe. Throws if it cannot be read. */
export function recallHost(
  context: EngineContext,
  modes: MemoryModes,
  { version, memo = '' }: UsableEngine,
): Probed {
  const { hasLandlock, refusedModes } = memoSchema.parse(JSON.parse(memo));
  modes.recall(refusedModes);
  const program = findProgram(context.program ?? VMM_NAME);
  const kind = cloudHypervisor(context.claimProgram);
  const knowsState = knowsSavedState(version);
  return { setup: { kind, program, jail: context.jail, hasLandlock, knowsState }, version };
}

export async function readFingerprint(context: EngineContext): Promise<Readonly<Record<string, string>>> {
  const { program = VMM_NAME, kvmPath, forkMemory } = context;
  const found = await readVersion(findProgram(program));
  const version = found.isUsable ? found.version : found.reason;
  return { ...(await readProgramFacts(program)), version, device: await readKvmFacts(kvmPath), forkMemory };
}

/** A VMM that already has a VM refuses a restore, but only after it has parsed the request. */
async function learnModes(
  paths: VmPaths,
  version: string,
  modes: MemoryModes,
  signal: AbortSignal,
): Promise<void> {
  const { controlSocketPath, startDir } = vmmFiles(paths);
  const api = new VmmApi(controlSocketPath);
  await modes.learn(version, (mode) =>
    api.put(
      'vm.restore',
      { source_url: `file://${startDir}`, memory_restore_mode: mode, resume: false },
      { timeoutMs: CALL_TIMEOUT_MS, signal },
    ),
  );
}

/** The VMM requires Landlock ABI version 3. */
const FIRST_KERNEL = [6, 2] as const;

/** The reason why it cannot; undefined if it can, or if only an attempt would show it. */
export function landlockObstacle(
  kernel: string = release(),
  listModules: () => string | undefined = readModules,
): string | undefined {
  const [major = 0, minor = 0] = kernel.split('.').map(Number);
  if (major < FIRST_KERNEL[0] || (major === FIRST_KERNEL[0] && minor < FIRST_KERNEL[1])) {
    return `kernel ${kernel} is older than ${FIRST_KERNEL.join('.')}`;
  }
  const modules = listModules();
  return modules === undefined || modules.trim().split(',').includes('landlock')
    ? undefined
    : 'landlock is not among the security modules of this kernel';
}

function readModules(): string | undefined {
  try {
    return readFileSync('/sys/kernel/security/lsm', 'latin1');
  } catch {
    return undefined;
  }
}

/** The first version that drains its disks before a snapshot and refuses an incomplete snapshot. */
const OLDEST_MAJOR = 53;
const TIMEOUT_MS = 10_000;

type ProgramVersion =
  | { readonly isUsable: true; readonly version: string }
  | { readonly isUsable: false; readonly reason: string };

export async function readVersion(program: string): Promise<ProgramVersion> {
  try {
    const { stdout } = await runProgram(program, ['--version'], { timeout: TIMEOUT_MS });
    return judgeVersion(program, stdout);
  } catch (error) {
    const reason =
      errnoOf(error) === 'ENOENT'
        ? `${program} is not installed; docs/install.md says how to get it`
        : `${program} does not run: ${toError(error).message.trim()}`;
    return { isUsable: false, reason };
  }
}

/** Parses the output of `--version`; only its first line is about the program. */
export function judgeVersion(program: string, text: string): ProgramVersion {
  const line = text.split('\n', 1)[0] ?? '';
  const match = /\bv?((\d+)\.\d\S*)/.exec(line);
  if (match === null) return { isUsable: false, reason: `${program} tells no version: ${line.slice(0, 80)}` };
  const [, version = '', major] = match;
  if (Number(major) < OLDEST_MAJOR) {
    return {
      isUsable: false,
      reason: `${program} is version ${version}; at least ${OLDEST_MAJOR}.0 is needed`,
    };
  }
  return { isUsable: true, version };
}
