// Making a sandbox, by booting it or as a copy of a saved guest. Every step puts its undoing on a stack that a failure
// unwinds.
import { copySparse, createWritableLayer, type ResolvedKernel } from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import type { Engines } from '../engines/choice.ts';
import type { Vm } from '../engines/engine.ts';
import { Guest } from '../guest/guest.ts';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import type { Faults } from '../lib/faults.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { LogStore } from '../logs/index.ts';
import type { Table } from '../store/store.ts';
import { asNoSpace } from './admission.ts';
import { makeIdentity } from './identity.ts';
import { type Directories, makeSandboxDirs, removeSandboxDirs, sandboxPaths } from './paths.ts';
import { pinRootfs } from './pin.ts';
import type { SandboxProfile, SandboxRecord } from './record.ts';
import { Sandbox } from './sandbox.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type StartContext = {
  readonly engines: Engines;
  readonly kernel: Pick<ResolvedKernel, 'vmlinuxPath' | 'initramfsPath' | 'digest'>;
  readonly directories: Directories;
  readonly records: Table<SandboxRecord>;
  /** From the VMM's start to the agent's answer. */
  readonly bootTimeoutMs: number;
  readonly faults: Faults;
  /** Absent when this daemon keeps no logs. */
  readonly logs?: LogStore | undefined;
};

export type Origin =
  /** `memoryPath`: keep the guest's memory in this new file. */
  | { readonly kind: 'boot'; readonly memoryPath?: string }
  | { readonly kind: 'saved'; readonly saved: SavedGuest };

