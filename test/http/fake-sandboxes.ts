// Sandboxes without virtual machines: what each test makes of create and exec, and a record of what was asked.
import type { ExecRequest } from '@sandboxd/api';
import type { FileCallInput, FileReadInput, FileWriteInput } from '@sandboxd/proto';
import type { ExecEvents, ExecSession } from '../../host-agent/src/guest/exec.ts';
import type { FileDescription } from '../../host-agent/src/guest/file-description.ts';
import type {
  ByteSource,
  FileCallAnswer,
  GuestFiles,
  PulledFile,
  ReadFile,
} from '../../host-agent/src/guest/files.ts';
import { canSee, OPERATOR, type Principal } from '../../host-agent/src/keys/index.ts';
import type { PullStream } from '../../host-agent/src/lib/byte-queue.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { newId } from '../../host-agent/src/lib/ids.ts';
import type { SandboxCommands } from '../../host-agent/src/sandboxes/commands.ts';
import { matchesFilter, type SandboxFilter } from '../../host-agent/src/sandboxes/filter.ts';
import type {
  AwakeSandbox,
  CommitHook,
  Sandboxes,
  SandboxHandle,
  SandboxHost,
} from '../../host-agent/src/sandboxes/interface.ts';
import { assertCanPublish } from '../../host-agent/src/sandboxes/resolve-create.ts';
import type { SandboxService } from '../../host-agent/src/sandboxes/service.ts';
import { type AboutPatch, changeAbout, toAbout } from '../../host-agent/src/sandboxes/snapshot-about.ts';
import type {
  CreateSandboxOptions,
  DeletedSandboxes,
  ForkOptions,
  ImportOptions,
  OpenPort,
  SandboxInfo,
  SandboxPatch,
  SnapshotInfo,
  TreeNode,
} from '../../host-agent/src/sandboxes/types.ts';
import type { VmUsage } from '../../host-agent/src/sandboxes/vm-usage.ts';
import { fakeCommands } from './fake-commands.ts';
import { FakeExec, type Script } from './fake-exec.ts';
import { FILE, fakeInfo, NOTHING_PARKED, outflow } from './fake-info.ts';
import { FakeNetwork } from './fake-network.ts';
import { watchOf } from './fake-watch.ts';

export { FakeExec, type Script } from './fake-exec.ts';
export { FILE, outflow };

export class FakeSandboxes implements Sandboxes, SandboxHost {
  readonly callers: (Principal | undefined)[] = [];
  readonly created: CreateSandboxOptions[] = [];
  readonly execs: FakeExec[] = [];
  readonly patches: SandboxPatch[] = [];
  readonly forked: Omit<ForkOptions, 'publish'>[] = [];
  readonly #infos = new Map<string, SandboxInfo>();
  onCreate: (options: CreateSandboxOptions, signal?: AbortSignal) => Promise<void> = async () => {};
  onDelete: (id: string) => Promise<void> = async () => {};
  script: Script = (exec) => {
    exec.events.started?.(7);
    exec.exit();
  };

  onPush: GuestFiles['pushFiles'] = async () => ({ files: 0, bytes: 0 });
  onPull: (path: string, maxBytes: number | undefined, signal?: AbortSignal) => Promise<PulledFile> =
    async () => ({ body: outflow() });

  /** What is asked about single files; each answer describes the same file. */
  readonly fileCalls: FileCallInput[] = [];
  onFileCall: (call: FileCallInput) => Promise<FileCallAnswer> = async (call) => {
    this.fileCalls.push(call);
    return { entry: FILE, entries: [FILE], hasMore: false, count: 1 };
  };
  onRead: (read: FileReadInput) => Promise<ReadFile> = async () => ({
    body: outflow(),
    sizeBytes: 0,
    contentBytes: 0,
    entry: FILE,
  });
  onWatch = watchOf([]);
  onConnect: AwakeSandbox['connectPort'] = async (port) => {
    throw new AppError('port_not_listening', `nothing listens on port ${port} of the sandbox`);
  };

  onWrite: (write: FileWriteInput, read: ByteSource) => Promise<FileDescription> = async (_write, read) => {
    while ((await read()) !== undefined);
    return FILE;
  };

  isVisible: Sandboxes['isVisible'] = () => true;
  as(principal: Principal | undefined): Sandboxes {
    this.callers.push(principal);
    this.isVisible = canSee.bind(null, principal ?? OPERATOR);
    return this;
  }
  admitSecret = (): void => undefined;
  mayUse = (): boolean => true;

  add(id = newId('sbx')): SandboxInfo {
    const info = fakeInfo(id);
    this.#infos.set(id, info);
    return info;
  }

