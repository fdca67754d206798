// The registry record of a sandbox, its states, and its public description.
import type { ServiceSpec } from '@sandboxd/api';
import type { VmExit, VmmIdentity } from '../engines/engine.ts';
import type { Owner } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { NetworkPolicy, NetworkSlot } from '../network/index.ts';
import { toReferences } from '../secrets/index.ts';
import type { LifecycleEvent } from './lifecycle-events.ts';
import { expiryOf, type Metadata, metadataOf, ownEnvironmentOf } from './metadata.ts';
import type { SavedManifest } from './saved/manifest.ts';
import type { OpenPort, ResolvedSandboxOptions, SandboxInfo } from './types.ts';

export type SandboxRecord = {
  readonly createdAtMs: number;
  /** A change of the sandbox replaces its timeouts, which its later snapshots and their forks inherit. */
  readonly options: ResolvedSandboxOptions;
  /** Absent in records of daemons that had none. */
  readonly metadata?: Metadata;
  readonly sourceSnapshotId?: string;
  /** Of which it is a fork, without a snapshot that stayed. */
  readonly sourceSandboxId?: string;
  /** The last snapshot that was taken of it, or that it went back to. */
  readonly parentSnapshotId?: string;
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
  /** Open for URLs, by number. Forks have none. */
  readonly ports?: readonly OpenPort[];
  /** The certificate authority of its lineage, by the sandbox that made it; absent: no policy of it needed one. */
  readonly authority?: string;
  /** Of its policy; absent: 1. Forks begin at 1. */
  readonly networkGeneration?: number;
  /** The policy that held before a change that may not be complete. */
  readonly networkBefore?: NetworkPolicy | 'unknown';
  /** How its VM exited unexpectedly. */
  readonly exit?: VmExit;
  /** Set while it is paused, and until it runs again. Whether its memory is of use is in its files: saved/paused.ts. */
  readonly paused?: PausedRecord;
  /** Its files are being exchanged for those of a snapshot; a crash undoes that: saved/exchange.ts. */
  readonly isRollingBack?: boolean;
};

export type PausedRecord = {
  readonly atMs: number;
  /** Whether its memory was saved; else it boots again from its disk. */
  readonly hasMemory: boolean;
  /** Disk space of what was saved beside the disk. */
  readonly storedBytes: number;
  /** The service that ran, for a boot. */
  readonly service?: ServiceSpec;
  /** It came from another host: its guest has not seen its network here yet. */
  readonly isMoved?: true;
  /** It ran where it came from, or before it was to leave: the next daemon resumes it, too. */
  readonly isToResume?: true;
};

export type SandboxState =
  | 'running'
  | 'pausing'
  | 'paused'
  | 'resuming'
  /** Its VM exited unexpectedly; the sandbox is listed until it is deleted. */
  | 'failed'
  | 'deleting'
  | 'deleted';

const TRANSITIONS: Readonly<Record<SandboxState, readonly SandboxState[]>> = {
  running: ['pausing', 'failed', 'deleting'],
  pausing: ['paused', 'running', 'failed', 'deleting'],
  paused: ['resuming', 'deleting'],
  resuming: ['running', 'paused', 'failed', 'deleting'],
  failed: ['resuming', 'deleting'],
  deleting: ['deleted'],
  deleted: [],
};

/** Returns `to`. AppError `internal` when the table does not allow the transition. */
export function checkTransition(from: SandboxState, to: SandboxState): SandboxState {
  if (TRANSITIONS[from].includes(to)) return to;
  throw new AppError('internal', `a sandbox cannot go from ${from} to ${to}`);
}

/** What changes while a sandbox exists and is not in its record. */
export type LiveFacts = {
  readonly state: SandboxState;
  readonly lastUsedAtMs: number;
  /** How its VM exited. */
  readonly exit: VmExit | undefined;
};

