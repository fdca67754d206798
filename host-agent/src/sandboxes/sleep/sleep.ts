// Pauses, resumes and rollbacks of all sandboxes: a pause and a resume are made once for all that wait for it, within
// the limits of the host and of the sandbox's owner.
import type { Policy } from '@sandboxd/api';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Vm } from '../../engines/engine.ts';
import type { Owner } from '../../keys/index.ts';
import { enqueue } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import { allocatedBytes } from '../../lib/extents.ts';
import { deadline, raceSignal } from '../../lib/wait.ts';
import type { Admission } from '../admission.ts';
import type { SandboxState } from '../record.ts';
import { movingSandbox, toSavedOptions } from '../record.ts';
import type { ResourceContext } from '../resources/resource.ts';
import { stop } from '../resources/vmm.ts';
import type { Sandbox } from '../sandbox.ts';
import { pausedDir } from '../saved/paused.ts';
import { copyPaused } from '../saved/save-paused.ts';
import type { SavedGuest } from '../saved/saved-guest.ts';
import { type PauseOptions, pauseSandbox } from './pause.ts';
import { resumeSandbox } from './resume.ts';
import { rollBackSandbox, settleRollback, type Target } from './rollback.ts';
import { SleepingPorts } from './sleeping-ports.ts';

const RETRY_AFTER_S = 5;
/** Of one sandbox, those that wait included: each writes its memory. */
const MAX_ROLLBACKS = 2;

export type SleepDeps = {
  readonly context: ResourceContext;
  readonly admission: Pick<Admission, 'reserve'>;
  readonly startQueue: PQueue;
  /** A call that resumes a sandbox waits at most this long. */
  readonly resumeTimeoutMs: number;
  /** Disk space that paused sandboxes may take together; 0: no limit of its own. */
  readonly maxStoredBytes: number;
  readonly sandboxes: () => Iterable<Sandbox>;
  /** Reserve it among the owner's own. AppError forbidden. */
  readonly admitPause: (owner: Owner | undefined, policy: Policy | undefined) => Disposable;
  readonly admitResume: (sandbox: Sandbox) => Disposable;
  /** A stopping daemon waits for it, and aborts the signal. */
  readonly track: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly log: Logger;
};

export type PauseRequest = Omit<PauseOptions, 'signal'> & {
  readonly signal?: AbortSignal;
  /** Of the key that requests it. */
  readonly policy?: Policy;
};

/** States of a sandbox that a use resumes. */
const ASLEEP: readonly SandboxState[] = ['pausing', 'paused', 'resuming'];

export class Sleep {
  readonly #deps: SleepDeps;
  readonly #pauses = new Map<Sandbox, Promise<void>>();
  readonly #resumes = new Map<Sandbox, Promise<void>>();
  /** The last of each; they are made one after another. */
  readonly #rollbacks = new Map<Sandbox, Promise<void>>();
  readonly #rollbackCounts = new Map<Sandbox, number>();
  /** VMs of paused sandboxes that have not exited yet. */
  readonly #ending = new Map<Sandbox, Vm>();
  /** Bytes that pauses in progress may write. */
  #reservedBytes = 0;
  readonly #ports: SleepingPorts;

  constructor(deps: SleepDeps) {
    this.#deps = deps;
    const wake = (sandbox: Sandbox): Promise<void> => this.#use(sandbox);
    this.#ports = new SleepingPorts({ network: deps.context.network, wake, log: deps.log });
  }

  /** An earlier daemon has paused it: connections to its published ports resume it. */
  async adopt(sandbox: Sandbox): Promise<void> {
    if (sandbox.state === 'paused') await this.#ports.hold(sandbox);
  }

  /** After a change of the published ports of a paused one. */
  holdPorts = (sandbox: Sandbox): Promise<void> => this.adopt(sandbox);

