// Creates a sandbox: the copy of a template or a cold boot, its start with its undo, and the commit, also of forks.
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Engine } from '../engines/engine.ts';
import { type Owner, sharerOf } from '../keys/index.ts';
import { enqueue } from '../lib/concurrency-limit.ts';
import { AppError, firstLine, isAppError, toError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import { type Admission, asNoSpace } from './admission.ts';
import type { CommitHook } from './interface.ts';
import { environmentOf, type Metadata, ownEnvironmentOf } from './metadata.ts';
import { isServiceFailure, startReadyService } from './ready-service.ts';
import type { SandboxRecord } from './record.ts';
import { explainExit } from './resources/agent.ts';
import { sandboxPaths } from './resources/files.ts';
import { STEPS } from './resources/index.ts';
import type {
  BootedTemplate,
  Handles,
  Resource,
  ResourceContext,
  StartContext,
  StartFrom,
} from './resources/resource.ts';
import { Sandbox } from './sandbox.ts';
import { SavedGuest } from './saved/saved-guest.ts';
import { toReadyService } from './template-choice.ts';
import type { ResolvedSandboxOptions, SandboxInfo } from './types.ts';
import { reserveShared } from './usage.ts';

export type CreateInput = {
  /** Absent: a new one. */
  readonly id: string | undefined;
  readonly options: ResolvedSandboxOptions;
  readonly owner: Owner | undefined;
  readonly metadata: Metadata;
  readonly templates: TemplateSource;
  readonly admission: Admission;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** What a create uses of `Templates`. */
export interface TemplateSource {
  obtain(
    options: ResolvedSandboxOptions,
    signal: AbortSignal,
    owner?: string,
  ): Promise<SavedGuest | BootedTemplate | undefined>;
  copySucceeded(saved: SavedGuest, options: ResolvedSandboxOptions, owner?: string): void;
  /** Whether to cold-boot. */
  copyFailed(saved: SavedGuest, error: unknown): boolean;
  bootSucceeded(options: ResolvedSandboxOptions, owner?: string): Promise<void>;
}

/** Rejects as `startSandbox` does. */
export async function createSandbox(context: ResourceContext, input: CreateInput): Promise<Sandbox> {
  const { options, owner, metadata, templates, admission, startQueue, log, signal } = input;
  const id = input.id ?? newId('sbx');
  const common = { id, options, owner, metadata, log: log.child({ sandbox: id }), signal };
  const sharer = sharerOf(owner);
  const template = await templates.obtain(options, signal, sharer);
  const own = template instanceof SavedGuest ? undefined : template;
  const start = async (): Promise<Sandbox> => {
    if (template instanceof SavedGuest) {
      using _reservation = await reserveShared(admission, context.engines.current, template);
      try {
        const origin = { kind: 'saved', saved: template } as const;
        const sandbox = await template.use(() => startSandbox(context, { ...common, origin }));
        templates.copySucceeded(template, options, sharer);
        return sandbox;
      } catch (error) {
        signal.throwIfAborted();
        if (!templates.copyFailed(template, error)) throw error;
        log.warn({ sandbox: id }, 'template unusable, cold-booting');
      }
    }
    const boot = async (): Promise<Sandbox> => {
      try {
        return await startSandbox(context, { ...common, origin: { kind: 'boot', template: own } });
      } catch (error) {
        signal.throwIfAborted();
        // A save that failed may have ended the VM.
        if (own?.hasFailed !== true || isServiceFailure(error)) throw error;
        return startSandbox(context, { ...common, origin: { kind: 'boot' } });
      }
    };
    // If a boot with the client's arguments fails, they may be the cause, so the engine is not replaced.
    const sandbox = await (options.bootArgs === ''
      ? context.engines.bootOrReplaceEngine(boot, signal)
      : boot());
    await templates.bootSucceeded(options, sharer);
    return sandbox;
  };
  try {
    const sandbox = await enqueue(startQueue, start, signal);
    own?.createEnded();
    return sandbox;
  } catch (error) {
    own?.createEnded(error);
    throw error;
  }
}

/** Commits all sandboxes or none. On failure or cancellation all of them are removed. */
export async function commitSandboxes<T extends readonly Sandbox[]>(
  { records, faults }: Pick<ResourceContext, 'records' | 'faults'>,
  sandboxes: T,
  signal: AbortSignal,
  commit?: CommitHook<readonly SandboxInfo[]>,
): Promise<T> {
  try {
    signal.throwIfAborted();
    const ready = sandboxes.map((sandbox) => ({ id: sandbox.id, ...sandbox.becomeReady() }));
    await records.putAll(ready, () => {
      for (const { event } of ready) event.persist();
      commit?.persist(sandboxes.map(({ info }) => info));
    });
    for (const sandbox of sandboxes) sandbox.announce();
    faults.reach('start.committed');
    // With a hook, another request already relies on them.
    if (commit === undefined) signal.throwIfAborted();
    return sandboxes;
  } catch (error) {
    await commit?.retract().catch(() => undefined);
    await Promise.allSettled(sandboxes.map((sandbox) => sandbox.discard()));
    throw error;
  }
}

// Starts a sandbox by a cold boot or as a copy of a saved guest. Each step puts its undo action on a stack, which a
// failure unwinds.

/** What a copy comes from. */
export type CopySource = Pick<
  SandboxRecord,
  'sourceSnapshotId' | 'sourceSandboxId' | 'parentSnapshotId' | 'authority'
>;

export type StartInput = {
  readonly id: string;
  readonly options: ResolvedSandboxOptions;
  readonly origin: StartFrom;
  /** The snapshot or sandbox of which it is a fork. */
  readonly of?: CopySource;
  readonly owner?: Owner | undefined;
  readonly metadata?: Metadata;
  /** Absent: a client waits for it. */
  readonly isBackground?: boolean;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** Index of the writable layer among the disks. */
const LAYER_DISK = 1;

/**
 * Until `commitSandboxes` marks the record ready, the next daemon removes the sandbox after a crash.
 * AppError internal or exhausted with the stage and the last log lines; the signal's reason when cancelled.
 */
export async function startSandbox(context: ResourceContext, input: StartInput): Promise<Sandbox> {
  const { id, origin, isBackground = false, log, signal } = input;
  const { faults, records } = context;
  const startedAt = performance.now();
  const times: Record<string, number> = {};
  const engine = context.engines.current;
  let record = newRecord(context, engine, input);
  const handles: Handles = {};
  const startAbort = new AbortController();
  const start: StartContext = {
    id,
    context,
    engine,
    origin,
    isBackground,
    handles,
    times,
    log,
    signal: AbortSignal.any([signal, startAbort.signal]),
    abortStart: (reason) => startAbort.abort(reason),
    paths: sandboxPaths(context.directories, id),
    get record() {
      return record;
    },
    update: async (change, also) => {
      record = { ...record, ...change };
      await records.put(id, record, also);
    },
  };
  await using undo = new AsyncDisposableStack();
  let stage = 'record';
  try {
    undo.defer(async () => {
      await records.remove(id);
      if (record.network !== undefined) context.network.free(record.network);
    });
    await records.put(id, record);
    faults.reach('start.recorded');
    for (const step of STEPS) {
      stage = step[0].stage(origin);
      start.signal.throwIfAborted();
      for (const { release, sweep } of step)
        undo.defer(async () => {
          const teardown = { ...start, record, wasVisible: false, reason: 'the sandbox was not created' };
          await release?.(teardown);
          await sweep?.(teardown);
        });
      const failures: { readonly stage: string; readonly error: unknown }[] = [];
      const acquire = async (resource: Resource): Promise<void> => {
        const resourceStage = resource.stage(origin);
        await resource
          .acquire(start)
          .catch((error: unknown) => failures.push({ stage: resourceStage, error }));
        times[`${resourceStage}Ms`] = Math.round(performance.now() - startedAt);
      };
      // All resources of the step must have settled before any is undone.
      await Promise.all(step.map(acquire));
      const [failure] = failures;
      if (failure === undefined) continue;
      stage = failure.stage;
      throw failure.error;
    }
    const tooLate = () =>
      new AppError('internal', `the guest agent did not answer within ${context.settings.bootTimeoutMs} ms`, {
        isTimeout: true,
      });
    using limit = deadline(context.settings.bootTimeoutMs, tooLate, start.signal);
    stage = 'grow disk';
    await growDisk(start, limit.signal);
    stage = 'service';
    await startService(start, limit.signal);
    faults.reach('start.made');
    signal.throwIfAborted();
    // Its timeout starts when clients can use it.
    record = { ...record, createdAtMs: Date.now() };
    undo.move();
    times.totalMs = Math.round(performance.now() - startedAt);
    return new Sandbox(start);
  } catch (error) {
    if (signal.aborted) throw error;
    const failure = describeFailure(await explainFailure(handles, startAbort.signal, error), stage);
    // Its log files are removed with it, so their last lines are logged here.
    if (handles.vm !== undefined)
      log.warn({ err: failure, diagnosis: await handles.vm.diagnose() }, 'a sandbox did not start');
    throw failure;
  }
}

/** When a VM exits, its channel breaks a moment before the exit is noticed. */
async function explainFailure({ vm }: Handles, startAborted: AbortSignal, error: unknown): Promise<unknown> {
  if (startAborted.aborted) return startAborted.reason;
  const exitReason = vm === undefined ? undefined : await explainExit(vm);
  return exitReason === undefined ? error : new AppError('internal', exitReason, { cause: error });
}

function newRecord(
  { system }: ResourceContext,
  engine: Engine,
  { id, options, origin, of, owner, metadata }: StartInput,
): SandboxRecord {
  // A copy's guest runs from the agent image with which it was saved.
  const agentPath = origin.kind === 'saved' ? origin.saved.manifest.options.rootfs.agentPath : undefined;
  const rootfs = { ...options.rootfs, ...(agentPath !== undefined && { agentPath }) };
  return {
    createdAtMs: Date.now(),
    options: { ...options, rootfs },
    incarnation: id,
    isReady: false,
    vmm: null,
    compatibility: engine.compatibility(),
    kernelDigest: origin.kind === 'saved' ? origin.saved.manifest.kernelDigest : system.kernel.digest,
    ...of,
    ...(owner && { owner }),
    ...(metadata && { metadata }),
  };
}

async function growDisk({ origin, record, handles }: StartContext, signal: AbortSignal): Promise<void> {
  const { diskBytes } = record.options;
  if (layerBytes(origin, diskBytes) >= diskBytes) return;
  if (handles.vm !== undefined) await raceSignal(handles.vm.resizeDisk(LAYER_DISK, diskBytes), signal);
  await handles.guest?.growDisk(signal);
}

/** Size of the layer that it started with. */
function layerBytes(origin: StartFrom, diskBytes: number): number {
  if (origin.kind === 'boot') return origin.template?.diskBytes ?? diskBytes;
  if (origin.kind === 'paused') return diskBytes;
  return origin.saved.isGeneric ? diskBytes : origin.saved.manifest.options.diskBytes;
}

/**
 * A service program that fails to start is not an error of the create, unless the profile promises it. AppError
 * internal, also for an agent that cannot be reached.
 */
async function startService(start: StartContext, signal: AbortSignal): Promise<void> {
  const { record, handles, origin } = start;
  const { service } = record.options;
  if (service === undefined || (origin.kind === 'boot' && origin.template?.hasService)) return;
  const ready = toReadyService(record.options);
  if (ready !== undefined && origin.kind === 'saved' && origin.saved.manifest.service === ready.hash) return;
  if (ready !== undefined && handles.guest !== undefined) {
    await startReadyService(handles.guest, ready, environmentOf(record), start.signal);
    return;
  }
  // An image's service has the environment of its image already.
  const env = service.env_exact ? ownEnvironmentOf(record) : environmentOf(record);
  try {
    await handles.guest?.service.configure(service, env, signal);
  } catch (error) {
    throw new AppError('internal', toError(error).message, { cause: error });
  }
}

function describeFailure(error: unknown, stage: string): AppError {
  const noSpace = asNoSpace(error, 'create the sandbox', stage);
  if (noSpace !== undefined) return noSpace;
  const cause = toError(error);
  const code = isAppError(error) ? error.code : 'internal';
  const { stage: failedStage = stage, ...rest } = isAppError(error) ? error.details : {};
  const message = `cannot create the sandbox (stage ${failedStage}): ${firstLine(cause)}`;
  return new AppError(code, message, { ...rest, stage: failedStage, cause });
}
