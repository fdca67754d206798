// Manages all sandboxes and snapshots of this daemon.
import PQueue from 'p-queue';
import {
  Limits,
  ownerOf,
  type Principal,
  type RequestContext,
  type SnapshotMaker,
  sharerOf,
} from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import { Admission, type Need } from './admission.ts';
import { assertComesFrom } from './ancestry.ts';
import { commitSandboxes, createSandbox } from './create.ts';
import { Forks } from './fork.ts';
import { TimeoutActions } from './idle/timeout-actions.ts';
import { forgetIdle } from './idle/timeouts.ts';
import { bootImported, receiveSnapshot } from './import-snapshot.ts';
import type { IsVisible, Sandboxes, SandboxHost, SandboxRequest, SnapshotRequest } from './interface.ts';
import type { LifecycleEvent } from './lifecycle-events.ts';
import { toMetadata } from './metadata.ts';
import type { SandboxMetricsSource } from './metrics.ts';
import { Moves } from './moves/index.ts';
import { Names } from './names.ts';
import { NetworkCalls } from './network-calls.ts';
import { closeInternet, settleNetworks } from './network-changes.ts';
import { type SandboxManagerOptions, toSnapshotsOptions } from './options.ts';
import { changePort, connectPort } from './ports.ts';
import { changePublished } from './publish.ts';
import { reconcile } from './reconcile.ts';
import { noSandbox } from './record.ts';
import { assertNew, resolveRootfs, validateCreate } from './resolve-create.ts';
import type { Sandbox } from './sandbox.ts';
import { takeSnapshot } from './save-sandbox.ts';
import { exportStream } from './saved/archive/write-archive.ts';
import { type ComparePosition, type DifferencePage, DiskComparer } from './saved/compare-disks.ts';
import { followSecrets } from './secret-changes.ts';
import { bindForCreate } from './secrets.ts';
import { exportPaused } from './sleep/export-paused.ts';
import { Sleep } from './sleep/sleep.ts';
import { Snapshots } from './snapshots.ts';
import { stopSandboxes } from './stopping.ts';
import { Operations, type Removal, removeSandbox, Sweeps } from './sweeps.ts';
import { Templates } from './templates.ts';
import { type AllSandboxes, TenantView } from './tenant-view.ts';
import type { CreatedSandbox, CreateSandboxOptions, SandboxInfo, SnapshotInfo } from './types.ts';
import { updateSandbox } from './updates.ts';
import { countInUse, toCreateNeed, toHolding, toRequestedResources } from './usage.ts';
import { Watchdog } from './watchdog.ts';

export class SandboxManager implements SandboxHost, AllSandboxes {
  readonly #options: SandboxManagerOptions;
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #snapshots: Snapshots;
  readonly #templates: Templates;
  readonly #operations = new Operations();
  readonly #startQueue: PQueue;
  readonly #admission: Admission;
  readonly #limits: Limits;
  readonly #sweeps: Sweeps;
  readonly sleep: Sleep;
  readonly moves: Moves;
  readonly #timeoutActions: TimeoutActions;
  readonly #names = new Names(() => this.#sandboxes.values());
  readonly #forks: Forks;
  readonly #comparer: DiskComparer;
  readonly networks: NetworkCalls;
  #watchdog: Disposable | undefined;