  /** Disk space of what pauses have saved. */
  get storedBytes(): number {
    let sum = 0;
    for (const { record } of this.#deps.sandboxes()) sum += record.paused?.storedBytes ?? 0;
    return sum;
  }

  /** Does nothing if it is paused. AppError if it runs on; the signal's reason when cancelled. */
  async pause(sandbox: Sandbox, request: PauseRequest): Promise<void> {
    await this.#resumes.get(sandbox)?.catch(() => undefined);
    await this.#rollbacks.get(sandbox)?.catch(() => undefined);
    if (sandbox.state === 'paused') return;
    await share(this.#pauses, sandbox, () => this.#pause(sandbox, request));
  }

  /** Does nothing if it runs. AppError if it stays paused. */
  async resume(sandbox: Sandbox, reason: 'request' | 'use' = 'request'): Promise<void> {
    assertStays(sandbox);
    await this.#pauses.get(sandbox)?.catch(() => undefined);
    await this.#rollbacks.get(sandbox)?.catch(() => undefined);
    sandbox.assertNotEnded();
    if (sandbox.state === 'running') return;
    await share(this.#resumes, sandbox, () => this.#resume(sandbox, reason));
  }

  /** Resolves when the guest of the snapshot can be used. AppError if the sandbox is as it was. */
  async rollback(sandbox: Sandbox, target: Target): Promise<void> {
    assertStays(sandbox);
    const count = this.#rollbackCounts.get(sandbox) ?? 0;
    if (count >= MAX_ROLLBACKS)
      throw new AppError('exhausted', `sandbox ${sandbox.id} is going back already; try again later`, {
        retryAfterS: RETRY_AFTER_S,
      });
    this.#rollbackCounts.set(sandbox, count + 1);
    // Known before it waits: what comes later waits for it.
    const work = this.#rollBack(sandbox, target);
    this.#rollbacks.set(sandbox, work);
    const endUse = sandbox.use.beginUse();
    try {
      await work;
    } finally {
      endUse();
      if (this.#rollbacks.get(sandbox) === work) this.#rollbacks.delete(sandbox);
      const left = (this.#rollbackCounts.get(sandbox) ?? 1) - 1;
      if (left === 0) this.#rollbackCounts.delete(sandbox);
      else this.#rollbackCounts.set(sandbox, left);
    }
  }

  async #rollBack(sandbox: Sandbox, target: Target): Promise<void> {
    for (const others of [this.#pauses, this.#resumes]) await others.get(sandbox)?.catch(() => undefined);
    const { track, log, ...deps } = this.#deps;
    await track((signal) => {
      const input = { ...deps, ...target, sandbox, signal, log: log.child({ sandbox: sandbox.id }) };
      const endVm = () => this.endVm(sandbox);
      const onAsleep = (vm: Vm): void => void this.#ending.set(sandbox, vm);
      const holdPorts = () => this.#ports.holdMeanwhile(sandbox);
      return sandbox.snapshotQueue.add(async () => {
        try {
          await rollBackSandbox({ ...input, onAsleep, endVm, holdPorts });
          await this.#ports.endConnections(sandbox);
        } finally {
          if (sandbox.state === 'paused') await this.#ports.hold(sandbox);
          else await this.#ports.open(sandbox);
        }
      });
    });
  }

  /**
   * Resolves when the sandbox can be used, which resumes it, or when it does not resume by use: then the call itself
   * throws AppError paused. AppError exhausted when it takes too long.
   */
  async wake(sandbox: Sandbox, signal?: AbortSignal): Promise<void> {
    // One that has ended refuses the call itself, each in its way.
    if (!ASLEEP.includes(sandbox.state)) return;
    const resumes = sandbox.record.options.autoResume !== false || this.#rollbacks.has(sandbox);
    if (!resumes) sandbox.use.touch();
    else await this.#use(sandbox, signal);
  }

  async #use(sandbox: Sandbox, signal?: AbortSignal): Promise<void> {
    // An idle sandbox that is being paused runs on.
    sandbox.use.touch();
    const { resumeTimeoutMs: timeoutMs } = this.#deps;
    const tooLate = (): AppError => {
      const message = `sandbox ${sandbox.id} has not resumed within ${timeoutMs / 1000} s; try again`;
      return new AppError('exhausted', message, { retryAfterS: RETRY_AFTER_S });
    };
    using limit = deadline(timeoutMs, tooLate, signal);
    const rollback = this.#rollbacks.get(sandbox);
    if (rollback !== undefined) {
      await raceSignal(
        rollback.catch(() => undefined),
        limit.signal,
      );
      return await this.wake(sandbox, signal);
    }
    await raceSignal(this.resume(sandbox, 'use'), limit.signal);
  }

  async #pause(sandbox: Sandbox, { signal: outer, policy, ...options }: PauseRequest): Promise<void> {
    const { hasMemory } = options;
    const { context, admission, admitPause, track, log } = this.#deps;
    sandbox.assertAlive();
    using _admitted = admitPause(sandbox.record.owner, policy);
    const bytes = hasMemory ? sandbox.record.options.memoryMib * 2 ** 20 : 0;
    using _space = this.#reserveSpace(sandbox, bytes);
    using _reservation = await admission.reserve({ memoryMib: [], areCopies: false, diskBytes: bytes });
    await track(async (stopping) => {
      const signal = outer === undefined ? stopping : AbortSignal.any([outer, stopping]);
      const onAsleep = (vm: Vm): void => void this.#ending.set(sandbox, vm);
      const input = { ...options, context, sandbox, signal, log: log.child({ sandbox: sandbox.id }) };
      await sandbox.snapshotQueue.add(async () => {
        // While its guest still runs: none of its connections is lost in between.
        await this.#ports.hold(sandbox);
        try {
          await pauseSandbox({ ...input, onAsleep });
        } finally {
          if (sandbox.state !== 'paused') await this.#ports.open(sandbox);
        }
      });
      if (this.#ending.get(sandbox)?.exit !== undefined) this.#ending.delete(sandbox);
    });
  }

  async #resume(sandbox: Sandbox, reason: 'request' | 'use'): Promise<void> {
    const { context, admission, startQueue, admitResume, track, log } = this.#deps;
    const { memoryMib } = sandbox.record.options;
    const { hasMemory = false, atMs = Date.now() } = sandbox.record.paused ?? {};
    const startedAt = performance.now();
    let isNeeded = true;
    await track(async (signal) => {
      await sandbox.snapshotQueue.add(async () => {
        sandbox.assertNotEnded();
        assertStays(sandbox);
        isNeeded = sandbox.state !== 'running';
        if (!isNeeded) return;
        sandbox.transition('resuming');
        try {
          await this.endVm(sandbox);
          await settleRollback({ context, sandbox });
          using _admitted = admitResume(sandbox);
          await context.engines.chosen(signal);
          using _reservation = await admission.reserve({
            memoryMib: [memoryMib],
            areCopies: hasMemory,
            diskBytes: 0,
          });
          const input = { context, sandbox, signal, log: log.child({ sandbox: sandbox.id }) };
          await enqueue(startQueue, () => resumeSandbox(input), signal);
          if (!hasMemory) await this.#ports.endConnections(sandbox);
        } finally {
          // It did not come to a start.
          if (sandbox.state === 'resuming') sandbox.transition('paused');
          if (sandbox.running !== undefined) await this.#ports.open(sandbox);
        }
      });
    });
    if (!isNeeded) return;
    const durationMs = Math.round(performance.now() - startedAt);
    const asleepMs = Math.max(0, Math.round(Date.now() - durationMs - atMs));
    const { owner, metadata } = sandbox.record;
    context.events.emit(
      { kind: 'resumed', sandbox: sandbox.id, reason, durationMs, asleepMs },
      owner,
      metadata,
    );
  }

  /** Copies a paused sandbox to a new directory, without resuming it. AppError conflict if it is not paused. */
  async copy(sandbox: Sandbox, dir: string, signal: AbortSignal): Promise<SavedGuest> {
    const { context, admission, track } = this.#deps;
    if (sandbox.state !== 'paused') throw notPaused(sandbox);
    const { options } = sandbox.record;
    const diskBytes = options.memoryMib * 2 ** 20 + (await allocatedBytes(sandbox.paths.layerPath));
    using _reservation = await admission.reserve({ memoryMib: [], areCopies: false, diskBytes });
    const copy = async (): Promise<SavedGuest> => {
      sandbox.assertNotEnded();
      const { id, record, paths } = sandbox;
      if (sandbox.state !== 'paused') throw notPaused(sandbox);
      if (record.paused?.hasMemory !== true)
        throw new AppError(
          'conflict',
          `sandbox ${id} was paused without its memory; resume it and take a snapshot`,
        );
      await this.endVm(sandbox);
      const { compatibility, kernelDigest } = record;
      return copyPaused({
        ...{
          dir,
          layerPath: paths.layerPath,
          pausedDir: pausedDir(paths.dir),
          faults: context.faults,
          signal,
        },
        manifest: { compatibility, kernelDigest, options: toSavedOptions(record) },
      });
    };
    return await track(() => sandbox.snapshotQueue.add(copy));
  }

  /** Waits until the VMM of a paused sandbox has exited. */
  async endVm(sandbox: Sandbox): Promise<void> {
    const vm = this.#ending.get(sandbox);
    if (vm !== undefined) await stop(vm);
    this.#ending.delete(sandbox);
  }

  /** AppError exhausted. */
  #reserveSpace(sandbox: Sandbox, bytes: number): Disposable {
    const { maxStoredBytes: max } = this.#deps;
    const wanted = this.storedBytes + this.#reservedBytes + bytes;
    if (max > 0 && bytes > 0 && wanted > max) {
      const message = `sandbox ${sandbox.id} cannot be paused: paused sandboxes may take ${max} bytes of disk, and ${wanted} would be; delete some`;
      throw new AppError('exhausted', message, { stage: 'paused', retryAfterS: RETRY_AFTER_S });
    }
    this.#reservedBytes += bytes;
    return {
      [Symbol.dispose]: () => {
        this.#reservedBytes -= bytes;
      },
    };
  }
}

/** AppError exhausted: another host will have it. */
function assertStays(sandbox: Sandbox): void {
  if (sandbox.isDeparting) throw movingSandbox(sandbox.id);
}

function notPaused({ id, state }: Sandbox): AppError {
  return new AppError('conflict', `sandbox ${id} is ${state}, not paused; pause it, or take a snapshot`);
}

function share(all: Map<Sandbox, Promise<void>>, sandbox: Sandbox, work: () => Promise<void>): Promise<void> {
  let current = all.get(sandbox);
  if (current === undefined) {
    current = work().finally(() => all.delete(sandbox));
    all.set(sandbox, current);
  }
  return current;
}
