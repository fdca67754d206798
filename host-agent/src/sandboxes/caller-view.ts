// The sandboxes as one caller has them: what is another tenant's is not there, and what they make is theirs.
import { type Caller, clampTimeout, type Visit, type Wanted } from '../keys/index.ts';
import type { Outflow } from '../lib/byte-queue.ts';
import type { PublishedPort } from '../network/index.ts';
import type { Sandboxes, SandboxHandle } from './face.ts';
import type { Sandbox } from './sandbox.ts';
import type { ByteSource } from './saved/archive/read-archive.ts';
import type { CreateSandboxOptions, ImportOptions, SandboxInfo, SnapshotInfo } from './types.ts';

/** Everybody's. Each call is as in `Sandboxes`, for a caller. */
export interface OwnedSandboxes {
  create(options: CreateSandboxOptions, signal?: AbortSignal, visit?: Visit): Promise<SandboxInfo>;
  list(caller?: Caller): SandboxInfo[];
  get(id: string, caller?: Caller): Sandbox;
  delete(id: string, caller?: Caller): Promise<void>;
  listSnapshots(caller?: Caller): SnapshotInfo[];
  getSnapshot(id: string, caller?: Caller): SnapshotInfo;
  exportSnapshot(id: string, caller?: Caller): Outflow;
  importSnapshot(
    read: ByteSource,
    options: ImportOptions,
    signal?: AbortSignal,
    caller?: Caller,
  ): Promise<SnapshotInfo>;
  deleteSnapshot(id: string, caller?: Caller): Promise<void>;
  fork(
    id: string,
    count: number,
    signal?: AbortSignal,
    visit?: Visit,
    publish?: readonly PublishedPort[],
  ): Promise<SandboxInfo[]>;
}

export class CallerView implements Sandboxes {
  readonly #all: OwnedSandboxes;
  readonly #caller: Caller | undefined;
  readonly #onWanted: ((wanted: Wanted) => void) | undefined;

  constructor(all: OwnedSandboxes, caller: Caller | undefined, onWanted?: (wanted: Wanted) => void) {
    this.#onWanted = onWanted;
    this.#all = all;
    this.#caller = caller;
  }

  create(options: CreateSandboxOptions, signal?: AbortSignal): Promise<SandboxInfo> {
    return this.#all.create(options, signal, { caller: this.#caller, onWanted: this.#onWanted });
  }

  list(): SandboxInfo[] {
    return this.#all.list(this.#caller);
  }

  get(id: string): SandboxHandle {
    const sandbox = this.#all.get(id, this.#caller);
    const caller = this.#caller;
    return {
      info: sandbox.info,
      exec: (request, events, options) => {
        const timeout_s = clampTimeout(request.timeout_s, caller?.policy ?? {});
        return sandbox.exec({ ...request, timeout_s }, events, options);
      },
      service: () => sandbox.service(),
      files: () => sandbox.files(),
      stats: () => sandbox.stats(),
      snapshot: (signal) => sandbox.snapshot(signal, caller),
    };
  }

  delete(id: string): Promise<void> {
    return this.#all.delete(id, this.#caller);
  }

  listSnapshots(): SnapshotInfo[] {
    return this.#all.listSnapshots(this.#caller);
  }

  getSnapshot(id: string): SnapshotInfo {
    return this.#all.getSnapshot(id, this.#caller);
  }

  exportSnapshot(id: string): Outflow {
    return this.#all.exportSnapshot(id, this.#caller);
  }

  importSnapshot(read: ByteSource, options: ImportOptions, signal?: AbortSignal): Promise<SnapshotInfo> {
    return this.#all.importSnapshot(read, options, signal, this.#caller);
  }

  deleteSnapshot(id: string): Promise<void> {
    return this.#all.deleteSnapshot(id, this.#caller);
  }

  fork(
    id: string,
    count: number,
    signal?: AbortSignal,
    publish?: readonly PublishedPort[],
  ): Promise<SandboxInfo[]> {
    const visit = { caller: this.#caller, onWanted: this.#onWanted };
    return this.#all.fork(id, count, signal, visit, publish);
  }
}