  constructor(options: SandboxManagerOptions) {
    const { context, creates, capacity, tenants, log } = options;
    const { engines, events } = context;
    this.#options = options;
    this.#startQueue = new PQueue({ concurrency: capacity.maxConcurrentStarts });
    this.#sweeps = new Sweeps(log);
    this.#admission = new Admission({
      ...capacity,
      maxSandboxes: creates.limits.sandboxes,
      inUse: () => countInUse(this.#sandboxes.values(), this.#sweeps.sandboxes, engines.ifChosen ?? {}),
      freeing: () => this.#sweeps.next(),
      giveWay: () => this.#templates.giveWay(),
    });
    this.#snapshots = new Snapshots(toSnapshotsOptions(options, this.#admission));
    this.#timeoutActions = new TimeoutActions({
      ...{ events, log },
      save: (sandbox, signal, owner) => this.snapshot(sandbox, signal, owner),
      deleteSnapshot: (id) => this.#snapshots.delete(id),
      deleteOlder: (id) => this.#snapshots.deleteOlder(id),
      remove: (sandbox, reason, events) => this.#delete(sandbox, reason, events),
      pause: (sandbox, request) => this.sleep.pause(sandbox, request),
      isManaged: ({ id }) => this.#sandboxes.has(id) && !this.#operations.isStopping,
    });
    this.#limits = new Limits({
      ...tenants,
      sandboxes: () => this.#sandboxes.values().map(toHolding),
      snapshots: () => this.#snapshots.owners,
    });
    this.sleep = new Sleep({
      ...{ context, admission: this.#admission, startQueue: this.#startQueue, log },
      ...capacity.sleep,
      sandboxes: () => this.#sandboxes.values(),
      admitPause: (owner, policy) => this.#limits.admitPause(owner, policy),
      admitResume: (sandbox) => this.#limits.admitResume(toHolding(sandbox)),
      track: (work) => this.#operations.trackSave(work(this.#operations.signal())),
    });
    this.moves = new Moves(options, {
      ...{ admission: this.#admission, limits: this.#limits, names: this.#names, sleep: this.sleep },
      ...{ operations: this.#operations, sandboxes: this.#sandboxes },
      register: (sandbox) => this.#register(sandbox),
      forget: (sandbox, onGone) => this.#remove(sandbox, { onGone }),
    });
    this.#forks = new Forks({
      presets: creates.presets,
      ...{ context, admission: this.#admission, limits: this.#limits, names: this.#names, log },
      ...{ snapshots: this.#snapshots, sleep: this.sleep, startQueue: this.#startQueue },
      add: (need, signal, make, request) => this.#add(need, signal, make, request),
      track: (work) => this.#operations.trackSave(work),
    });
    this.#comparer = new DiskComparer(options.comparer);
    const network = { presets: creates.presets, operations: this.#operations };
    this.networks = new NetworkCalls({ ...network, context, limits: this.#limits });
    this.#templates = new Templates({
      // No client sees the guest of a template, so it has no durable log.
      context: { ...context, logs: undefined },
      ...{ budgetBytes: capacity.templateBudgetBytes, diskBytes: creates.defaults.diskBytes },
      ...{ startQueue: this.#startQueue, log },
      reserve: (need) => this.#admission.reserve(need),
    });
  }

  get #shared() {
    return {
      ...{ templates: this.#templates, admission: this.#admission, startQueue: this.#startQueue },
      ...{ snapshots: this.#snapshots, log: this.#options.log },
    };
  }

  /** The sandboxes, snapshots and queues of all tenants, for metrics. */
  get metricsSource(): SandboxMetricsSource {
    return {
      ...this.#shared,
      ...{ sandboxes: this.#sandboxes, sweeps: this.#sweeps, sleep: this.sleep },
      starting: this.#operations.starts,
      commandCounts: this.#options.context.commandCounts,
    };
  }

  /** Reconciles directories and registry with the running VMMs. Must be called once, before any other method. */
  async start(): Promise<void> {
    const { context, log } = this.#options;
    const adopted = await reconcile(context, log);
    const ids = new Set(adopted.map(({ id }) => id));
    await context.network.tidy();
    await context.logs?.start(ids);
    await context.egressLog.start(ids);
    await this.#snapshots.start();
    await this.#templates.start();
    await forgetIdle(context.directories, ids);
    for (const sandbox of adopted) this.#register(sandbox);
    await settleNetworks(adopted, context.network, log);
    await closeInternet(adopted, { ...context, presets: this.#options.creates.presets }, log);
    const sandboxes = () => this.#sandboxes.values();
    followSecrets({ ...context, sandboxes, signal: this.#operations.signal(), log });
    await Promise.all(adopted.map((sandbox) => this.sleep.adopt(sandbox)));
    this.moves.start();
    const { watchdogTimeoutMs: timeoutMs } = context.settings;
    this.#watchdog = new Watchdog({ timeoutMs, sandboxes, events: context.events, log });
  }

  as(principal: Principal, onResolved?: RequestContext['onResolved']): Sandboxes {
    return new TenantView(this, { principal, onResolved });
  }

  async create(
    options: CreateSandboxOptions,
    requestSignal: AbortSignal | undefined,
    request: SandboxRequest,
  ): Promise<CreatedSandbox> {
    const signal = this.#operations.signal(requestSignal);
    const { context, creates } = this.#options;
    const owner = ownerOf(request.principal);
    const validated = await validateCreate(options, creates, signal);
    const secrets = bindForCreate(options, validated.network, request.principal, context.secrets);
    using name = await this.#names.acquire(request.principal, options, { ...validated, secrets }, signal);
    if (name.existing !== undefined) return { ...name.existing.info, isExisting: true };
    assertNew(options, this.#sandboxes);
    using _admitted = this.#limits.admit(request, toRequestedResources(validated, undefined, secrets));
    await using pins = new AsyncDisposableStack();
    const findOptions = { signal, holds: pins, owner: sharerOf(owner) };
    const resolved = await resolveRootfs(validated, options, creates, findOptions, request.principal);
    await context.engines.chosen(signal);
    const need = toCreateNeed(resolved, context.settings.reservesDisks);
    const input = {
      ...this.#shared,
      options: resolved,
      ...{ owner, id: options.id, signal },
      metadata: toMetadata(options, secrets),
    };
    const make = async () =>
      [await context.engines.withReplacement(() => createSandbox(context, input))] as const;
    const [sandbox] = await this.#add(need, signal, make, request);
    return sandbox.info;
  }

  update: AllSandboxes['update'] = async (sandbox, patch, request) => {
    this.#operations.signal();
    const deps = { names: this.#names, limits: this.#limits, events: this.#options.context.events };
    return this.#operations.trackSave(updateSandbox(sandbox, patch, request, deps));
  };

  countChange = (principal: Principal): void => this.#limits.countChange(principal);
  limitUse: Limits['usage'] = (principal) => this.#limits.usage(principal);
  connectPort: AllSandboxes['connectPort'] = (sandbox, port, options) =>
    connectPort(sandbox, port, this.#options.context.commandCounts.ports, options);
  changePort: AllSandboxes['changePort'] = (sandbox, change) =>
    this.#operations.trackSave(changePort(sandbox, change, this.#options.context.events));

  changePublished: AllSandboxes['changePublished'] = async (sandbox, change, request) => {
    this.#operations.signal();
    const deps = { ...this.#options, limits: this.#limits, sleep: this.sleep };
    return this.#operations.trackSave(changePublished(sandbox, change, request, deps));
  };

  /** Oldest first. */
  list(isVisible: IsVisible): SandboxInfo[] {
    const all = [...this.#sandboxes.values()].filter(
      ({ isGone, record }) => !isGone && isVisible(record.owner),
    );
    return all.map(({ info }) => info).sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  }

  find = (id: string): Sandbox | undefined => this.#sandboxes.get(id);

  /** The id of the sandbox without a tenant that has the name. */
  findNamed = (name: string): string | undefined => this.#names.findShared(name)?.id;

  /** AppError not_found. */
  get(id: string): Sandbox {
    const sandbox = this.find(id);
    if (sandbox === undefined || sandbox.isGone) throw noSandbox(id);
    return sandbox;
  }

  async delete(id: string): Promise<void> {
    await this.#delete(this.find(id) ?? this.get(id));
  }

  async #delete(sandbox: Sandbox, reason?: string, events?: readonly LifecycleEvent[]): Promise<void> {
    // It is hidden at once, unless another host may have it by now.
    if (sandbox.isDeparting) await this.moves.keep(sandbox);
    await this.#remove(sandbox, { reason, events });
  }

  #remove(sandbox: Sandbox, how: Removal): Promise<void> {
    const deps = { sandboxes: this.#sandboxes, events: this.#options.context.events, sweeps: this.#sweeps };
    return removeSandbox(sandbox, { ...deps, snapshots: this.#snapshots }, how);
  }

  /** Called by the sandbox's own handle. */
  async snapshot(sandbox: Sandbox, requestSignal?: AbortSignal, by?: SnapshotRequest): Promise<SnapshotInfo> {
    const signal = this.#operations.signal(requestSignal);
    const take = () => takeSnapshot(sandbox, this.#shared, signal, by);
    return this.#save(by, () => sandbox.snapshotQueue.add(take));
  }

  /** Applies the owner's quota to `make`; a stopping daemon waits for it. */
  #save(by: SnapshotMaker | undefined, make: () => Promise<SnapshotInfo>): Promise<SnapshotInfo> {
    const admitted = by === undefined ? undefined : this.#limits.admitSnapshot(by);
    return this.#operations.trackSave(make()).finally(() => admitted?.[Symbol.dispose]());
  }

  get snapshots(): Snapshots {
    return this.#snapshots;
  }

  exportSnapshot = (id: string): PullStream => exportStream(this.#snapshots.export(id));

  async compareSnapshots(position: ComparePosition, requestSignal?: AbortSignal): Promise<DifferencePage> {
    const signal = this.#operations.signal(requestSignal);
    const toGuest = (id: string) => this.#snapshots.export(id).saved;
    return this.#operations.trackSave(this.#comparer.compare(position, toGuest, signal));
  }

  exportSandbox = async (sandbox: Sandbox, signal?: AbortSignal): Promise<PullStream> =>
    exportPaused(sandbox, this.sleep, this.#options.context, this.#operations.signal(signal));

  async importSnapshot(
    ...[read, options, requestSignal, by]: Parameters<AllSandboxes['importSnapshot']>
  ): Promise<SnapshotInfo> {
    const signal = this.#operations.signal(requestSignal);
    const { context, creates } = this.#options;
    const boot = bootImported.bind(undefined, context, this.#shared);
    const parts = { ...context, ...creates, ...this.#shared, boot };
    return this.#save(by, () => receiveSnapshot(parts, read, options, signal, by));
  }

  /** `source`: the id of a snapshot, or a sandbox. */
  async fork(
    ...[source, count, requestSignal, request, own = {}]: Parameters<AllSandboxes['fork']>
  ): Promise<SandboxInfo[]> {
    const call = [count, this.#operations.signal(requestSignal), request, own] as const;
    return typeof source === 'string'
      ? await this.#forks.ofSnapshot(source, ...call)
      : await this.#forks.ofSandbox(source, ...call);
  }

  /** To one of its own snapshots, or one that it comes from. */
  async rollback(sandbox: Sandbox, snapshotId: string): Promise<void> {
    await this.#options.context.engines.chosen(this.#operations.signal());
    assertComesFrom(sandbox, this.#snapshots.get(snapshotId), (id) => this.#snapshots.ancestorsOf(id));
    await this.sleep.rollback(sandbox, { snapshotId, saved: this.#snapshots.open(snapshotId) });
  }

  /**
   * Graceful shutdown: refuses new work and cancels starts and saves. Sandboxes are detached for adoption by the next
   * daemon, or deleted; rejects when a delete failed.
   */
  async stop(onExit: 'keep' | 'destroy'): Promise<void> {
    this.#watchdog?.[Symbol.dispose]();
    const deps = { sandboxes: this.#sandboxes, operations: this.#operations, sweeps: this.#sweeps };
    const before = [() => this.#templates.stop(), () => this.moves.stop()];
    const stopSnapshots = () => this.#snapshots.stop();
    const remove = (id: string) => this.delete(id);
    await stopSandboxes({ ...deps, before, stopSnapshots, remove, log: this.#options.log }, onExit);
  }

  /** Reserves capacity, runs `make` and commits: all of its sandboxes become visible together, or all are removed. */
  async #add<T extends readonly Sandbox[]>(
    need: Need,
    signal: AbortSignal,
    make: () => Promise<T>,
    { commit }: SandboxRequest,
  ): Promise<T> {
    this.moves.drain.assertOpen();
    const add = async (): Promise<T> => {
      using _reservation = await this.#admission.reserve(need);
      const sandboxes = await commitSandboxes(this.#options.context, await make(), signal, commit);
      for (const sandbox of sandboxes) this.#register(sandbox);
      return sandboxes;
    };
    return this.#operations.trackStart(add());
  }

  #register(sandbox: Sandbox): void {
    this.#sandboxes.set(sandbox.id, sandbox);
    sandbox.beginLife(this.#timeoutActions);
    this.moves.drain.noteNew(sandbox.id);
  }
}
