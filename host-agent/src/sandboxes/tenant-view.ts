// One client's view of sandboxes and snapshots: those of other tenants do not exist for it, and what it creates
// belongs to it.
import PQueue from 'p-queue';
import type { PortConnection, PortOptions } from '../guest/port-stream.ts';
import {
  assertOperation,
  canSee,
  clampTimeout,
  ownerOf,
  type Principal,
  policyOf,
  type RequestContext,
  type RequestedNetwork,
  type RequestedSecret,
  type SnapshotMaker,
} from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import { AppError } from '../lib/errors.ts';
import { newId } from '../lib/ids.ts';
import { matchesFilter, type SandboxFilter } from './filter.ts';
import type {
  AwakeSandbox,
  CommitHook,
  IsVisible,
  Sandboxes,
  SandboxHandle,
  SandboxRequest,
  SnapshotRequest,
} from './interface.ts';
import type { Moves } from './moves/index.ts';
import { ParkedView } from './moves/parked-view.ts';
import type { NetworkCalls } from './network-calls.ts';
import type { PortChange } from './ports.ts';
import type { PublishChange } from './publish.ts';
import type { Sandbox } from './sandbox.ts';
import type { ByteSource } from './saved/archive/read-archive.ts';
import type { ComparePosition, DifferencePage } from './saved/compare-disks.ts';
import type { DiskUse } from './saved/saved-guest.ts';
import type { Sleep } from './sleep/sleep.ts';
import type { SnapshotPatch } from './snapshot-about.ts';
import { noSnapshot } from './snapshot-record.ts';
import type { Snapshots } from './snapshots.ts';
import type {
  CreatedSandbox,
  CreateSandboxOptions,
  DeletedSandboxes,
  ForkOptions,
  ImportOptions,
  OpenPort,
  SandboxInfo,
  SandboxPatch,
  SnapshotInfo,
  TreeNode,
} from './types.ts';

/** Deletes of one request at a time. */
const MAX_CONCURRENT_DELETES = 16;

/** The sandboxes and snapshots of all tenants, for callers that check visibility. Calls are as in `Sandboxes`. */
export interface AllSandboxes {
  create(
    options: CreateSandboxOptions,
    signal: AbortSignal | undefined,
    request: SandboxRequest,
  ): Promise<CreatedSandbox>;
  update(sandbox: Sandbox, patch: SandboxPatch, request: RequestContext): Promise<SandboxInfo>;
  readonly networks: NetworkCalls;
  /** Counts a request to change one. AppError forbidden. */
  countChange(principal: Principal): void;
  connectPort(sandbox: Sandbox, port: number, options?: PortOptions): Promise<PortConnection>;
  changePort(sandbox: Sandbox, change: PortChange): Promise<readonly OpenPort[]>;
  changePublished(sandbox: Sandbox, change: PublishChange, request: RequestContext): Promise<void>;
  list(isVisible: IsVisible): SandboxInfo[];
  /** Also finds a sandbox that is being deleted. */
  find(id: string): Sandbox | undefined;
  /** A concurrent second delete waits for the first. */
  delete(id: string): Promise<void>;
  readonly snapshots: Pick<
    Snapshots,
    'list' | 'get' | 'measure' | 'ownerOf' | 'tree' | 'change' | 'delete' | 'fetch' | 'stored'
  >;
  readonly sleep: Pick<Sleep, 'pause' | 'resume' | 'wake'>;
  readonly moves: Pick<Moves, 'takeOver' | 'describe' | 'missing' | 'offers'>;
  exportSnapshot(id: string): PullStream;
  compareSnapshots(position: ComparePosition, signal?: AbortSignal): Promise<DifferencePage>;
  exportSandbox(sandbox: Sandbox, signal?: AbortSignal): Promise<PullStream>;
  importSnapshot(
    read: ByteSource,
    options: ImportOptions,
    signal: AbortSignal | undefined,
    by: SnapshotRequest | undefined,
  ): Promise<SnapshotInfo>;
  /** `source`: the id of a snapshot, or a sandbox. */
  fork(
    source: string | Sandbox,
    count: number,
    signal: AbortSignal | undefined,
    request: SandboxRequest,
    options?: ForkOptions,
  ): Promise<SandboxInfo[]>;
  rollback(sandbox: Sandbox, snapshotId: string): Promise<void>;
}

