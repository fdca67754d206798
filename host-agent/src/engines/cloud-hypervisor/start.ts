// Starting a VMM process and waiting for its control socket. Whatever fails, nothing is left running.
import { mkdir, rename, rm, symlink } from 'node:fs/promises';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { patientDeadline } from '../../lib/patience.ts';
import { readBootId } from '../../lib/proc.ts';
import { resetScheduling } from '../../lib/scheduling.ts';
import { poll } from '../../lib/wait.ts';
import type { BootOptions, VmmIdentity } from '../engine.ts';
import { spawnVmm } from '../vmm-process.ts';
import { VmmApi } from './api.ts';
import { leftSockets, VMM_NAME, type VmmFiles, vmmArguments, vmmFiles } from './files.ts';
import { CloudHypervisorVm } from './vm.ts';

/** From spawn to the first answer; some 10 ms on a host that is not loaded. */
const CONTROL_TIMEOUT_MS = 20_000;
const CONNECT_POLL_MS = 3;

/** What was found to work on this host. */
export type VmmSetup = {
  /** Absolute path. */
  readonly program: string;
  /** Command that the program is an argument of; may be empty. */
  readonly launcher: readonly string[];
  readonly hasLandlock: boolean;
};

export type StartStep = (vm: CloudHypervisorVm, api: VmmApi, files: VmmFiles) => Promise<void>;

/** Starts a VMM without a VM, then has `prepare` and `run` make it one that runs. */
export async function startVmm(
  options: BootOptions,
  { program, launcher }: VmmSetup,
  prepare: (files: VmmFiles) => Promise<void>,
  run: StartStep,
): Promise<CloudHypervisorVm> {
  const { paths, signal, log } = options;
  signal?.throwIfAborted();
  const files = vmmFiles(paths);
  await using undo = new AsyncDisposableStack();
  undo.defer(() => rm(files.startDir, { recursive: true, force: true }));
  await rm(files.startDir, { recursive: true, force: true });
  await mkdir(files.startDir, { mode: 0o700 });
  // A VMM that was killed left them, and the next refuses to replace the guest's.
  for (const path of leftSockets(files)) await rm(path, { force: true });
  await prepare(files);
  await symlink(program, files.startProgramPath);
  const [command = '', ...args] = [...launcher, files.startProgramPath, ...vmmArguments(files)];
  const process = await spawnVmm(command, args, files.logPath);
  const identity: VmmIdentity = {
    engine: VMM_NAME,
    pid: process.pid,
    startTicks: process.startTicks,
    bootId: readBootId(),
    paths,
    memory: { kind: 'anonymous' },
  };
  const api = new VmmApi(files.apiSocketPath);
  const vm = new CloudHypervisorVm({ identity, process, files, api, log });
  try {
    await Promise.all([options.onSpawn?.(identity), waitForApi(vm, api, signal)]);
    void resetScheduling(process.pid, 'all-threads');
    await run(vm, api, files);
    signal?.throwIfAborted();
    await vm.watchEvents();
    if (vm.exit !== undefined) throw new Error(vm.exit.reason);
    return vm;
  } catch (error) {
    await vm.kill();
    const isCancelled = signal?.aborted === true;
    const failure = isCancelled ? toError(error) : describeFailure(vm, error);
    // Its files go with it.
    const line = { reason: failure.message, diagnosis: await vm.diagnose() };
    log[isCancelled ? 'info' : 'warn'](line, 'a VMM did not start');
    if (isCancelled) throw error;
    throw failure;
  }
}

/** The console as the VMM opened it, moved to where it stays: the VMM would empty it when the guest resets itself. */
export async function keepConsole(files: VmmFiles): Promise<void> {
  await rename(files.startConsolePath, files.consolePath);
}

async function waitForApi(vm: CloudHypervisorVm, api: VmmApi, outer?: AbortSignal): Promise<void> {
  using limit = patientDeadline({
    timeoutMs: CONTROL_TIMEOUT_MS,
    reason: (waitedMs) =>
      new AppError('internal', `the VMM did not answer on its control socket within ${waitedMs} ms`),
    outer,
  });
  const ping = await poll(
    async () => {
      if (vm.exit !== undefined) throw new Error(vm.exit.reason);
      const call = { timeoutMs: CONTROL_TIMEOUT_MS, signal: limit.signal };
      return api.ping(call).catch(() => undefined);
    },
    CONNECT_POLL_MS,
    limit.signal,
  );
  if (ping.pid !== vm.identity.pid)
    throw new Error(`process ${ping.pid} answers on the control socket of process ${vm.identity.pid}`);
}

function describeFailure(vm: CloudHypervisorVm, error: unknown): AppError {
  const cause = toError(error);
  // It ended by itself before it was killed: that says more than the connection that broke.
  const reason = vm.endedByItself && !isAppError(error) ? vm.exit?.reason : undefined;
  const what =
    reason === undefined || reason === cause.message ? cause.message : `${reason}: ${cause.message}`;
  return new AppError('internal', `the VMM did not start: ${what}`, { stage: 'spawn', cause });
}
