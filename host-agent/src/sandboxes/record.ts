// The registry record of a sandbox, its states, and its public description.
import type { VmExit, VmmIdentity } from '../engines/engine.ts';
import type { Owner } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { NetworkSlot } from '../network/index.ts';
import type { ResolvedSandboxOptions, SandboxInfo } from './types.ts';

export type SandboxRecord = {
  readonly createdAtMs: number;
  readonly options: ResolvedSandboxOptions;
  readonly sourceSnapshotId?: string;
  /** Owner of the key that created it; absent: no owner. */
  readonly owner?: Owner;
  readonly incarnation: string;
  /**
   * Whether it is visible to users. False during its creation and deletion; after a crash the next start removes such
   * a sandbox.
   */
  readonly isReady: boolean;
  readonly isDeleting?: boolean;
  /** Its addresses are reserved while this is set. */
  readonly network?: NetworkSlot;
  /** Null until the VMM was started. */
  readonly vmm: VmmIdentity | null;
  /**
   * Engine properties that its guest depends on; a later daemon may have different ones, and its snapshots need the
   * same.
   */
  readonly compatibility: Readonly<Record<string, string>>;
  readonly kernelDigest: string;
  /** How its VM exited unexpectedly. */
  readonly exit?: VmExit;
};

export type SandboxState =
  | 'running'
  /** Its VM exited unexpectedly; the sandbox is listed until it is deleted. */
  | 'failed'
  | 'deleting'
  | 'deleted';

const TRANSITIONS: Readonly<Record<SandboxState, readonly SandboxState[]>> = {
  running: ['failed', 'deleting'],
  failed: ['deleting'],
  deleting: ['deleted'],
  deleted: [],
};

/** Returns `to`. AppError `internal` when the table does not allow the transition. */
export function checkTransition(from: SandboxState, to: SandboxState): SandboxState {
  if (TRANSITIONS[from].includes(to)) return to;
  throw new AppError('internal', `a sandbox cannot go from ${from} to ${to}`);
}

export function toInfo(id: string, record: SandboxRecord, workdir: string): SandboxInfo {
  const { options, createdAtMs, sourceSnapshotId, network } = record;
  const { allowlist = [] } = options.network ?? {};
  return {
    id,
    createdAt: new Date(createdAtMs),
    memoryMib: options.memoryMib,
    vcpus: options.vcpus,
    diskBytes: options.diskBytes,
    rootfs: { kind: options.rootfs.kind, name: options.rootfs.name },
    workdir,
    ...(sourceSnapshotId !== undefined && { sourceSnapshotId }),
    ...(network !== undefined && {
      network: { allowlist, guestIp: network.guestIp, gateway: network.gateway },
    }),
    ...(options.publish && { published: options.publish }),
  };
}

export function noSandbox(id: string): AppError {
  return new AppError('not_found', `sandbox ${id} does not exist`);
}
