// Making a sandbox by booting it. Every step puts its undoing on a stack that a failure unwinds.

import { createWritableLayer, type ResolvedKernel } from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import type { Engine } from '../engines/engine.ts';
import { Guest } from '../guest/guest.ts';
import type { Profile } from '../images/profiles.ts';
import { AppError, errnoOf, isAppError, toError } from '../lib/errors.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { LogStore } from '../logs/index.ts';
import type { Table } from '../store/store.ts';
import { makeIdentity } from './identity.ts';
import { type Directories, makeSandboxDirs, removeSandboxDirs, sandboxPaths } from './paths.ts';
import type { SandboxRecord } from './record.ts';
import { Sandbox } from './sandbox.ts';
import type { ResolvedSandboxOptions } from './types.ts';

export type CreateContext = {
  readonly engine: Engine;
  readonly kernel: Pick<ResolvedKernel, 'vmlinuxPath' | 'initramfsPath'>;
  readonly directories: Directories;
  readonly records: Table<SandboxRecord>;
  /** From the VMM's start to the agent's answer. */
  readonly bootTimeoutMs: number;
  /** Absent when this daemon keeps no logs. */
  readonly logs?: LogStore | undefined;
};

export type CreateInput = {
  readonly id: string;
  readonly options: ResolvedSandboxOptions;
  readonly profile: Profile;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** AppError internal or exhausted with the stage and the last log lines; the signal's reason when cancelled. */
export async function createSandbox(context: CreateContext, input: CreateInput): Promise<Sandbox> {
  const { id, options, profile, log, signal } = input;
  const paths = sandboxPaths(context.directories, id);
  const startedAt = performance.now();
  let record: SandboxRecord = {
    createdAtMs: Date.now(),
    options,
    profileDigest: profile.digest,
    incarnation: id,
    isReady: false,
    vmm: null,
  };
  await using undo = new AsyncDisposableStack();
  let stage = 'record';
  try {
    undo.defer(() => context.records.remove(id));
    await context.records.put(id, record);
    signal.throwIfAborted();

    stage = 'disk';
    undo.defer(() => removeSandboxDirs(paths));
    await makeSandboxDirs(paths);
    await createWritableLayer(context.directories.dataDir, paths.layerPath, options.diskBytes);
    const diskMs = performance.now() - startedAt;
    signal.throwIfAborted();

    stage = 'boot';
    using limit = deadline(
      context.bootTimeoutMs,
      () => new AppError('internal', `the guest agent did not answer within ${context.bootTimeoutMs} ms`),
      signal,
    );
    const vm = await context.engine.boot({
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
      onSpawn: async (vmm) => {
        record = { ...record, vmm };
        await context.records.put(id, record);
      },
    });
    undo.defer(() => vm.kill());
    const spawnMs = performance.now() - startedAt;

    stage = 'agent';
    const guest = new Guest({
      source: vm,
      incarnation: record.incarnation,
      log,
      explainLoss: () => explainExit(vm.exited),
    });
    undo.defer(() => guest.close(new Error('the sandbox was not made')));
    try {
      const hello = await raceSignal(
        Promise.race([guest.connect(limit.signal), failOnExit(vm.exited)]),
        limit.signal,
      );
      await guest.setIdentity(makeIdentity(id), limit.signal);
      if (options.service) await guest.service.configure(options.service, profile.env, limit.signal);
      log.debug({ agentStartUs: hello.agentStartUs, agentReadyUs: hello.agentReadyUs }, 'agent answered');
    } catch (error) {
      if (signal.aborted) throw error;
      // A guest that ends takes its channel with it a moment before its exit is seen.
      const exitReason = await explainExit(vm.exited);
      throw new AppError('internal', `${exitReason ?? toError(error).message}\n${await vm.diagnose()}`, {
        cause: error,
      });
    }

    undo.defer(() => context.logs?.remove(id));
    const sandboxLog = await context.logs?.open(id);

    stage = 'record';
    // Its life, and so its timeout, begins when somebody can use it.
    record = { ...record, isReady: true, createdAtMs: Date.now() };
    await context.records.put(id, record);
    signal.throwIfAborted();
    undo.move();
    const totalMs = Math.round(performance.now() - startedAt);
    log.info({ totalMs, diskMs: Math.round(diskMs), spawnMs: Math.round(spawnMs) }, 'sandbox created');
    return new Sandbox({ id, record, paths, profile, vm, guest, log, sandboxLog });
  } catch (error) {
    if (signal.aborted) throw error;
    throw describeFailure(error, stage);
  }
}

/** The reason once the VM has ended, undefined when it has not within a moment. */
export function explainExit(exited: Promise<{ readonly reason: string }>): Promise<string | undefined> {
  const timeout = new Promise<undefined>((resolve) => setTimeout(resolve, 300, undefined).unref());
  return Promise.race([exited.then(({ reason }) => reason), timeout]);
}

async function failOnExit(exited: Promise<{ readonly reason: string }>): Promise<never> {
  throw new Error((await exited).reason);
}

function describeFailure(error: unknown, stage: string): AppError {
  const cause = toError(error);
  if (/ENOSPC|[Nn]o space left/.test(`${errnoOf(error)} ${cause.message}`)) {
    return new AppError(
      'exhausted',
      `cannot create the sandbox (stage ${stage}): no space left on the host's disk`,
      {
        stage,
        retryAfterS: 5,
        cause,
      },
    );
  }
  const code = isAppError(error) ? error.code : 'internal';
  const details = isAppError(error) ? error.details : {};
  return new AppError(code, `cannot create the sandbox (stage ${details.stage ?? stage}): ${cause.message}`, {
    ...details,
    stage: details.stage ?? stage,
    cause,
  });
}
