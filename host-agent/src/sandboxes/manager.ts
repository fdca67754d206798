// Manages all sandboxes and snapshots of this daemon.
import type { SandboxLimits } from '@sandboxd/api';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { RootfsFinder } from '../images/index.ts';
import {
  Limits,
  type Principal,
  type Quota,
  type RequestContext,
  type SnapshotMaker,
  sharerOf,
  toOwner,
} from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import { AppError, toError } from '../lib/errors.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { PublishedPort } from '../network/index.ts';
import type { Table } from '../store/store.ts';
import { Admission, type AdmissionOptions, type Need } from './admission.ts';
import { commitSandboxes, createSandbox, forkGuest } from './create.ts';
import { readHostCapacity } from './host-capacity.ts';
import { AutomaticEnd } from './idle/automatic-end.ts';
import { forgetIdle } from './idle/in-use.ts';
import { bootImported, receiveSnapshot } from './import-snapshot.ts';
import type { Sandboxes, SandboxHost } from './interface.ts';
import type { LifecycleEvent } from './lifecycle-events.ts';
import type { SandboxMetricsSource } from './measures.ts';
import { reconcile } from './reconcile.ts';
import { noSandbox } from './record.ts';
import { assertCanPublish, inheritOptions, resolveRootfs, validateCreate } from './resolve-create.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { takeSnapshot } from './save-sandbox.ts';
import type { ByteSource } from './saved/archive/read-archive.ts';
import { exportStream } from './saved/archive/write-archive.ts';
import { type SnapshotRecord, Snapshots } from './snapshots.ts';
import { Sweeps } from './sweeps.ts';
import { Templates } from './templates.ts';
import { type AllSandboxes, type IsVisible, TenantView } from './tenant-view.ts';
import type {
  CreateSandboxOptions,
  ImportOptions,
  SandboxDefaults,
  SandboxInfo,
  SnapshotInfo,
} from './types.ts';
import { countInUse, toCreateNeed, toForkNeed, toHoldings, toRequestedResources } from './usage.ts';
import { Watchdog } from './watchdog.ts';

export type SandboxManagerOptions = ResourceContext & {
  readonly roots: Pick<RootfsFinder, 'find'>;
  readonly defaults: SandboxDefaults;
  readonly limits: SandboxLimits;
  readonly snapshotRecords: Table<SnapshotRecord>;
  /** Disk budget of templates; 0 turns them off. */
  readonly templateBudgetBytes: number;
  /** Maximum concurrent boots and restores; more would only slow each other down. */
  readonly maxConcurrentStarts: number;
  readonly admission: Pick<AdmissionOptions, 'memoryReserveBytes' | 'memoryOvercommit'>;
  /** Reads the host's capacity; absent: from the host itself. */
  readonly readCapacity?: AdmissionOptions['readCapacity'];
  /** Quota of a tenant; absent: tenants have no quota. */
  readonly quotaOf?: (tenant: string) => Quota | undefined;
  readonly publishPorts: readonly string[];
  readonly log: Logger;
};

/** A stopping daemon waits this long for deletes in progress; the next daemon finishes the rest. */
const LAST_DELETES_MS = 10_000;

export class SandboxManager implements SandboxHost, AllSandboxes {
  readonly #options: SandboxManagerOptions;
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #snapshots: Snapshots;
  readonly #templates: Templates;
  /** Operations in progress that will add sandboxes. */
  readonly #starting = new Set<Promise<unknown>>();
  readonly #saving = new Set<Promise<unknown>>();
  readonly #startQueue: PQueue;
  readonly #admission: Admission;
  readonly #limits: Limits;
  readonly #sweeps: Sweeps;
  readonly #automaticEnd: AutomaticEnd;
  readonly #stopping = new AbortController();
  #watchdog: Disposable | undefined;

