// Starts a VMM process and the guest in it. After any failure nothing is left running.
import { stat } from 'node:fs/promises';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { loadScaledTimeout } from '../lib/load-scaled-timeout.ts';
import { describeThreads, readBootId } from '../lib/proc.ts';
import { noteProcess, removeProcessRecord, writeProcessRecord } from '../lib/process-record.ts';
import { resetScheduling } from '../lib/scheduling.ts';
import { poll, raceSignal } from '../lib/wait.ts';
import { type VmmKind, VmmRefusal } from './control.ts';
import type { BootOptions, GuestMemory, VmmIdentity } from './engine.ts';
import {
  type CellOptions,
  type Jail,
  type JailIdentity,
  leaveJail,
  takeBack,
  type View,
} from './jail/jail.ts';
import { Vmm } from './vmm.ts';
import { FIRST_INHERITED_FD, spawnVmm, type VmmProcess, vmmRecordPath } from './vmm-process.ts';

/** From spawn to the first answer; some 10 to 30 ms on an idle host. */
const CONTROL_TIMEOUT_MS = 20_000;
const CONNECT_POLL_MS = 4;
/** Executes a program in a network namespace. */
const NSENTER = 'nsenter';
/** From the first sign of a VMM's end (a broken connection) to its exit. */
const OWN_END_MS = 250;

export type Launch = {
  /** Absolute path. */
  readonly program: string;
  /** argv[0] of the process. */
  readonly argv0: string;
  readonly args: readonly string[];
  /** Become descriptors FIRST_INHERITED_FD and up, in this order. */
  readonly inheritedFds?: readonly number[];
  /** Absent: it runs as the daemon's user. */
  readonly jail?: Jail | undefined;
  /** What it finds in its jail. It may write in its own directories only until the guest runs. */
  readonly view: View;
  readonly memory: GuestMemory;
  /** Runs after the VMM's first answer and makes the guest run; absent: nothing to do. */
  readonly run?: (vm: Vmm) => Promise<void>;
  /** Once `run` has resolved, the signal is ignored: what the guest was saved as is used up. */
  readonly isFinal?: boolean;
};

export async function startVmm(kind: VmmKind, options: BootOptions, launch: Launch): Promise<Vmm> {
  const { paths } = options;
  const { memory, view, run, isFinal } = launch;
  let { signal } = options;
  signal?.throwIfAborted();
  const { process, jail: own } = await spawn(kind, options, launch);
  const identity: VmmIdentity = {
    engine: kind.name,
    pid: process.pid,
    startTicks: process.startTicks,
    bootId: readBootId(),
    paths,
    memory,
    ...(own !== undefined && { jail: own }),
  };
  const vm = new Vmm(kind, identity, process, { ...options, isAdopted: false });
  try {
    await Promise.all([options.onSpawn?.(identity), reach(vm, signal)]);
    // The VMM inherited the daemon's scheduling.
    resetScheduling(process.pid, kind.unbatched);
    await run?.(vm);
    if (isFinal) signal = undefined;
    signal?.throwIfAborted();
    const watched = vm.control.watch();
    await (signal === undefined ? watched : raceSignal(watched, signal));
    if (vm.exit !== undefined) throw new Error(vm.exit.reason);
    if (identity.jail !== undefined) await close(view);
    return vm;
  } catch (error) {
    throw await abandon(vm, error, options);
  }
}

/** Whether its writable disks bypass the host's page cache. */
export function isDirect({ isTrial }: Pick<BootOptions, 'isTrial'>, jail: Jail | undefined): boolean {
  return isTrial !== true && (jail?.needsDirectWrites ?? false);
}

