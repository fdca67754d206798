// The sandboxes as one caller has them: what is another tenant's is not there, and what they make is theirs.
import { clampTimeout, type Principal, type RequestContext, type RequestedResources } from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import type { PublishedPort } from '../network/index.ts';
import type { Sandboxes, SandboxHandle } from './interface.ts';
import type { Sandbox } from './sandbox.ts';
import type { ByteSource } from './saved/archive/read-archive.ts';
import type { CreateSandboxOptions, ImportOptions, SandboxInfo, SnapshotInfo } from './types.ts';

/** Everybody's. Each call is as in `Sandboxes`, for a caller. */
export interface OwnedSandboxes {
  create(options: CreateSandboxOptions, signal?: AbortSignal, request?: RequestContext): Promise<SandboxInfo>;
  list(principal?: Principal): SandboxInfo[];
  get(id: string, principal?: Principal): Sandbox;
  delete(id: string, principal?: Principal): Promise<void>;
  listSnapshots(principal?: Principal): SnapshotInfo[];
  getSnapshot(id: string, principal?: Principal): SnapshotInfo;
  exportSnapshot(id: string, principal?: Principal): PullStream;
  importSnapshot(
    read: ByteSource,
    options: ImportOptions,
    signal?: AbortSignal,
    principal?: Principal,
  ): Promise<SnapshotInfo>;
  deleteSnapshot(id: string, principal?: Principal): Promise<void>;
  fork(
    id: string,
    count: number,
    signal?: AbortSignal,
    request?: RequestContext,
    publish?: readonly PublishedPort[],
  ): Promise<SandboxInfo[]>;
}

export class TenantView implements Sandboxes {
  readonly #all: OwnedSandboxes;
  readonly #principal: Principal | undefined;
  readonly #onResolved: ((requested: RequestedResources) => void) | undefined;

  constructor(
    all: OwnedSandboxes,
    principal: Principal | undefined,
    onResolved?: (requested: RequestedResources) => void,
  ) {
    this.#onResolved = onResolved;
    this.#all = all;
    this.#principal = principal;
  }

  create(options: CreateSandboxOptions, signal?: AbortSignal): Promise<SandboxInfo> {
    return this.#all.create(options, signal, { principal: this.#principal, onResolved: this.#onResolved });
  }

  list(): SandboxInfo[] {
    return this.#all.list(this.#principal);
  }

  get(id: string): SandboxHandle {
    const sandbox = this.#all.get(id, this.#principal);
    const principal = this.#principal;
    return {
      info: sandbox.info,
      exec: (request, events, options) => {
        const timeout_s = clampTimeout(request.timeout_s, principal?.policy ?? {});
        return sandbox.exec({ ...request, timeout_s }, events, options);
      },
      service: () => sandbox.service(),
      files: () => sandbox.files(),
      stats: () => sandbox.stats(),
      snapshot: (signal) => sandbox.snapshot(signal, principal),
    };
  }

  delete(id: string): Promise<void> {
    return this.#all.delete(id, this.#principal);
  }

  listSnapshots(): SnapshotInfo[] {
    return this.#all.listSnapshots(this.#principal);
  }

  getSnapshot(id: string): SnapshotInfo {
    return this.#all.getSnapshot(id, this.#principal);
  }

  exportSnapshot(id: string): PullStream {
    return this.#all.exportSnapshot(id, this.#principal);
  }

  importSnapshot(read: ByteSource, options: ImportOptions, signal?: AbortSignal): Promise<SnapshotInfo> {
    return this.#all.importSnapshot(read, options, signal, this.#principal);
  }

  deleteSnapshot(id: string): Promise<void> {
    return this.#all.deleteSnapshot(id, this.#principal);
  }

  fork(
    id: string,
    count: number,
    signal?: AbortSignal,
    publish?: readonly PublishedPort[],
  ): Promise<SandboxInfo[]> {
    const request = { principal: this.#principal, onResolved: this.#onResolved };
    return this.#all.fork(id, count, signal, request, publish);
  }
}
