// Interface of this module: everything that a client can do with sandboxes.
import type { ExecRequest, HostHeader, PortAccess } from '@sandboxd/api';
import type { ExecEvents, ExecOptions, ExecSession } from '../guest/exec.ts';
import type { GuestFiles } from '../guest/files.ts';
import type { PortConnection, PortOptions } from '../guest/port-stream.ts';
import type {
  Owner,
  Principal,
  RequestContext,
  RequestedNetwork,
  RequestedResources,
  RequestedSecret,
  SnapshotMaker,
} from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import type { PublishedPort, Traffic } from '../network/index.ts';
import type { SandboxCommands } from './commands.ts';
import type { SandboxFilter } from './filter.ts';
import type { ChangedNetwork, ExplainedVerdict, NetworkChange, NetworkState } from './network-types.ts';
import type { ByteSource } from './saved/archive/read-archive.ts';
import type { ComparePosition, DifferencePage } from './saved/compare-disks.ts';
import type { DiskUse } from './saved/saved-guest.ts';
import type { SandboxService } from './service.ts';
import type { Automatic, SnapshotPatch, SnapshotWishes } from './snapshot-about.ts';
import type {
  CreatedSandbox,
  CreateSandboxOptions,
  DeletedSandboxes,
  ForkOptions,
  ImportOptions,
  OpenPort,
  ParkedSandbox,
  SandboxInfo,
  SandboxPatch,
  SnapshotInfo,
  TreeNode,
} from './types.ts';
import type { VmUsage } from './vm-usage.ts';

/** Binds a change of the registry to sandboxes or snapshots that are made. */
export type CommitHook<T> = {
  /** Called within the transaction that makes them visible: its writes are there if and only if they are. */
  persist(made: T): void;
  /** They were undone after that. */
  retract(): Promise<void>;
};

/** The client of a create or fork, and what is bound to its commit. */
export type SandboxRequest = RequestContext & {
  readonly commit?: CommitHook<readonly SandboxInfo[]> | undefined;
};
/** The same for a snapshot. */
export type SnapshotRequest = SnapshotMaker & {
  readonly commit?: CommitHook<SnapshotInfo> | undefined;
  readonly about?: SnapshotWishes | undefined;
  readonly automatic?: Automatic | undefined;
};

/**
 * One sandbox. Calls that need its guest: AppError not_found when it was deleted, internal with the cause when its VM
 * died, guest_unreachable when it hangs.
 */
