// All sandboxes and snapshots of this daemon.
import type { Logger } from 'pino';
import type { Engine } from '../engines/engine.ts';
import type { ExecEvents, ExecSession } from '../guest/exec-types.ts';
import type { ByteSource, PulledFile, PushResult } from '../guest/files.ts';
import type { Profiles } from '../images/profiles.ts';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { allocatedBytes } from '../lib/extents.ts';
import { newId } from '../lib/ids.ts';
import { Semaphore } from '../lib/serial-queue.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { Table } from '../store/store.ts';
import { Admission, type AdmissionOptions, asNoSpace, type Need } from './admission.ts';
import { forkGuest } from './fork.ts';
import { readHostRoom } from './host-room.ts';
import { reconcile } from './reconcile.ts';
import type { SandboxProfile } from './record.ts';
import { resolveSandboxOptions } from './resolve-options.ts';
import type { Sandbox } from './sandbox.ts';
import type { ExecRequest, Sandboxes } from './sandboxes.ts';
import type { SandboxService } from './service.ts';
import { type SnapshotRecord, Snapshots } from './snapshots.ts';
import { type StartContext, startSandbox } from './start.ts';
import { Templates } from './templates.ts';
import type {
  CreateSandboxOptions,
  ResolvedSandboxOptions,
  SandboxDefaults,
  SandboxInfo,
  SandboxLimits,
  SnapshotInfo,
} from './types.ts';
import { Watchdog } from './watchdog.ts';

export type SandboxManagerOptions = StartContext & {
  /** Every engine there is, for sandboxes of earlier daemons. */
  readonly adopters: readonly Engine[];
  readonly profiles: Profiles;
  readonly defaults: SandboxDefaults;
  readonly limits: SandboxLimits;
  readonly snapshotRecords: Table<SnapshotRecord>;
  /** Disk for templates; 0 turns them off. */
  readonly templateBudgetBytes: number;
  /** Boots and restores at the same time; more would only make each slower. */
  readonly maxConcurrentStarts: number;
  readonly admission: Pick<AdmissionOptions, 'memoryReserveBytes' | 'memoryOvercommit'>;
  /** A guest agent that does not answer for this long hangs; 0 never. */
  readonly watchdogTimeoutMs: number;
  readonly log: Logger;
};

/** A disk in trouble may be well again. */
const EXPIRY_RETRY_MS = 10_000;
/** What is being deleted when the daemon stops has this long to be gone; the next one would finish it. */
const LAST_DELETES_MS = 10_000;
/** What a guest writes into its layer before anyone uses it. */
const NEW_LAYER_BYTES = 16 * 2 ** 20;

export class SandboxManager implements Sandboxes {
  readonly #options: SandboxManagerOptions;
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #snapshots: Snapshots;
  readonly #templates: Templates;
  /** Operations that will add sandboxes. */
  readonly #starting = new Set<Promise<unknown>>();
  readonly #saving = new Set<Promise<unknown>>();
  readonly #slots: Semaphore;
  readonly #admission: Admission;
  readonly #stopping = new AbortController();
  #watchdog: Disposable | undefined;

