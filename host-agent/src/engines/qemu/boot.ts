// Starting a VM, from its kernel or from saved state. Whatever fails, nothing is left running.
import { open } from 'node:fs/promises';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { patientDeadline } from '../../lib/patience.ts';
import { readBootId } from '../../lib/proc.ts';
import { resetScheduling } from '../../lib/scheduling.ts';
import { connectUnix } from '../../lib/socket-link.ts';
import { poll, raceSignal } from '../../lib/wait.ts';
import type {
  BootOptions,
  ColdBootOptions,
  GuestMemory,
  RestoreOptions,
  Vm,
  VmmIdentity,
} from '../engine.ts';
import { INHERITED_FD, spawnVmm } from '../vmm-process.ts';
import { type Accelerator, buildQemuArgs } from './args.ts';
import { qemuFiles } from './files.ts';
import { QmpClient } from './qmp.ts';
import { QemuVm } from './vm.ts';

export const QEMU_PROGRAM = 'qemu-system-x86_64';
const CONTROL_TIMEOUT_MS = 20_000;
/** QEMU listens some 30 ms after its start. */
const CONNECT_POLL_MS = 2;
/** From the first sign of a VMM's end, a connection that broke, to its end. */
const OWN_END_MS = 250;

/** What was found to work on this host. */
export type QemuSetup = { readonly program: string; readonly accelerator: Accelerator };

export function bootQemu(options: ColdBootOptions, setup: QemuSetup): Promise<Vm> {
  const memory: GuestMemory =
    options.memoryPath === undefined ? { kind: 'anonymous' } : { kind: 'file', path: options.memoryPath };
  return startQemu(options, setup, memory);
}

export async function restoreQemu(options: RestoreOptions, setup: QemuSetup): Promise<Vm> {
  const { memoryPath, statePath } = options.saved;
  await using state = await open(statePath, 'r');
  return await startQemu(options, setup, { kind: 'copy-on-write', path: memoryPath }, state.fd);
}

async function startQemu(
  options: BootOptions,
  { program, accelerator }: QemuSetup,
  memory: GuestMemory,
  stateFd?: number,
): Promise<Vm> {
  options.signal?.throwIfAborted();
  const files = qemuFiles(options.paths);
  const args = buildQemuArgs({
    spec: options.spec,
    accelerator,
    memory,
    ...(stateFd !== undefined && { incomingFd: INHERITED_FD }),
    ...files,
  });
  const process = await spawnVmm(program, args, files.logPath, {
    inheritedFd: stateFd,
    argv0: QEMU_PROGRAM,
  });
  const identity: VmmIdentity = {
    engine: 'qemu',
    pid: process.pid,
    startTicks: process.startTicks,
    bootId: readBootId(),
    paths: options.paths,
    memory,
  };
  const { log, onResumed, onStandstill } = options;
  const vm = new QemuVm({ identity, process, files, log, onResumed, onStandstill, hasHistory: false });
  try {
    await Promise.all([options.onSpawn?.(identity), connectControl(vm, files.qmpSocketPath, options.signal)]);
    // The threads of its CPUs exist, and stay batch threads: a guest that wakes up does not preempt what serves it.
    void resetScheduling(process.pid, 'first-thread');
    return vm;
  } catch (error) {
    // A connection that broke may be the first sign of the VMM's own end, which says more.
    if (options.signal?.aborted !== true)
      await raceSignal(vm.exited, AbortSignal.timeout(OWN_END_MS)).catch(() => undefined);
    await vm.kill();
    const cause = toError(error);
    const isCancelled = options.signal?.aborted === true;
    const isOwnEnd = vm.exit !== undefined && !isAppError(error) && !isCancelled;
    const what = isOwnEnd ? vm.exit.reason : cause.message;
    // Its files go with it.
    const line = { reason: what, diagnosis: await vm.diagnose() };
    log[isCancelled ? 'info' : 'warn'](line, 'a VMM did not start');
    if (isCancelled) throw error;
    throw new AppError('internal', `the VMM did not start: ${what}`, { stage: 'spawn', cause });
  }
}

/**
 * Opens the control connection as soon as the VMM listens; gives up when it ends first, or its guest is over already: what
 * happened before there was a connection was told to nobody. Gives the guest's state.
 */
export async function connectControl(vm: QemuVm, socketPath: string, outer?: AbortSignal): Promise<string> {
  using limit = patientDeadline({
    timeoutMs: CONTROL_TIMEOUT_MS,
    reason: (waitedMs) =>
      new AppError('internal', `the VMM did not answer on its control socket within ${waitedMs} ms`),
    outer,
  });
  const socket = await poll(
    async () => {
      if (vm.exit !== undefined) throw new Error(vm.exit.reason);
      return connectUnix(socketPath, limit.signal).catch(() => undefined);
    },
    CONNECT_POLL_MS,
    limit.signal,
  );
  vm.attachQmp(await QmpClient.open(socket, (event) => vm.onQmpEvent(event), limit.signal));
  const status = await raceSignal(vm.checkState(), limit.signal);
  if (vm.exit !== undefined) throw new Error(vm.exit.reason);
  return status;
}