export type StartInput = {
  readonly id: string;
  readonly options: ResolvedSandboxOptions;
  readonly profile: SandboxProfile;
  readonly origin: Origin;
  /** The user's snapshot that it comes from. */
  readonly sourceSnapshotId?: string;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/**
 * What it makes is not ready by its record: a crash removes it, until the caller says otherwise. AppError internal or
 * exhausted with the stage and the last log lines; the signal's reason when cancelled.
 */
export async function startSandbox(context: StartContext, input: StartInput): Promise<Sandbox> {
  const { id, options, profile, origin, log, signal } = input;
  const { faults, records } = context;
  const engine = context.engines.current;
  const paths = sandboxPaths(context.directories, id);
  const startedAt = performance.now();
  const times: Record<string, number> = {};
  const mark = (name: string): void => {
    times[name] = Math.round(performance.now() - startedAt);
  };
  let record: SandboxRecord = {
    createdAtMs: Date.now(),
    options,
    profile,
    incarnation: id,
    isReady: false,
    vmm: null,
    compatibility: engine.compatibility(),
    kernelDigest: origin.kind === 'saved' ? origin.saved.manifest.kernelDigest : context.kernel.digest,
    ...(input.sourceSnapshotId !== undefined && { sourceSnapshotId: input.sourceSnapshotId }),
  };
  await using undo = new AsyncDisposableStack();
  let stage = 'record';
  try {
    undo.defer(() => records.remove(id));
    await records.put(id, record);
    faults.reach('start.recorded');
    signal.throwIfAborted();

    stage = 'disk';
    undo.defer(() => removeSandboxDirs(paths));
    await makeSandboxDirs(paths);
    await pinRootfs(paths.dir, profile.rootfsPath);
    faults.reach('start.directories');
    if (origin.kind === 'saved') await copySparse(origin.saved.diskPath, paths.layerPath);
    else await createWritableLayer(context.directories.dataDir, paths.layerPath, options.diskBytes);
    mark('diskMs');
    faults.reach('start.disk');
    signal.throwIfAborted();

    stage = origin.kind === 'saved' ? 'restore' : 'boot';
    using limit = deadline(
      context.bootTimeoutMs,
      () => new AppError('internal', `the guest agent did not answer within ${context.bootTimeoutMs} ms`),
      signal,
    );
    let clock: Pick<Guest, 'stepClock'> | undefined;
    const vmOptions = {
      spec: {
        vcpus: options.vcpus,
        memoryMib: options.memoryMib,
        kernelPath: context.kernel.vmlinuxPath,
        initramfsPath: context.kernel.initramfsPath,
        bootArgs: options.bootArgs,
        disks: [
          { path: profile.rootfsPath, isReadOnly: true },
          { path: paths.layerPath, isReadOnly: false },
        ],
      },
      paths,
      log,
      signal: limit.signal,
      onResumed: () => clock?.stepClock(),
      onSpawn: async (vmm: NonNullable<SandboxRecord['vmm']>) => {
        faults.reach('start.spawned');
        record = { ...record, vmm };
        await records.put(id, record);
        faults.reach('start.spawn-recorded');
      },
    };
    const vm =
      origin.kind === 'saved'
        ? await engine.restore({ ...vmOptions, saved: origin.saved.vm })
        : await engine.boot({
            ...vmOptions,
            ...(origin.memoryPath !== undefined && { memoryPath: origin.memoryPath }),
          });
    undo.defer(() => vm.kill());
    mark('vmMs');
    faults.reach('start.vm');

    stage = 'agent';
    const guest = new Guest({
      source: vm,
      incarnation: record.incarnation,
      log,
      explainLoss: () => explainExit(vm),
    });
    clock = guest;
    undo.defer(() => guest.close(new Error('the sandbox was not made')));
    await greetGuest(vm, guest, input, limit.signal);
    mark('agentMs');
    context.engines.noteGuest(engine);
    faults.reach('start.agent');
    const savedDiskBytes = origin.kind === 'saved' ? origin.saved.manifest.diskBytes : options.diskBytes;
    if (options.diskBytes > savedDiskBytes) {
      stage = 'grow disk';
      await vm.resizeDisk(LAYER_DISK, options.diskBytes);
      await guest.growDisk(limit.signal);
      mark('growMs');
    }
    if (options.service !== undefined) {
      stage = 'service';
      await startService(guest, options.service, profile.env, limit.signal);
      mark('serviceMs');
    }

    undo.defer(() => context.logs?.remove(id));
    const sandboxLog = await context.logs?.open(id);

    faults.reach('start.made');
    signal.throwIfAborted();
    // Its life, and so its timeout, begins when somebody can use it.
    record = { ...record, createdAtMs: Date.now() };
    undo.move();
    mark('totalMs');
    log.info({ ...times, origin: origin.kind }, 'sandbox created');
    return new Sandbox({
      id,
      record,
      paths,
      vm,
      guest,
      records,
      logs: context.logs,
      faults,
      log,
      sandboxLog,
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw describeFailure(error, stage);
  }
}

/** A connection breaks a moment before the end of its VMM is seen. */
const EXIT_WAIT_MS = 300;
/** The same for one that is known to be ending. */
const ENDING_WAIT_MS = 10_000;

/** Index of the writable layer among the disks. */
const LAYER_DISK = 1;

/** Until the guest is who it shall be, before anyone can reach it. */
async function greetGuest(vm: Vm, guest: Guest, input: StartInput, signal: AbortSignal): Promise<void> {
  const { id, origin, log } = input;
  const needsResync = origin.kind === 'saved' && origin.saved.manifest.needsResync;
  try {
    const hello = await raceSignal(
      Promise.race([guest.connect(signal, { needsResync }), failOnExit(vm.exited)]),
      signal,
    );
    await guest.setIdentity(makeIdentity(id), signal);
    log.debug({ agentStartUs: hello.agentStartUs, agentReadyUs: hello.agentReadyUs }, 'agent answered');
  } catch (error) {
    if (input.signal.aborted) throw error;
    // A guest that ends takes its channel with it a moment before its exit is seen.
    const exitReason = await explainExit(vm);
    throw new AppError('internal', `${exitReason ?? toError(error).message}\n${await vm.diagnose()}`, {
      cause: error,
    });
  }
}

/** A program that cannot start is no failure of this; a guest that cannot be told is the daemon's. */
async function startService(
  guest: Guest,
  spec: NonNullable<ResolvedSandboxOptions['service']>,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await guest.service.configure(spec, env, signal);
  } catch (error) {
    throw new AppError('internal', toError(error).message, { cause: error });
  }
}

/** The reason once the VM has ended, undefined when it has not within a moment and does not seem about to. */
export async function explainExit(vm: Pick<Vm, 'exited' | 'isEnding'>): Promise<string | undefined> {
  const reason = await exitWithin(vm, EXIT_WAIT_MS);
  if (reason !== undefined || !(await vm.isEnding())) return reason;
  return exitWithin(vm, ENDING_WAIT_MS);
}

function exitWithin({ exited }: Pick<Vm, 'exited'>, ms: number): Promise<string | undefined> {
  const timeout = new Promise<undefined>((resolve) => setTimeout(resolve, ms, undefined).unref());
  return Promise.race([exited.then(({ reason }) => reason), timeout]);
}

async function failOnExit(exited: Promise<{ readonly reason: string }>): Promise<never> {
  throw new Error((await exited).reason);
}

function describeFailure(error: unknown, stage: string): AppError {
  const noSpace = asNoSpace(error, 'create the sandbox', stage);
  if (noSpace !== undefined) return noSpace;
  const cause = toError(error);
  const code = isAppError(error) ? error.code : 'internal';
  const details = isAppError(error) ? error.details : {};
  return new AppError(code, `cannot create the sandbox (stage ${details.stage ?? stage}): ${cause.message}`, {
    ...details,
    stage: details.stage ?? stage,
    cause,
  });
}