export interface SandboxHandle {
  readonly info: SandboxInfo;
  /**
   * Resolves when its guest can be used: a paused sandbox is resumed, once for all that wait. One that does not resume
   * by use stays paused, and what is called next throws AppError paused. AppError exhausted when it takes too long.
   */
  awake(signal?: AbortSignal): Promise<AwakeSandbox>;
  /** Saves it and ends its VM; with `hasMemory` false only its disk is kept. Does nothing if it is paused. */
  pause(hasMemory: boolean): Promise<void>;
  /**
   * A paused sandbox in the format of an exported snapshot, without resuming it. AppError conflict if it is not paused
   * or has no memory, exhausted.
   */
  export(signal?: AbortSignal): Promise<PullStream>;
  /** Does nothing if it runs. */
  resume(): Promise<void>;
  /**
   * Opens a port for URLs, changes who may use it, or with undefined closes it. Resolves with the open ports. AppError
   * exhausted when there are too many.
   */
  changePort(port: number, access: PortAccess | undefined, host?: HostHeader): Promise<readonly OpenPort[]>;
  /**
   * A port of the host leads to it from now on. Does nothing if it does already. AppError forbidden, conflict for a
   * port in use, invalid_argument without a network and for an address that this host does not have.
   */
  publishPort(port: PublishedPort): Promise<void>;
  /** Resolves when the port of the host is free, on all its addresses. */
  unpublishPort(port: Pick<PublishedPort, 'hostPort' | 'guestPort'>): Promise<void>;
  /** What its guest may reach. AppError conflict without a network. */
  network(): NetworkState;
  /** AppError conflict without a network. */
  checkNetwork(host: string, traffic: Traffic): ExplainedVerdict;
  /**
   * When it resolves, the new policy holds, and the connections that it does not allow are closed. AppError conflict
   * without a network or for another generation, invalid_argument, forbidden, unsupported, internal.
   */
  changeNetwork(change: NetworkChange): Promise<ChangedNetwork>;
  /**
   * It gets memory and disk of a snapshot of its own, or of one that it comes from; what runs in it ends. If this
   * rejects, it goes on as it was. AppError not_found, conflict when it does not come from it.
   */
  rollback(snapshotId: string): Promise<void>;
  /** Starts `count` copies of it, all or none, as forks of a snapshot that is taken now and not kept. */
  fork(
    count: number,
    signal?: AbortSignal,
    options?: ForkOptions,
    commit?: CommitHook<readonly SandboxInfo[]>,
  ): Promise<SandboxInfo[]>;
  /**
   * Resource usage of its VM on the host, also while its guest hangs. AppError not_found, internal when its VM died.
   */
  stats(): VmUsage;
  /**
   * Saves the sandbox, which keeps running. A cancel by `signal` undoes everything. AppError exhausted, internal with
   * the stage.
   */
  snapshot(
    signal?: AbortSignal,
    commit?: CommitHook<SnapshotInfo>,
    about?: SnapshotWishes,
  ): Promise<SnapshotInfo>;
}

/** One that is not paused. Calls are as in `SandboxHandle`. */
export interface AwakeSandbox {
  /** Starts a command in the sandbox's environment. A failure of the command is its exit event. */
  exec(request: ExecRequest, events: ExecEvents, options?: Pick<ExecOptions, 'hasStdin'>): ExecSession;
  /** Its commands by id. */
  commands(): SandboxCommands;
  /** Its supervised service. */
  service(): SandboxService;
  files(): GuestFiles;
  /**
   * Connects to a TCP port within it; a use until the connection is closed. AppError port_not_listening, exhausted,
   * unsupported, also as in `SandboxHandle`.
   */
  connectPort(port: number, options?: PortOptions): Promise<PortConnection>;
}

/** The sandboxes of all tenants; `as` is the view of one client. */
export type IsVisible = (owner: Owner | undefined) => boolean;

export interface SandboxHost {
  /** `onResolved` is called with the resources that the client asks for, allowed or not. */
  as(principal: Principal, onResolved?: (requested: RequestedResources) => void): Sandboxes;
}

/** Paused sandboxes in the snapshot store that no host has. AppError not_found, upstream. */
export interface ParkedSandboxes {
  /**
   * Makes one a sandbox of this host; does nothing if it is here. AppError not_found, also without a store, conflict if
   * it does not fit this host or another host was faster.
   */
  takeOver(id: string): Promise<void>;
  /** Undefined for one that is here. */
  describe(id: string): Promise<ParkedSandbox | undefined>;
  /** As it is listed: paused. */
  get(id: string): Promise<SandboxInfo>;
  /** As they were some seconds ago, oldest first. `problem`: why they may be older, or missing. */
  list(
    filter?: SandboxFilter,
  ): Promise<{ readonly found: readonly SandboxInfo[]; readonly problem?: string }>;
  /** AppError exhausted if a host takes it now. */
  delete(id: string): Promise<void>;
  /** Never rejects. */
  deleteAll(filter: SandboxFilter): Promise<DeletedSandboxes>;
}