  constructor(options: SandboxManagerOptions) {
    this.#options = options;
    this.#startQueue = new PQueue({ concurrency: options.maxConcurrentStarts });
    this.#sweeps = new Sweeps(options.log);
    this.#admission = new Admission({
      ...options.admission,
      maxSandboxes: options.limits.sandboxes,
      readCapacity: options.readCapacity ?? (() => readHostCapacity(options.directories.dataDir)),
      inUse: () => {
        const { sharedBytes = 0 } = options.engines.current;
        return countInUse([...this.#sandboxes.values()], this.#sweeps.sandboxes, sharedBytes);
      },
      freeing: () => this.#sweeps.next(),
    });
    this.#snapshots = new Snapshots({
      dataDir: options.directories.dataDir,
      engines: options.engines,
      faults: options.faults,
      events: options.events,
      records: options.snapshotRecords,
      log: options.log,
    });
    this.#automaticEnd = new AutomaticEnd({
      ...options,
      save: (sandbox, signal, owner) => this.snapshot(sandbox, signal, owner),
      deleteSnapshot: (id) => this.#snapshots.delete(id),
      remove: (sandbox, reason, events) => this.#delete(sandbox, reason, events),
      isManaged: ({ id }) => this.#sandboxes.has(id) && !this.#stopping.signal.aborted,
    });
    this.#limits = new Limits({
      quotaOf: options.quotaOf ?? (() => undefined),
      sandboxes: () => toHoldings(this.#sandboxes.values()),
      publishPorts: options.publishPorts,
      snapshots: () => this.#snapshots.owners,
    });
    this.#templates = new Templates({
      // No client sees the guest of a template, so it has no durable log.
      context: { ...options, logs: undefined },
      budgetBytes: options.templateBudgetBytes,
      diskBytes: options.defaults.diskBytes,
      startQueue: this.#startQueue,
      reserveDisk: (diskBytes) => this.#admission.reserve({ memoryMib: [], areCopies: false, diskBytes }),
      log: options.log,
    });
  }

  get #shared() {
    const [{ log }, snapshots] = [this.#options, this.#snapshots];
    return {
      templates: this.#templates,
      admission: this.#admission,
      startQueue: this.#startQueue,
      snapshots,
      log,
    };
  }

  /** The sandboxes, snapshots and queues of all tenants, for metrics. */
  get metricsSource(): SandboxMetricsSource {
    return {
      ...this.#shared,
      sandboxes: this.#sandboxes,
      sweeps: this.#sweeps,
      starting: this.#starting,
    };
  }

  /** Reconciles directories and registry with the running VMMs. Must be called once, before any other method. */
  async start(): Promise<void> {
    const adopted = await reconcile(this.#options);
    await this.#options.network?.tidy();
    await this.#options.logs?.start(new Set(adopted.map(({ id }) => id)));
    await this.#snapshots.start();
    await this.#templates.start();
    await forgetIdle(this.#options.directories, new Set(adopted.map(({ id }) => id)));
    for (const sandbox of adopted) this.#register(sandbox);
    const { watchdogTimeoutMs: timeoutMs, events, log } = this.#options;
    this.#watchdog = new Watchdog({ timeoutMs, sandboxes: () => this.#sandboxes.values(), events, log });
  }

  as(principal: Principal, onResolved?: RequestContext['onResolved']): Sandboxes {
    return new TenantView(this, { principal, onResolved });
  }

  async create(
    options: CreateSandboxOptions,
    requestSignal: AbortSignal | undefined,
    request: RequestContext,
  ): Promise<SandboxInfo> {
    const signal = this.#signal(requestSignal);
    const owner = toOwner(request.principal);
    const validated = await validateCreate(options, this.#options, signal);
    using _admitted = this.#limits.admit(request, toRequestedResources(validated));
    await using pins = new AsyncDisposableStack();
    const findOptions = { signal, holds: pins, owner: sharerOf(owner) };
    const resolved = await resolveRootfs(validated, options, this.#options, findOptions, request.principal);
    const need = toCreateNeed(resolved, this.#options.reservesDisks);
    const input = { ...this.#shared, options: resolved, owner, signal };
    const createOne = () => createSandbox(this.#options, input);
    const make = async () => [await this.#options.engines.withReplacement(createOne)] as const;
    const [sandbox] = await this.#add(need, signal, make);
    return sandbox.info;
  }

  /** Oldest first. */
  list(isVisible: IsVisible): SandboxInfo[] {
    const all = [...this.#sandboxes.values()].filter(
      ({ isGone, record }) => !isGone && isVisible(record.owner),
    );
    return all.map(({ info }) => info).sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  }

  find(id: string): Sandbox | undefined {
    return this.#sandboxes.get(id);
  }

  /** AppError not_found. */
  get(id: string): Sandbox {
    const sandbox = this.find(id);
    if (sandbox === undefined || sandbox.isGone) throw noSandbox(id);
    return sandbox;
  }

  async delete(id: string): Promise<void> {
    const sandbox = this.find(id);
    if (sandbox === undefined) throw noSandbox(id);
    await this.#delete(sandbox);
  }

  async #delete(sandbox: Sandbox, reason?: string, events?: readonly LifecycleEvent[]): Promise<void> {
    await sandbox.leave(reason, events);
    if (!this.#sandboxes.delete(sandbox.id)) return;
    this.#options.events.notify({ kind: 'deleted', sandbox: sandbox.id });
    this.#sweeps.start(sandbox);
  }

  /** Called by the sandbox's own handle. */
  async snapshot(sandbox: Sandbox, requestSignal?: AbortSignal, by?: SnapshotMaker): Promise<SnapshotInfo> {
    const signal = this.#signal(requestSignal);
    const take = () => takeSnapshot(sandbox, this.#shared, signal, by && toOwner(by));
    return this.#save(by, () => sandbox.snapshotQueue.add(take));
  }

  /** Applies the owner's quota to `make`; a stopping daemon waits for it. */
  #save(by: SnapshotMaker | undefined, make: () => Promise<SnapshotInfo>): Promise<SnapshotInfo> {
    const admitted = this.#limits.admitSnapshot(by);
    const work = make();
    this.#saving.add(work);
    return work.finally(() => {
      admitted[Symbol.dispose]();
      this.#saving.delete(work);
    });
  }

  get snapshots(): Snapshots {
    return this.#snapshots;
  }

  exportSnapshot(id: string): PullStream {
    return exportStream(this.#snapshots.export(id));
  }

  async importSnapshot(
    read: ByteSource,
    options: ImportOptions,
    requestSignal: AbortSignal | undefined,
    by: SnapshotMaker | undefined,
  ): Promise<SnapshotInfo> {
    const signal = this.#signal(requestSignal);
    const boot = bootImported.bind(undefined, this.#options, this.#shared);
    const parts = { ...this.#options, ...this.#shared, boot };
    return this.#save(by, () => receiveSnapshot(parts, read, options, signal, by && toOwner(by)));
  }

  async fork(
    id: string,
    count: number,
    requestSignal: AbortSignal | undefined,
    request: RequestContext,
    publish: readonly PublishedPort[] = [],
  ): Promise<SandboxInfo[]> {
    const signal = this.#signal(requestSignal);
    const saved = this.#snapshots.open(id);
    const { options } = saved.manifest;
    using _admitted = this.#limits.admit(
      request,
      toRequestedResources(inheritOptions(options, publish), count),
    );
    assertCanPublish(publish, count, options);
    const { log, reservesDisks, engines } = this.#options;
    const owner = toOwner(request.principal);
    const input = { snapshotId: id, saved, count, publish, owner, startQueue: this.#startQueue, log, signal };
    const need = await toForkNeed(saved, count, reservesDisks, engines.current);
    const sandboxes = await this.#add(need, signal, () => forkGuest(this.#options, input));
    return sandboxes.map(({ info }) => info);
  }

  /**
   * Graceful shutdown: refuses new work and cancels starts and saves. Sandboxes are detached for adoption by the next
   * daemon, or deleted; rejects when a delete failed.
   */
  async stop(onExit: 'keep' | 'destroy'): Promise<void> {
    const cause = new AppError('cancelled', 'the daemon is stopping');
    this.#stopping.abort(cause);
    this.#watchdog?.[Symbol.dispose]();
    await this.#templates.stop();
    await Promise.allSettled([...this.#starting, ...this.#saving]);
    await Promise.all([this.#finishDeletes(), this.#snapshots.stop()]);
    if (onExit === 'keep') {
      const { size } = this.#sandboxes;
      for (const sandbox of this.#sandboxes.values()) sandbox.detach(cause);
      if (size > 0)
        this.#options.log.info({ sandboxes: size }, 'sandboxes keep running; the next daemon adopts them');
      return;
    }
    const deletions = await Promise.allSettled([...this.#sandboxes.keys()].map((id) => this.delete(id)));
    const failure = deletions.find((deletion) => deletion.status === 'rejected');
    await this.#sweeps.finish();
    if (failure !== undefined) throw toError(failure.reason);
  }

  /**
   * Deletes of expired sandboxes have no waiting request, and clean-up continues after the response, so both are
   * awaited here.
   */
  async #finishDeletes(): Promise<void> {
    const leaving = [...this.#sandboxes.values()].filter(({ state }) => state === 'deleting');
    using limit = deadline(LAST_DELETES_MS, () => new Error('deletes take too long'));
    const finished = Promise.allSettled(leaving.map(({ id }) => this.delete(id))).then(() =>
      this.#sweeps.finish(),
    );
    await raceSignal(finished, limit.signal).catch(() => undefined);
  }

  #signal(requestSignal?: AbortSignal): AbortSignal {
    const signal =
      requestSignal === undefined
        ? this.#stopping.signal
        : AbortSignal.any([requestSignal, this.#stopping.signal]);
    signal.throwIfAborted();
    return signal;
  }

  /** Reserves capacity, runs `make` and commits: all of its sandboxes become visible together, or all are removed. */
  async #add<T extends readonly Sandbox[]>(
    need: Need,
    signal: AbortSignal,
    make: () => Promise<T>,
  ): Promise<T> {
    const add = async (): Promise<T> => {
      using _reservation = await this.#admission.reserve(need);
      const sandboxes = await commitSandboxes(this.#options, await make(), signal);
      for (const sandbox of sandboxes) this.#register(sandbox);
      return sandboxes;
    };
    const work = add();
    this.#starting.add(work);
    return work.finally(() => this.#starting.delete(work));
  }

  #register(sandbox: Sandbox): void {
    this.#sandboxes.set(sandbox.id, sandbox);
    sandbox.beginLife(this.#automaticEnd);
  }
}