export class TenantView implements Sandboxes {
  readonly #host: AllSandboxes;
  readonly #request: RequestContext;
  readonly isVisible: IsVisible = (owner) => canSee(this.#request.principal, owner);

  constructor(host: AllSandboxes, request: RequestContext) {
    this.#host = host;
    this.#request = request;
  }

  create(
    options: CreateSandboxOptions,
    signal?: AbortSignal,
    commit?: CommitHook<readonly SandboxInfo[]>,
  ): Promise<CreatedSandbox> {
    return this.#host.create(options, signal, { ...this.#request, commit });
  }

  admitSecret(secret: RequestedSecret): void {
    this.#host.countChange(this.#request.principal);
    this.#host.networks.admitSecrets(this.#request, [secret]);
  }

  mayUse(network: RequestedNetwork): boolean {
    return this.#host.networks.isAdmitted(this.#request, network);
  }

  list(filter: SandboxFilter = {}): SandboxInfo[] {
    return this.#host.list(this.isVisible).filter((info) => matchesFilter(info, filter));
  }

  async deleteAll(filter: SandboxFilter): Promise<DeletedSandboxes> {
    const deleted: string[] = [];
    const failed: { readonly id: string; readonly error: unknown }[] = [];
    const queue = new PQueue({ concurrency: MAX_CONCURRENT_DELETES });
    const deleteOne = async (id: string): Promise<void> => {
      // Checked again: while it waited, it may have been changed or deleted.
      const sandbox = this.#host.find(id);
      if (sandbox === undefined || !matchesFilter(sandbox.info, filter)) return;
      try {
        await this.#host.delete(id);
        deleted.push(id);
      } catch (error) {
        if (this.#host.find(id) !== undefined) failed.push({ id, error });
      }
    };
    await queue.addAll(
      this.list(filter).map(
        ({ id }) =>
          () =>
            deleteOne(id),
      ),
    );
    return { deleted, failed };
  }

  get(id: string): SandboxHandle {
    const sandbox = this.#find(id);
    if (sandbox.isGone) throw this.#host.moves.missing(id, this.isVisible);
    const { sleep } = this.#host;
    const { principal } = this.#request;
    const policy = policyOf(principal);
    return {
      info: sandbox.info,
      awake: async (signal) => {
        await sleep.wake(sandbox, signal);
        return this.#awake(sandbox);
      },
      pause: (hasMemory) => sleep.pause(sandbox, { hasMemory, reason: 'request', ...(policy && { policy }) }),
      export: (signal) => this.#host.exportSandbox(sandbox, signal),
      resume: () => sleep.resume(sandbox),
      changePort: async (port, access, host) => {
        this.#host.countChange(principal);
        return await this.#host.changePort(sandbox, { port, access, host });
      },
      publishPort: async (add) => {
        this.#host.countChange(principal);
        await this.#host.changePublished(sandbox, { add }, this.#request);
      },
      unpublishPort: async (remove) => {
        this.#host.countChange(principal);
        await this.#host.changePublished(sandbox, { remove }, this.#request);
      },
      network: () => this.#host.networks.show(sandbox),
      checkNetwork: (host, traffic) => this.#host.networks.check(sandbox, host, traffic),
      changeNetwork: async (change) => {
        this.#host.countChange(principal);
        return await this.#host.networks.change(sandbox, change, this.#request);
      },
      rollback: async (snapshotId) => {
        const visible = this.#assertVisible(snapshotId);
        this.#host.countChange(principal);
        await this.fetchSnapshot(visible);
        await this.#host.rollback(sandbox, visible);
      },
      fork: async (count, signal, options, commit) => {
        assertOperation(principal, 'snapshot');
        return await this.#host.fork(sandbox, count, signal, { ...this.#request, commit }, options);
      },
      stats: () => sandbox.stats(),
      snapshot: async (signal, commit, about) => {
        await sleep.wake(sandbox, signal);
        return await sandbox.snapshot(signal, { ...this.#maker, commit, about });
      },
    };
  }

  #awake(sandbox: Sandbox): AwakeSandbox {
    const { principal } = this.#request;
    return {
      exec: (request, events, options) => {
        const timeout_s = clampTimeout(request.timeout_s, policyOf(principal) ?? {});
        return sandbox.exec({ ...request, timeout_s }, events, { ...options, id: newId('cmd') });
      },
      commands: () => {
        const commands = sandbox.commands();
        const start: typeof commands.start = (request) => {
          const timeout_s = clampTimeout(request.timeout_s, policyOf(principal) ?? {});
          return commands.start({ ...request, timeout_s });
        };
        return { ...commands, start };
      },
      service: () => sandbox.service(),
      files: () => sandbox.files(),
      connectPort: (port, options) => this.#host.connectPort(sandbox, port, options),
    };
  }

  async update(id: string, patch: SandboxPatch): Promise<SandboxInfo> {
    const sandbox = this.#find(id);
    this.#host.countChange(this.#request.principal);
    return await this.#host.update(sandbox, patch, this.#request);
  }

  async delete(id: string): Promise<void> {
    await this.#host.delete(this.#find(id).id);
  }

  get parked(): ParkedView {
    const findHere = (id: string) => this.#host.find(id);
    return new ParkedView({ moves: this.#host.moves, isVisible: this.isVisible, findHere });
  }

  async refreshSnapshots(id?: string, signal?: AbortSignal): Promise<string | undefined> {
    return await this.#host.snapshots.stored?.refresh(id, signal);
  }

  async fetchSnapshot(id: string, signal: AbortSignal = new AbortController().signal): Promise<void> {
    await this.refreshSnapshots(id, signal);
    await this.#host.snapshots.fetch(this.#assertVisible(id), signal);
  }

  listSnapshots(): SnapshotInfo[] {
    return this.#host.snapshots.list(this.isVisible);
  }

  getSnapshot(id: string): SnapshotInfo {
    return this.#host.snapshots.get(this.#assertVisible(id));
  }

  async measureSnapshot(id: string): Promise<DiskUse> {
    return await this.#host.snapshots.measure(this.#assertVisible(id));
  }

  exportSnapshot(id: string): PullStream {
    return this.#host.exportSnapshot(this.#assertVisible(id));
  }

  async compareSnapshots({ from, to, ...page }: ComparePosition, signal?: AbortSignal) {
    const ids = { from: this.#assertVisible(from), to: this.#findSnapshot(to) };
    for (const id of Object.values(ids)) await this.fetchSnapshot(id, signal);
    return await this.#host.compareSnapshots({ ...page, ...ids }, signal);
  }

  importSnapshot(
    read: ByteSource,
    options: ImportOptions,
    signal?: AbortSignal,
    commit?: CommitHook<SnapshotInfo>,
  ): Promise<SnapshotInfo> {
    return this.#host.importSnapshot(read, options, signal, { ...this.#maker, commit });
  }

  snapshotTree(id: string): TreeNode[] {
    const snapshots = this.#host.snapshots.tree(id, this.isVisible);
    const ids = new Set(snapshots.map(({ id }) => id));
    const sandboxes = this.list().flatMap(({ id, parentSnapshotId: parentId, createdAt, name, state }) =>
      parentId !== undefined && ids.has(parentId)
        ? [{ kind: 'sandbox' as const, id, parentId, createdAt, name, state }]
        : [],
    );
    return [...snapshots, ...sandboxes];
  }

  async changeSnapshot(id: string, patch: SnapshotPatch): Promise<SnapshotInfo> {
    const visible = this.#assertVisible(id);
    this.#host.countChange(this.#request.principal);
    return await this.#host.snapshots.change(visible, patch);
  }

  async deleteSnapshot(id: string): Promise<void> {
    await this.#host.snapshots.delete(this.#assertVisible(id));
  }

  async fork(
    id: string,
    count: number,
    signal?: AbortSignal,
    options?: ForkOptions,
    commit?: CommitHook<readonly SandboxInfo[]>,
  ): Promise<SandboxInfo[]> {
    const request = { ...this.#request, commit };
    return await this.#host.fork(this.#assertVisible(id), count, signal, request, options);
  }

  get #maker(): SnapshotMaker {
    const { principal } = this.#request;
    return { owner: ownerOf(principal), policy: policyOf(principal) };
  }

  /** AppError not_found: what the client may not see does not exist for it; exhausted if it has just moved. */
  #find(id: string): Sandbox {
    const sandbox = this.#host.find(id);
    if (sandbox === undefined || !this.isVisible(sandbox.record.owner))
      throw this.#host.moves.missing(id, this.isVisible);
    return sandbox;
  }

  /** An id for an id or a name. AppError not_found, conflict if several have the name. */
  #findSnapshot(idOrName: string): string {
    if (idOrName.startsWith('snap_')) return this.#assertVisible(idOrName);
    const [found, other] = this.listSnapshots().filter(({ name }) => name === idOrName);
    if (found === undefined) throw new AppError('not_found', `no snapshot has the name ${idOrName}`);
    if (other === undefined) return found.id;
    throw new AppError('conflict', `several snapshots have the name ${idOrName}; give an id`);
  }

  /** Returns the snapshot's id. AppError not_found. */
  #assertVisible(id: string): string {
    if (this.isVisible(this.#host.snapshots.ownerOf(id))) return id;
    throw noSnapshot(id);
  }
}