export function toInfo(
  id: string,
  record: SandboxRecord,
  workdir: string,
  { state, lastUsedAtMs, exit }: LiveFacts,
): SandboxInfo {
  const { options, createdAtMs, sourceSnapshotId, sourceSandboxId, network } = record;
  const { allowlist = [], rules = [], presets = [], log: egressLog } = options.network ?? {};
  const { kind, name: source, imageDigest } = options.rootfs;
  const { name, labels, secrets = [] } = metadataOf(record);
  const storedSecrets = secrets.flatMap(({ use }) => use ?? []);
  const parentSnapshotId = parentOf(record);
  const expiresAtMs = state === 'paused' && pausesAtEnd(record) ? undefined : expiryOf(record);
  return {
    id,
    ...(name !== undefined && { name }),
    labels,
    envNames: Object.keys(ownEnvironmentOf(record)),
    state: state === 'deleted' ? 'deleting' : state,
    ...(state === 'failed' && exit !== undefined && { reason: toReason(exit) }),
    createdAt: new Date(createdAtMs),
    lastUsedAt: new Date(lastUsedAtMs),
    ...(expiresAtMs !== undefined && { expiresAt: new Date(expiresAtMs) }),
    timeoutS: options.timeoutS,
    timeoutAction: options.timeoutAction ?? 'delete',
    autoResume: options.autoResume ?? true,
    ...(record.paused && { pausedAt: new Date(record.paused.atMs) }),
    ...(options.idle && { idle: options.idle }),
    memoryMib: options.memoryMib,
    vcpus: options.vcpus,
    diskBytes: options.diskBytes,
    rootfs: { kind, name: source, ...(imageDigest !== undefined && { imageDigest }) },
    workdir,
    ...(sourceSnapshotId !== undefined && { sourceSnapshotId }),
    ...(parentSnapshotId !== undefined && { parentSnapshotId }),
    ...(sourceSandboxId !== undefined && { sourceSandboxId }),
    ...(network !== undefined && {
      network: {
        allowlist,
        ...(rules.length > 0 && { rules }),
        ...(presets.length > 0 && { presets }),
        ...(egressLog !== undefined && { log: egressLog }),
        guestIp: network.guestIp,
        gateway: network.gateway,
      },
    }),
    ...(record.ports && { ports: record.ports }),
    ...(options.publish && { published: options.publish }),
    ...(storedSecrets.length > 0 && { storedSecrets }),
  };
}

/** Messages of the host about its VMM are for clients too, as those of calls to a failed sandbox. */
function toReason({ reason, rebootFoundAtMs }: VmExit): NonNullable<SandboxInfo['reason']> {
  return { code: rebootFoundAtMs === undefined ? 'vm_exited' : 'host_rebooted', message: reason };
}

/** The event of its creation. `times`: of its start, by stage. */
export function toCreation(
  sandbox: string,
  { options, sourceSnapshotId, sourceSandboxId }: SandboxRecord,
  times: Readonly<Record<string, number>> = {},
): LifecycleEvent {
  return {
    kind: sourceSnapshotId === undefined && sourceSandboxId === undefined ? 'created' : 'forked',
    sandbox,
    origin: 'bootMs' in times ? 'boot' : 'saved',
    rootfs: options.rootfs.kind,
    ...(sourceSnapshotId !== undefined && { sourceSnapshot: sourceSnapshotId }),
    ...(sourceSandboxId !== undefined && { sourceSandbox: sourceSandboxId }),
    times,
  };
}

/** Its lifetime counts only while it runs, and starts again with each resume. */
export function pausesAtEnd({ options }: Pick<SandboxRecord, 'options'>): boolean {
  return options.timeoutAction === 'pause';
}

/** The snapshot that it continued from. */
export function parentOf({
  parentSnapshotId,
  sourceSnapshotId,
}: Pick<SandboxRecord, 'parentSnapshotId' | 'sourceSnapshotId'>): string | undefined {
  return parentSnapshotId ?? sourceSnapshotId;
}

export function noSandbox(id: string): AppError {
  return new AppError('not_found', `sandbox ${id} does not exist`);
}

/** Of one that is on its way to another host. */
export function movingSandbox(id: string): AppError {
  return new AppError('exhausted', `sandbox ${id} moves to another host; try again`, { retryAfterS: 2 });
}

/** Of one that is hidden from clients. `isDeparting`: another host has it. */
export function goneSandbox({
  id,
  isDeparting,
}: {
  readonly id: string;
  readonly isDeparting: boolean;
}): AppError {
  return isDeparting ? movingSandbox(id) : noSandbox(id);
}

/** What copies of a sandbox inherit. */
export function toSavedOptions(record: SandboxRecord): SavedManifest['options'] {
  const { labels, env, secrets = [] } = metadataOf(record);
  const references = secrets.length > 0 && { secrets: toReferences(secrets) };
  return { ...record.options, inherited: { labels: { ...labels }, env, ...references } };
}
