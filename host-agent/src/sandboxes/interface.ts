// The face of this room: everything a caller can do with sandboxes.
import type { ExecRequest } from '@sandboxd/api';
import type { ExecEvents, ExecOptions, ExecSession } from '../guest/exec-types.ts';
import type { GuestFiles } from '../guest/files.ts';
import type { Principal, RequestedResources } from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import type { PublishedPort } from '../network/index.ts';
import type { ByteSource } from './saved/archive/read-archive.ts';
import type { SandboxService } from './service.ts';
import type { CreateSandboxOptions, ImportOptions, SandboxInfo, SnapshotInfo } from './types.ts';
import type { VmUsage } from './vm-usage.ts';

/**
 * One sandbox. What needs its guest: AppError not_found when it was deleted meanwhile, internal naming the cause when its
 * VM died, guest_unreachable when it hangs.
 */
export interface SandboxHandle {
  readonly info: SandboxInfo;
  /** Starts a command in the sandbox's environment. Failures of the command itself are its exit event. */
  exec(request: ExecRequest, events: ExecEvents, options?: Pick<ExecOptions, 'hasStdin'>): ExecSession;
  /** Its supervised service. */
  service(): SandboxService;
  files(): GuestFiles;
  /** What its VM takes of the host, also while its guest hangs. AppError not_found, internal when its VM died. */
  stats(): VmUsage;
  /** Saves it; it goes on. Cancelled by `signal`, with everything undone. AppError exhausted, internal with the stage. */
  snapshot(signal?: AbortSignal): Promise<SnapshotInfo>;
}

/** The sandboxes of all tenants; `as` is the view of one client. */
export interface SandboxHost {
  /** `onResolved` is called with the resources that the client asks for, allowed or not. */
  as(principal: Principal, onResolved?: (requested: RequestedResources) => void): Sandboxes;
}

/** What a caller does not see is not found. What their policy or quota does not let them make: AppError forbidden. */
export interface Sandboxes {
  /**
   * Boots a sandbox; resolves once its guest agent answered. Cancelled by `signal`, with everything rolled back.
   * AppError: invalid_argument (unknown profile, bounds), exhausted, internal with the stage.
   */
  create(options: CreateSandboxOptions, signal?: AbortSignal): Promise<SandboxInfo>;
  /** Oldest first. */
  list(): SandboxInfo[];
  /** AppError not_found. */
  get(id: string): SandboxHandle;
  /** Resolves when nobody can reach it and all that others may want is free; the rest goes behind that. AppError not_found. */
  delete(id: string): Promise<void>;
  /** Oldest first. */
  listSnapshots(): SnapshotInfo[];
  /** AppError not_found. */
  getSnapshot(id: string): SnapshotInfo;
  /** All of it as one stream, which nobody else can import half of. AppError not_found, and by the stream internal when it is damaged. */
  exportSnapshot(id: string): PullStream;
  /**
   * One of another host. AppError conflict naming why it cannot run here, invalid_argument for what is no such stream, exhausted; nothing
   * of it is left then.
   */
  importSnapshot(read: ByteSource, options: ImportOptions, signal?: AbortSignal): Promise<SnapshotInfo>;
  /** Resolves when nothing of it is left; its forks go on. AppError not_found. */
  deleteSnapshot(id: string): Promise<void>;
  /**
   * Starts `count` copies of a snapshot, all or none; one alone may publish ports. AppError not_found, invalid_argument, exhausted, conflict when the engine does not fit
   * any more, internal with the stage (also when the snapshot is damaged).
   */
  fork(
    snapshotId: string,
    count: number,
    signal?: AbortSignal,
    publish?: readonly PublishedPort[],
  ): Promise<SandboxInfo[]>;
}
