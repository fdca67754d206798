// The face of this room: everything a caller can do with sandboxes.
import type { ExecEvents, ExecSession, ExecSpec } from '../guest/exec-types.ts';
import type { ByteSource, PulledFile, PushResult } from '../guest/files.ts';
import type { SandboxService } from './service.ts';
import type { CreateSandboxOptions, SandboxInfo, SnapshotInfo } from './types.ts';

/** An exec as a client asks for it; the sandbox's environment is joined with `env`. */
export type ExecRequest = Omit<ExecSpec, 'env'> & { readonly env: Readonly<Record<string, string>> };

/**
 * Files in and out; paths are absolute paths of the guest. AppError guest_unreachable, else invalid_argument with the
 * guest's reason. Cancelled by `signal`.
 */
export interface SandboxFiles {
  pushFiles(path: string, read: ByteSource, signal?: AbortSignal): Promise<PushResult>;
  pullFile(path: string, maxBytes: number, signal?: AbortSignal): Promise<PulledFile>;
  /** A tar archive of the directory. */
  pullDirectory(path: string, signal?: AbortSignal): Promise<PulledFile>;
}

/**
 * One sandbox. What needs its guest: AppError not_found when it was deleted meanwhile, internal naming the cause when its
 * VM died, guest_unreachable when it hangs.
 */
export interface SandboxHandle {
  readonly info: SandboxInfo;
  /** Starts a command. Failures of the command itself are its exit event. */
  exec(request: ExecRequest, events: ExecEvents): ExecSession;
  /** Its supervised service. */
  service(): SandboxService;
  files(): SandboxFiles;
  /** Saves it; it goes on. Cancelled by `signal`, with everything undone. AppError exhausted, internal with the stage. */
  snapshot(signal?: AbortSignal): Promise<SnapshotInfo>;
}

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
  /** Resolves when nothing of it is left. AppError not_found. */
  delete(id: string): Promise<void>;
  /** Oldest first. */
  listSnapshots(): SnapshotInfo[];
  /** AppError not_found. */
  getSnapshot(id: string): SnapshotInfo;
  /** Resolves when nothing of it is left; its forks go on. AppError not_found. */
  deleteSnapshot(id: string): Promise<void>;
  /**
   * Starts `count` copies of a snapshot, all or none. AppError not_found, exhausted, conflict when the engine does not fit
   * any more, internal with the stage (also when the snapshot is damaged).
   */
  fork(snapshotId: string, count: number, signal?: AbortSignal): Promise<SandboxInfo[]>;
}
