// The manager with the operator as its principal, who sees everything, as in a daemon without keys.
import { OPERATOR, type RequestContext, type SnapshotMaker } from '../../../host-agent/src/keys/index.ts';
import type { IsVisible } from '../../../host-agent/src/sandboxes/interface.ts';
import { SandboxManager } from '../../../host-agent/src/sandboxes/manager.ts';
import type { ByteSource } from '../../../host-agent/src/sandboxes/saved/archive/read-archive.ts';
import type {
  CreatedSandbox,
  CreateSandboxOptions,
  ForkOptions,
  ImportOptions,
  SandboxInfo,
  SnapshotInfo,
} from '../../../host-agent/src/sandboxes/types.ts';

const AS_OPERATOR: RequestContext = { principal: OPERATOR };

export class OperatorManager extends SandboxManager {
  override create(
    options: CreateSandboxOptions,
    signal?: AbortSignal,
    request: RequestContext = AS_OPERATOR,
  ): Promise<CreatedSandbox> {
    return super.create(options, signal, request);
  }

  override fork(
    id: string,
    count: number,
    signal?: AbortSignal,
    request: RequestContext = AS_OPERATOR,
    options?: ForkOptions,
  ): Promise<SandboxInfo[]> {
    return super.fork(id, count, signal, request, options);
  }

  override list(isVisible: IsVisible = () => true): SandboxInfo[] {
    return super.list(isVisible);
  }

  override importSnapshot(
    read: ByteSource,
    options: ImportOptions,
    signal?: AbortSignal,
    by?: SnapshotMaker,
  ): Promise<SnapshotInfo> {
    return super.importSnapshot(read, options, signal, by);
  }

  listSnapshots(): SnapshotInfo[] {
    return this.snapshots.list(() => true);
  }

  getSnapshot(id: string): SnapshotInfo {
    return this.snapshots.get(id);
  }

  deleteSnapshot(id: string): Promise<void> {
    return this.snapshots.delete(id);
  }
}