/** Starts the process, in its jail if there is one. If that fails, its record is removed. */
async function spawn(
  kind: VmmKind,
  options: BootOptions,
  launch: Launch,
): Promise<{ readonly process: VmmProcess; readonly jail?: JailIdentity }> {
  const { logPath } = kind.filesOf(options.paths);
  const record = vmmRecordPath(options.paths);
  const { inheritedFds = [], jail } = launch;
  const cell = jail && (await jail.enter(await cellOptions(options, launch)));
  const command: Command = cell ?? withoutJail(options, launch);
  let process: VmmProcess | undefined;
  try {
    writeProcessRecord(record, { what: kind.name, uid: cell?.uid });
    process = await spawnVmm(command.program, command.args, logPath, {
      inheritedFds,
      ...(command.argv0 !== undefined && { argv0: command.argv0 }),
    });
    noteProcess(record, process);
    if (cell === undefined) return { process };
    await jail?.confirm(cell, process);
    const { uid, cgroup } = cell;
    return { process, jail: { uid, ...(cgroup !== undefined && { cgroup }) } };
  } catch (error) {
    process?.signal('SIGKILL');
    await process?.ended;
    removeProcessRecord(record);
    if (cell !== undefined) await leaveJail(cell);
    throw error;
  }
}

type Command = { readonly program: string; readonly args: readonly string[]; readonly argv0?: string };

function withoutJail({ spec }: BootOptions, { program, argv0, args }: Launch): Command {
  const { namespace } = spec.net ?? {};
  if (namespace === undefined) return { program, args, argv0 };
  return { program: NSENTER, args: [`--net=${namespace}`, '--', program, ...args] };
}

async function cellOptions(options: BootOptions, launch: Launch): Promise<CellOptions> {
  const { vcpus, memoryMib, net } = options.spec;
  const { program, argv0, args, view, inheritedFds = [] } = launch;
  const maxFileBytes = await largestFile(options);
  const descriptors = FIRST_INHERITED_FD + inheritedFds.length;
  const { namespace } = net ?? {};
  return { program, argv0, args, view, namespace, vcpus, memoryMib, maxFileBytes, descriptors };
}

/** The largest file it may write: a disk, or the guest's memory when it is saved. */
async function largestFile({ spec, diskBytes = 0 }: BootOptions): Promise<number> {
  const disks = spec.disks.filter(({ isReadOnly }) => !isReadOnly);
  const sizes = await Promise.all(disks.map(async ({ path }) => (await stat(path)).size));
  return Math.max(diskBytes, spec.memoryMib * 2 ** 20, ...sizes);
}

/** The VMM has created all of its files: its directories become read-only for it. */
async function close({ writes }: View): Promise<void> {
  for (const path of writes)
    if ((await stat(path).catch(() => undefined))?.isDirectory() === true) await takeBack(path);
}

/** Waits for the VMM's control socket, or for its exit. */
async function reach(vm: Vmm, outer?: AbortSignal): Promise<void> {
  using limit = loadScaledTimeout({
    timeoutMs: CONTROL_TIMEOUT_MS,
    reason: (waitedMs) =>
      new AppError(
        'internal',
        `the VMM did not answer on its control socket within ${waitedMs} ms (threads: ${describeThreads(vm.identity.pid)})`,
      ),
    outer,
  });
  await poll(
    async () => {
      if (vm.exit !== undefined) throw new Error(vm.exit.reason);
      return (await vm.control.connect(limit.signal)) || undefined;
    },
    CONNECT_POLL_MS,
    limit.signal,
  );
}

/** Cleans up and returns the error to throw: the signal's reason as it is, else an AppError with the stage. */
async function abandon(vm: Vmm, error: unknown, { signal, log }: BootOptions): Promise<unknown> {
  const isCancelled = signal?.aborted === true;
  const cause = toError(error);
  const isAnswered = isAppError(error) || error instanceof VmmRefusal;
  // A broken connection may be the first sign of the VMM's exit, whose reason says more.
  if (!isCancelled && !isAnswered)
    await raceSignal(vm.exited, AbortSignal.timeout(OWN_END_MS)).catch(() => undefined);
  await vm.kill();
  const own = vm.endedByItself && !isAppError(error) ? vm.exit?.reason : undefined;
  const what = own === undefined || own === cause.message ? cause.message : `${own}: ${cause.message}`;
  const failure = new AppError('internal', `the VMM did not start: ${what}`, { stage: 'spawn', cause });
  // Before the files are removed.
  const line = { reason: isCancelled ? cause.message : failure.message, diagnosis: await vm.diagnose() };
  log[isCancelled ? 'info' : 'warn'](line, 'a VMM did not start');
  return isCancelled ? error : failure;
}