  async create(
    options: CreateSandboxOptions,
    signal?: AbortSignal,
    commit?: CommitHook<readonly SandboxInfo[]>,
  ): Promise<SandboxInfo> {
    this.created.push(options);
    await this.onCreate(options, signal);
    const info = this.add(options.id);
    commit?.persist([info]);
    return info;
  }

  readonly network = new FakeNetwork();

  async update(id: string, patch: SandboxPatch): Promise<SandboxInfo> {
    this.patches.push(patch);
    return this.get(id).info;
  }

  list(filter: SandboxFilter = {}): SandboxInfo[] {
    return [...this.#infos.values()].filter((info) => matchesFilter(info, filter));
  }

  async deleteAll(filter: SandboxFilter): Promise<DeletedSandboxes> {
    const deleted = this.list(filter).map(({ id }) => id);
    await Promise.all(deleted.map((id) => this.delete(id)));
    return { deleted, failed: [] };
  }

  get(id: string): SandboxHandle {
    const info = this.#infos.get(id);
    if (info === undefined) throw new AppError('not_found', `sandbox ${id} does not exist`);
    return {
      info,
      awake: async () => this.#awake(id),
      export: async () => {
        this.get(id);
        return outflow(`archive of ${id}`);
      },
      pause: async () => this.#change(id, { state: 'paused', pausedAt: new Date(0) }),
      resume: async () => this.#change(id, { state: 'running' }),
      changePort: async (port, access, host) =>
        this.#changePort(id, port, { ...(access && { access }), ...(host === 'localhost' && { host }) }),
      publishPort: async (port) =>
        this.#change(id, { published: [...(this.get(id).info.published ?? []), port] }),
      unpublishPort: async ({ hostPort }) => {
        const { published = [] } = this.get(id).info;
        this.#change(id, { published: published.filter((each) => each.hostPort !== hostPort) });
      },
      ...this.network.handle(),
      rollback: async (snapshotId) => {
        if (this.getSnapshot(snapshotId).sourceId !== id)
          throw new AppError('conflict', `snapshot ${snapshotId} is not of sandbox ${id}`);
        this.#change(id, { state: 'running' });
      },
      fork: (count, signal, options, commit) =>
        this.#copies(count, signal, options, commit, { sourceSandboxId: id }),
      stats: () => {
        this.get(id);
        return this.stats;
      },
      snapshot: async (_signal, commit, about = {}) => {
        const snapshot = { ...(await this.snapshot(id)), ...toAbout(about) };
        this.snapshots.set(snapshot.id, snapshot);
        commit?.persist(snapshot);
        return snapshot;
      },
    };
  }

  #change(id: string, change: Partial<SandboxInfo>): void {
    const { pausedAt: _, ...info } = this.get(id).info;
    this.#infos.set(id, { ...info, ...change });
  }