  constructor(options: SandboxManagerOptions) {
    this.#options = options;
    this.#slots = new Semaphore(options.maxConcurrentStarts);
    this.#admission = new Admission({
      ...options.admission,
      maxSandboxes: options.limits.sandboxes,
      readRoom: () => readHostRoom(options.directories.dataDir),
      inUse: () => {
        const running = [...this.#sandboxes.values()].filter(({ vm }) => vm.exit === undefined);
        const memoryMib = running.map(({ record }) => record.options.memoryMib);
        return { sandboxes: this.#sandboxes.size, memoryMib };
      },
    });
    this.#snapshots = new Snapshots({
      dataDir: options.directories.dataDir,
      engines: options.engines,
      faults: options.faults,
      records: options.snapshotRecords,
      log: options.log,
    });
    this.#templates = new Templates({
      // Nobody ever sees the guest that a template is made of.
      context: { ...options, logs: undefined },
      budgetBytes: options.templateBudgetBytes,
      diskBytes: options.defaults.diskBytes,
      slots: this.#slots,
      reserveDisk: (diskBytes) => this.#admission.reserve({ memoryMib: [], areCopies: false, diskBytes }),
      log: options.log,
    });
  }

  /** Brings directories and registry in line with what runs. Must be called once, before anything else. */
  async start(): Promise<void> {
    const adopted = await reconcile(this.#options);
    await this.#options.logs?.start(new Set(adopted.map(({ id }) => id)));
    await this.#snapshots.start();
    await this.#templates.start();
    for (const sandbox of adopted) this.#keep(sandbox);
    const { watchdogTimeoutMs: timeoutMs, log } = this.#options;
    this.#watchdog = new Watchdog({ timeoutMs, sandboxes: () => this.#sandboxes.values(), log });
  }

  async create(options: CreateSandboxOptions, outer?: AbortSignal): Promise<SandboxInfo> {
    const signal = this.#signal(outer);
    const { profiles, defaults, limits } = this.#options;
    const resolved = resolveSandboxOptions(options, defaults, limits);
    const profile = await profiles.get(resolved.profile);
    const need = { memoryMib: [resolved.memoryMib], areCopies: false, diskBytes: NEW_LAYER_BYTES };
    const createOne = () => this.#createOne(resolved, profile, signal);
    const make = async () => [await this.#options.engines.withReplacement(createOne)];
    const [sandbox] = await this.#add(need, signal, make);
    if (sandbox === undefined) throw new AppError('internal', 'one sandbox was to be made');
    return sandbox.info;
  }

  list(): SandboxInfo[] {
    return [...this.#sandboxes.values()]
      .map(({ info }) => info)
      .sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  }

  get(id: string): SandboxInfo {
    return this.find(id).info;
  }

  async delete(id: string): Promise<void> {
    await this.find(id).remove();
    if (this.#sandboxes.delete(id)) this.#options.log.info({ sandbox: id }, 'sandbox deleted');
  }

  exec(id: string, request: ExecRequest, events: ExecEvents): ExecSession {
    return this.find(id).exec(request, events);
  }

  async snapshot(id: string, outer?: AbortSignal): Promise<SnapshotInfo> {
    const signal = this.#signal(outer);
    const sandbox = this.find(id);
    sandbox.assertAlive();
    const work = sandbox.snapshotQueue.run(async () => {
      signal.throwIfAborted();
      sandbox.assertAlive();
      const diskBytes =
        sandbox.record.options.memoryMib * 2 ** 20 + (await allocatedBytes(sandbox.paths.layerPath));
      using _held = await this.#admission.reserve({ memoryMib: [], areCopies: false, diskBytes });
      sandbox.isSaving = true;
      try {
        return await this.#snapshots.create(sandbox, signal);
      } catch (error) {
        signal.throwIfAborted();
        // A source that died or was deleted meanwhile is the better reason.
        sandbox.assertAlive();
        const noSpace = asNoSpace(error, 'take the snapshot', 'save');
        if (noSpace !== undefined) throw noSpace;
        throw isAppError(error)
          ? error
          : new AppError('internal', `cannot take the snapshot: ${toError(error).message}`, { cause: error });
      } finally {
        sandbox.isSaving = false;
      }
    });
    this.#saving.add(work);
    return work.finally(() => this.#saving.delete(work));
  }

  listSnapshots(): SnapshotInfo[] {
    return this.#snapshots.list();
  }

  getSnapshot(id: string): SnapshotInfo {
    return this.#snapshots.get(id);
  }

  deleteSnapshot(id: string): Promise<void> {
    return this.#snapshots.delete(id);
  }

  async fork(snapshotId: string, count: number, outer?: AbortSignal): Promise<SandboxInfo[]> {
    const signal = this.#signal(outer);
    const saved = this.#snapshots.open(snapshotId);
    const { log } = this.#options;
    const slots = this.#slots;
    const { memoryMib } = saved.manifest;
    const diskBytes = count * (await allocatedBytes(saved.diskPath));
    const need = { memoryMib: new Array<number>(count).fill(memoryMib), areCopies: true, diskBytes };
    const sandboxes = await this.#add(need, signal, () =>
      forkGuest(this.#options, { snapshotId, saved, count, slots, log, signal }),
    );
    return sandboxes.map(({ info }) => info);
  }

  service(id: string): SandboxService {
    return this.find(id).service();
  }

  async pushFiles(id: string, path: string, read: ByteSource, signal?: AbortSignal): Promise<PushResult> {
    return this.find(id).pushFiles(path, read, signal);
  }

  async pullFile(id: string, path: string, maxBytes: number, signal?: AbortSignal): Promise<PulledFile> {
    return this.find(id).pullFile(path, maxBytes, signal);
  }

  async pullDirectory(id: string, path: string, signal?: AbortSignal): Promise<PulledFile> {
    return this.find(id).pullDirectory(path, signal);
  }

  /** The sandbox itself, for rooms above that need more than this face. AppError not_found. */
  find(id: string): Sandbox {
    const sandbox = this.#sandboxes.get(id);
    if (sandbox !== undefined && sandbox.state !== 'deleted') return sandbox;
    throw new AppError('not_found', `sandbox ${id} does not exist`);
  }

  /**
   * Refuses new work and cancels what is being made. Sandboxes are let go of, for the next daemon to adopt, or deleted;
   * rejects when one could not be.
   */
  async stop(onExit: 'keep' | 'destroy'): Promise<void> {
    const cause = new AppError('cancelled', 'the daemon is stopping');
    this.#stopping.abort(cause);
    this.#watchdog?.[Symbol.dispose]();
    await this.#templates.stop();
    await Promise.allSettled([...this.#starting, ...this.#saving]);
    await this.#finishDeletes();
    if (onExit === 'keep') {
      const { size } = this.#sandboxes;
      for (const sandbox of this.#sandboxes.values()) sandbox.detach(cause);
      if (size > 0)
        this.#options.log.info({ sandboxes: size }, 'sandboxes stay; the next daemon adopts them');
      return;
    }
    const ends = await Promise.allSettled([...this.#sandboxes.keys()].map((id) => this.delete(id)));
    const failure = ends.find((end) => end.status === 'rejected');
    if (failure !== undefined) throw toError(failure.reason);
  }

  /** Those of expired sandboxes have no request that is waited for. */
  async #finishDeletes(): Promise<void> {
    const leaving = [...this.#sandboxes.values()].filter(({ state }) => state === 'deleting');
    using limit = deadline(LAST_DELETES_MS, () => new Error('deletes take too long'));
    const ends = Promise.allSettled(leaving.map(({ id }) => this.delete(id)));
    await raceSignal(ends, limit.signal).catch(() => undefined);
  }

  #signal(outer?: AbortSignal): AbortSignal {
    const signal =
      outer === undefined ? this.#stopping.signal : AbortSignal.any([outer, this.#stopping.signal]);
    signal.throwIfAborted();
    return signal;
  }

  /** Runs `make` within the limits; what it makes becomes visible together, or nothing of it stays. */
  async #add(
    need: Need,
    signal: AbortSignal,
    make: () => Promise<readonly Sandbox[]>,
  ): Promise<readonly Sandbox[]> {
    const add = async (): Promise<readonly Sandbox[]> => {
      using _held = await this.#admission.reserve(need);
      const sandboxes = await this.#commit(await make(), signal);
      for (const sandbox of sandboxes) this.#keep(sandbox);
      return sandboxes;
    };
    const work = add();
    this.#starting.add(work);
    return work.finally(() => this.#starting.delete(work));
  }

  /** From here on they survive a crash. */
  async #commit(sandboxes: readonly Sandbox[], signal: AbortSignal): Promise<readonly Sandbox[]> {
    const { records, faults } = this.#options;
    try {
      signal.throwIfAborted();
      await records.putAll(sandboxes.map((sandbox) => ({ id: sandbox.id, record: sandbox.becomeReady() })));
      faults.reach('start.committed');
      signal.throwIfAborted();
      return sandboxes;
    } catch (error) {
      await Promise.allSettled(sandboxes.map((sandbox) => sandbox.discard()));
      throw error;
    }
  }

  #keep(sandbox: Sandbox): void {
    this.#sandboxes.set(sandbox.id, sandbox);
    sandbox.startLifetime(() => this.#expire(sandbox));
  }

  async #createOne(
    options: ResolvedSandboxOptions,
    profile: SandboxProfile,
    signal: AbortSignal,
  ): Promise<Sandbox> {
    const { name, digest, rootfsPath, env, workdir } = profile;
    const id = newId('sbx');
    const common = {
      id,
      options,
      profile: { name, digest, rootfsPath, env, workdir },
      log: this.#options.log.child({ sandbox: id }),
      signal,
    };
    const template = await this.#templates.obtain(options, common.profile, signal);
    return this.#slots.run(async () => {
      if (template !== undefined) {
        try {
          const origin = { kind: 'saved', saved: template } as const;
          return await template.use(() => startSandbox(this.#options, { ...common, origin }));
        } catch (error) {
          signal.throwIfAborted();
          if (isAppError(error) && error.code === 'exhausted') throw error;
          this.#options.log.warn({ err: error, sandbox: id }, 'a template is unusable; booting instead');
          this.#templates
            .discard(template)
            .catch((err) => this.#options.log.warn({ err }, 'cannot remove an unusable template'));
        }
      }
      const boot = () => startSandbox(this.#options, { ...common, origin: { kind: 'boot' } });
      // A guest with arguments of a stranger says nothing about the engine.
      return options.bootArgs === '' ? this.#options.engines.tryBoot(boot, signal) : boot();
    }, signal);
  }

  #expire(sandbox: Sandbox): void {
    const { log } = this.#options;
    log.info(
      { sandbox: sandbox.id, timeoutS: sandbox.record.options.timeoutS },
      'the lifetime of a sandbox is over',
    );
    this.delete(sandbox.id).catch((err) => {
      if (sandbox.state === 'deleted' || this.#stopping.signal.aborted) return;
      log.error({ err, sandbox: sandbox.id }, 'cannot delete an expired sandbox; it is tried again');
      setTimeout(() => this.#expire(sandbox), EXPIRY_RETRY_MS).unref();
    });
  }
}
