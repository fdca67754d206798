// Starting a VMM process and making it a guest that runs. Whatever fails, nothing is left running.
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { patientDeadline } from '../lib/patience.ts';
import { readBootId } from '../lib/proc.ts';
import { resetScheduling } from '../lib/scheduling.ts';
import { poll, raceSignal } from '../lib/wait.ts';
import { type VmmKind, VmmRefusal } from './control.ts';
import type { BootOptions, GuestMemory, VmmIdentity } from './engine.ts';
import { Vmm } from './vmm.ts';
import { type SpawnOptions, spawnVmm } from './vmm-process.ts';

/** From spawn to the first answer; some 10 to 30 ms on a host that is not loaded. */
const CONTROL_TIMEOUT_MS = 20_000;
const CONNECT_POLL_MS = 2;
/** From the first sign of a VMM's end, a connection that broke, to its end. */
const OWN_END_MS = 250;

export type Launch = SpawnOptions & {
  readonly program: string;
  readonly args: readonly string[];
  readonly memory: GuestMemory;
  /** What is to be done once the VMM answers until the guest runs; absent: nothing. */
  readonly run?: () => Promise<void>;
};

export async function startVmm(kind: VmmKind, options: BootOptions, launch: Launch): Promise<Vmm> {
  const { paths, signal } = options;
  const { program, args, memory, run, ...spawnOptions } = launch;
  signal?.throwIfAborted();
  const process = await spawnVmm(program, args, kind.filesOf(paths).logPath, spawnOptions);
  const identity: VmmIdentity = {
    engine: kind.name,
    pid: process.pid,
    startTicks: process.startTicks,
    bootId: readBootId(),
    paths,
    memory,
  };
  const vm = new Vmm(kind, identity, process, { ...options, isAdopted: false });
  try {
    await Promise.all([options.onSpawn?.(identity), reach(vm, signal)]);
    // It began as what the daemon is.
    void resetScheduling(process.pid, kind.unbatched);
    await run?.();
    signal?.throwIfAborted();
    const watched = vm.control.watch();
    await (signal === undefined ? watched : raceSignal(watched, signal));
    if (vm.exit !== undefined) throw new Error(vm.exit.reason);
    return vm;
  } catch (error) {
    throw await abandon(vm, error, options);
  }
}

/** Waits for its control socket, but no longer than for its end. */
async function reach(vm: Vmm, outer?: AbortSignal): Promise<void> {
  using limit = patientDeadline({
    timeoutMs: CONTROL_TIMEOUT_MS,
    reason: (waitedMs) =>
      new AppError('internal', `the VMM did not answer on its control socket within ${waitedMs} ms`),
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

/** Gives the error to throw: the signal's reason as it is, else an AppError with the stage. */
async function abandon(vm: Vmm, error: unknown, { signal, log }: BootOptions): Promise<unknown> {
  const isCancelled = signal?.aborted === true;
  const cause = toError(error);
  const isAnswered = isAppError(error) || error instanceof VmmRefusal;
  // A connection that broke may be the first sign of the VMM's own end, which says more.
  if (!isCancelled && !isAnswered)
    await raceSignal(vm.exited, AbortSignal.timeout(OWN_END_MS)).catch(() => undefined);
  await vm.kill();
  const own = vm.endedByItself && !isAppError(error) ? vm.exit?.reason : undefined;
  const what = own === undefined || own === cause.message ? cause.message : `${own}: ${cause.message}`;
  const failure = new AppError('internal', `the VMM did not start: ${what}`, { stage: 'spawn', cause });
  // Its files go with it.
  const line = { reason: isCancelled ? cause.message : failure.message, diagnosis: await vm.diagnose() };
  log[isCancelled ? 'info' : 'warn'](line, 'a VMM did not start');
  return isCancelled ? error : failure;
}