  #changePort(id: string, port: number, change: Partial<OpenPort>): readonly OpenPort[] {
    const others = (this.get(id).info.ports ?? []).filter((each) => each.port !== port);
    const { access } = change;
    const ports = access === undefined ? others : [...others, { port, openedAtMs: 0, ...change, access }];
    this.#change(id, { ports });
    return ports;
  }

  #awake(id: string): AwakeSandbox {
    return {
      exec: (request, events, options) => this.exec(id, request, events, options?.hasStdin),
      commands: () => {
        this.get(id);
        return this.commandCalls as SandboxCommands;
      },
      service: () => this.service(id),
      files: () => ({
        pushFiles: (...push) => this.onPush(...push),
        pullFile: (path, maxBytes, signal) => this.onPull(path, maxBytes, signal),
        pullDirectory: (path, signal) => this.onPull(path, undefined, signal),
        call: (call) => this.onFileCall(call),
        read: (read) => this.onRead(read),
        write: (write, read) => this.onWrite(write, read),
        watch: (watch, events) => this.onWatch(watch, events),
      }),
      connectPort: (port, options) => this.onConnect(port, options),
    };
  }

  stats: VmUsage = {
    cpuMs: 10,
    residentBytes: 2,
    privateBytes: 1,
    readBytes: 0,
    writtenBytes: 0,
    layerBytes: 0,
  };

  async delete(id: string): Promise<void> {
    this.get(id);
    await this.onDelete(id);
    this.#infos.delete(id);
  }

  /** What `commands` gives: a command that has ended, without output. */
  commandCalls: Partial<SandboxCommands> = fakeCommands();
  /** What `service` gives; each test brings the calls that it needs. */
  serviceCalls: Partial<SandboxService> = {};
  service(id: string): SandboxService {
    this.get(id);
    return this.serviceCalls as SandboxService;
  }

  readonly snapshots = new Map<string, SnapshotInfo>();
  onFork: (count: number, signal?: AbortSignal) => Promise<void> = async () => {};
  refreshSnapshots = async () => undefined;
  parked = NOTHING_PARKED;
  fetchSnapshot = async () => undefined;

  async snapshot(id: string): Promise<SnapshotInfo> {
    this.get(id);
    const snapshotId = newId('snap');
    const dir = `/data/snapshots/${snapshotId}`;
    const snapshot = {
      id: snapshotId,
      createdAt: new Date('2024-05-06T07:08:09.010Z'),
      sourceId: id,
      dir,
      memoryPath: `${dir}/memory`,
      rootfsPath: `${dir}/disk`,
      statePath: `${dir}/state`,
      memoryMib: 512,
      vcpus: 1,
    };
    this.snapshots.set(snapshotId, snapshot);
    return snapshot;
  }

  listSnapshots(): SnapshotInfo[] {
    return [...this.snapshots.values()];
  }

  async measureSnapshot(id: string) {
    this.getSnapshot(id);
    return { diskBytes: 8192, uniqueBytes: 4096 };
  }

  snapshotTree(id: string): TreeNode[] {
    return [{ kind: 'snapshot', ...this.getSnapshot(id) }];
  }

  getSnapshot(id: string): SnapshotInfo {
    const snapshot = this.snapshots.get(id);
    if (snapshot === undefined) throw new AppError('not_found', `snapshot ${id} does not exist`);
    return snapshot;
  }

  onCompare: Sandboxes['compareSnapshots'] = async () => ({ files: [] });
  async compareSnapshots(...asked: Parameters<Sandboxes['compareSnapshots']>) {
    for (const id of [asked[0].from, asked[0].to]) this.getSnapshot(id);
    return this.onCompare(...asked);
  }

  exportSnapshot(id: string): PullStream {
    this.getSnapshot(id);
    return outflow(`archive of ${id}`);
  }

  readonly imports: ImportOptions[] = [];

  /** Takes what `exportSnapshot` gives, and any other bytes as those of the first that there is. */
  async importSnapshot(
    read: () => Promise<Uint8Array | undefined>,
    options: ImportOptions,
  ): Promise<SnapshotInfo> {
    const parts: Uint8Array[] = [];
    for (let part = await read(); part !== undefined; part = await read()) parts.push(part);
    this.imports.push(options);
    const text = Buffer.concat(parts).toString();
    if (text === 'nonsense') throw new AppError('invalid_argument', 'it is no archive');
    return this.getSnapshot(/snap_\w+/.exec(text)?.[0] ?? [...this.snapshots.keys()][0] ?? '');
  }

  async changeSnapshot(id: string, patch: AboutPatch): Promise<SnapshotInfo> {
    const { name: _, labels: __, comment: ___, ...snapshot } = this.getSnapshot(id);
    const changed = { ...snapshot, ...changeAbout(this.getSnapshot(id), patch) };
    this.snapshots.set(id, changed);
    return changed;
  }

  async deleteSnapshot(id: string): Promise<void> {
    this.getSnapshot(id);
    this.snapshots.delete(id);
  }

  /** No snapshot of these has a network. */
  async fork(
    id: string,
    count: number,
    signal?: AbortSignal,
    options?: ForkOptions,
    commit?: CommitHook<readonly SandboxInfo[]>,
  ): Promise<SandboxInfo[]> {
    this.getSnapshot(id);
    return await this.#copies(count, signal, options, commit, { sourceSnapshotId: id });
  }

  async #copies(
    count: number,
    signal: AbortSignal | undefined,
    { publish = [], ids = [], ...own }: ForkOptions = {},
    commit: CommitHook<readonly SandboxInfo[]> | undefined,
    source: Partial<SandboxInfo>,
  ): Promise<SandboxInfo[]> {
    this.forked.push(own);
    assertCanPublish(publish, count, {});
    await this.onFork(count, signal);
    const forks = Array.from({ length: count }, (_, at) => ({ ...this.add(ids[at]), ...source }));
    commit?.persist(forks);
    return forks;
  }

  exec(id: string, request: ExecRequest, events: ExecEvents, hasStdin = false): ExecSession {
    this.get(id);
    const exec = new FakeExec(request, events, hasStdin);
    this.execs.push(exec);
    queueMicrotask(() => this.script(exec)); // As on the real channel: after the caller has the session.
    return exec;
  }
}
