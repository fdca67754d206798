// Finds out whether guests run here by running one: KVM counts when the kernel prints its first line.
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import type { EngineContext, EngineProbe, VmPaths } from '../engine.ts';
import { tryFirstLine } from '../first-line.ts';
import { VmmApi } from './api.ts';
import { bootVm } from './boot.ts';
import { VMM_NAME, vmmFiles } from './files.ts';
import { landlockObstacle } from './landlock.ts';
import { findLauncher } from './launcher.ts';
import type { MemoryModes } from './memory-modes.ts';
import type { VmmSetup } from './start.ts';
import { findProgram, readVersion } from './version.ts';

/** Well under a second where KVM works; where it only seems to, the VMM fails or hangs at once. */
const FIRST_LINE_TIMEOUT_MS = 10_000;
const CALL_TIMEOUT_MS = 10_000;

export type Probed = { readonly setup: VmmSetup; readonly version: string };

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
  const { prefix: launcher, obstacle: privileged } = await findLauncher();
  let setup: VmmSetup = { program, launcher, hasLandlock: noLandlock === undefined };
  const tryGuest = () =>
    tryFirstLine({
      context,
      timeoutMs: FIRST_LINE_TIMEOUT_MS,
      boot: (options) => bootVm(options, setup),
      consolePath: (paths) => vmmFiles(paths).consolePath,
      learn,
      signal,
    });
  let failure = await tryGuest();
  if (setup.hasLandlock && failure !== undefined && /landlock/i.test(failure)) {
    noLandlock = failure.split('\n', 1)[0];
    setup = { ...setup, hasLandlock: false };
    failure = await tryGuest();
  }
  if (failure !== undefined) {
    const hasKvm = await access('/dev/kvm', constants.R_OK | constants.W_OK).then(
      () => true,
      () => false,
    );
    return unusable(
      `no guest starts: ${hasKvm ? '' : '/dev/kvm is not there or not accessible; '}${failure}`,
    );
  }
  if (modes.obstacle !== undefined) return unusable(modes.obstacle);
  const confined = [
    noLandlock === undefined ? 'Landlock on' : `no Landlock: ${noLandlock}`,
    privileged === undefined ? 'no capabilities' : `the daemon’s capabilities: ${privileged}`,
  ].join(', ');
  const detail = `hardware virtualisation (KVM); ${modes.describe()}; ${confined}`;
  return {
    result: { isUsable: true, version: found.version, detail, isIsolating: true },
    probed: { setup, version: found.version },
  };
}

/** A VMM that has a VM refuses to restore another, but reads the request first. */
async function learnModes(
  paths: VmPaths,
  version: string,
  modes: MemoryModes,
  signal: AbortSignal,
): Promise<void> {
  const { apiSocketPath, startDir } = vmmFiles(paths);
  const api = new VmmApi(apiSocketPath);
  await modes.learn(version, (mode) =>
    api.put(
      'vm.restore',
      { source_url: `file://${startDir}`, memory_restore_mode: mode, resume: false },
      { timeoutMs: CALL_TIMEOUT_MS, signal },
    ),
  );
}