/** What the client may not see is not_found. What its policy or quota does not allow: AppError forbidden. */
export interface Sandboxes {
  /** Whether what has this owner exists for the client. Needs no `this`. */
  readonly isVisible: IsVisible;
  /**
   * Creates a sandbox, or returns the one that has its name if it asks for that; resolves after its guest agent
   * answered. A cancel by `signal` rolls everything back. AppError: invalid_argument (unknown profile, bounds),
   * conflict when the name is taken, exhausted, internal with the stage.
   */
  create(
    options: CreateSandboxOptions,
    signal?: AbortSignal,
    commit?: CommitHook<readonly SandboxInfo[]>,
  ): Promise<CreatedSandbox>;
  /** Whether the client may store a secret for these hosts. AppError forbidden. */
  admitSecret(secret: RequestedSecret): void;
  /** Whether its sandboxes may have such a network. */
  mayUse(network: RequestedNetwork): boolean;
  /** Oldest first. */
  list(filter?: SandboxFilter): SandboxInfo[];
  /** Deletes those that match. Never rejects. */
  deleteAll(filter: SandboxFilter): Promise<DeletedSandboxes>;
  /** AppError not_found. */
  get(id: string): SandboxHandle;
  /** All changes or none. AppError not_found, invalid_argument, conflict when another sandbox has the name. */
  update(id: string, patch: SandboxPatch): Promise<SandboxInfo>;
  /**
   * Resolves when the sandbox is unreachable and its shared resources are free; slow clean-up continues in the
   * background. AppError not_found.
   */
  delete(id: string): Promise<void>;
  /** What the snapshot store offers. */
  readonly parked: ParkedSandboxes;
  /**
   * Brings what is known of the snapshot store up to date, unless `id` is known. Returns why that was not possible; for
   * an unknown id then AppError upstream.
   */
  refreshSnapshots(id?: string, signal?: AbortSignal): Promise<string | undefined>;
  /** Ensures that a snapshot is on this host. AppError not_found, conflict if it does not fit it, upstream. */
  fetchSnapshot(id: string, signal?: AbortSignal): Promise<void>;
  /** Oldest first. */
  listSnapshots(): SnapshotInfo[];
  /** AppError not_found. */
  getSnapshot(id: string): SnapshotInfo;
  /** Reads its files' tables of extents. AppError not_found. */
  measureSnapshot(id: string): Promise<DiskUse>;
  /**
   * The whole snapshot as one stream; a truncated copy cannot be imported. AppError not_found, and from the stream
   * internal when it is damaged.
   */
  exportSnapshot(id: string): PullStream;
  /**
   * The files that differ between the disks of two snapshots; `to` may be a name. AppError not_found, conflict with the
   * reason why they cannot be compared, exhausted.
   */
  compareSnapshots(position: ComparePosition, signal?: AbortSignal): Promise<DifferencePage>;
  /**
   * Imports a snapshot of another host. AppError conflict with the reason why it cannot run here, invalid_argument
   * for a malformed stream, exhausted; everything is undone then.
   */
  importSnapshot(
    read: ByteSource,
    options: ImportOptions,
    signal?: AbortSignal,
    commit?: CommitHook<SnapshotInfo>,
  ): Promise<SnapshotInfo>;
  /**
   * All snapshots and sandboxes of its tree, in no order. The snapshot may be deleted, if others came from it. AppError
   * not_found.
   */
  snapshotTree(id: string): TreeNode[];
  /** Changes its name, labels, comment and expiry, all or none. AppError not_found, conflict when the name is taken. */
  changeSnapshot(id: string, patch: SnapshotPatch): Promise<SnapshotInfo>;
  /** Resolves when its files are removed; its forks keep running. AppError not_found. */
  deleteSnapshot(id: string): Promise<void>;
  /**
   * Starts `count` copies of a snapshot, all or none; only a single copy may publish ports. AppError not_found,
   * invalid_argument, exhausted, conflict when the engine no longer matches, internal with the stage (also when the
   * snapshot is damaged).
   */
  fork(
    snapshotId: string,
    count: number,
    signal?: AbortSignal,
    options?: ForkOptions,
    commit?: CommitHook<readonly SandboxInfo[]>,
  ): Promise<SandboxInfo[]>;
}
