// Types of sandboxes that the rest of the host agent uses.
import type {
  CreatedService,
  Labels,
  PortAccess,
  SANDBOX_STATES,
  SecretBinding,
  ServiceSpec,
} from '@sandboxd/api';
import type { PullMode } from '../images/index.ts';
import type { RootfsRequest, RootfsSource } from '../images/rootfs-source.ts';
import type { NetworkPolicy, PublishedPort } from '../network/index.ts';
import type { NetworkRequest } from '../network/resolve-policy.ts';
import type { BindingChanges } from '../secrets/index.ts';
import type { About } from './snapshot-about.ts';

export type CreateSandboxOptions = {
  /** In a fleet, its place was found under this id; absent: a new one. */
  readonly id?: string | undefined;
  /** Another place of the fleet has the name: its sandbox is returned, or refused, and none is made. */
  readonly onlyExisting?: true | undefined;
  /** Absent: the daemon's default profile. */
  readonly rootfs?: RootfsRequest | undefined;
  /** Pull mode of an image; absent: missing. */
  readonly pull?: PullMode | undefined;
  readonly vcpus?: number | undefined;
  readonly memoryMib?: number | undefined;
  /** Size of the writable layer. */
  readonly diskBytes?: number | undefined;
  /** Seconds until it is deleted; 0 or absent is no limit. */
  readonly timeoutS?: number | undefined;
  /** At the end of its lifetime; absent: delete. */
  readonly timeoutAction?: 'pause' | undefined;
  /** Whether a call that needs its guest resumes it; absent: it does. */
  readonly autoResume?: false | undefined;
  /** Absent: no idle timeout. */
  readonly idle?: IdleRule | undefined;
  readonly bootArgs?: string | undefined;
  /** Configured and started before the create resolves. For an image: overrides of its own service. */
  readonly service?: CreatedService | undefined;
  /** Absent: no network. */
  readonly network?: NetworkRequest | undefined;
  /** Host ports that are forwarded to it; they imply a network. */
  readonly publish?: readonly PublishedPort[] | undefined;
  /** Unique among the sandboxes of the tenant. */
  readonly name?: string | undefined;
  readonly labels?: Labels | undefined;
  /** Variables of every command and of the service. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Secrets that its guest can use, by name. */
  readonly secrets?: Readonly<Record<string, SecretBinding>> | undefined;
  /** What to do when the name is taken; absent: error. */
  readonly ifExists?: 'error' | 'return' | undefined;
};

/** Absent fields stay as they are. */
export type SandboxPatch = {
  /** Null removes it. */
  readonly name?: string | null | undefined;
  /** Null removes one, or all. */
  readonly labels?: Readonly<Record<string, string | null>> | null | undefined;
  /** From now; 0 removes the lifetime. */
  readonly timeoutS?: number | undefined;
  /** 0 removes the idle timeout. */
  readonly idleTimeoutS?: number | undefined;
  readonly idleAction?: IdleRule['action'] | undefined;
  readonly timeoutAction?: 'delete' | 'pause' | undefined;
  readonly autoResume?: boolean | undefined;
};

/** What one copy, or all of them, have of their own. */
export type CopyOptions = {
  readonly publish?: readonly PublishedPort[] | undefined;
  readonly name?: string | undefined;
  /** Changes of the inherited labels; null removes one. */
  readonly labels?: Readonly<Record<string, string | null>> | undefined;
  /** Added to the inherited environment. */
  readonly env?: Readonly<Record<string, string>> | undefined;
};

/** `name` and `publish`: of the only copy. `children`: one entry for each copy, in addition to what all have. */
export type ForkOptions = CopyOptions & {
  /** As of creates; one for each copy. */
  readonly ids?: readonly string[] | undefined;
  readonly children?: readonly CopyOptions[] | undefined;
  /** Changes of the inherited secrets, of all copies; null drops one. */
  readonly secrets?: BindingChanges | undefined;
};

/** After `timeoutS` seconds without use it is deleted, saved and deleted, or paused. */
export type IdleRule = {
  readonly timeoutS: number;
  readonly action: 'delete' | 'snapshot' | 'pause';
  /** How many of the snapshots that it takes are kept; absent: all. */
  readonly keepLast?: number | undefined;
  /** Absent: they stay. */
  readonly snapshotExpiresS?: number | undefined;
};

/** All defaults filled in and all bounds checked. */
export type ResolvedSandboxOptions = {
  readonly rootfs: RootfsSource;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  readonly timeoutS: number;
  readonly timeoutAction?: 'pause' | undefined;
  readonly autoResume?: false | undefined;
  readonly idle?: IdleRule | undefined;
  readonly bootArgs: string;
  readonly service?: ServiceSpec;
  /** The service is that of the profile, and is ready when it answers at this port of the guest. */
  readonly readyPort?: number | undefined;
  /** What the guest may reach; all else is blocked. */
  readonly network?: NetworkPolicy | undefined;
  readonly publish?: readonly PublishedPort[] | undefined;
};

/** Values of fields that a create request omits. */
export type SandboxDefaults = {
  readonly profile: string;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
};

/** A port that is open for URLs. */
export type OpenPort = {
  readonly port: number;
  readonly access: PortAccess;
  /** What its server gets as Host; absent: what the client sent. */
  readonly host?: 'localhost';
  /** Or when its access was changed. */
  readonly openedAtMs: number;
};

/** The public description of a sandbox. */
export type SandboxInfo = {
  readonly id: string;
  readonly name?: string;
  readonly labels: Labels;
  /** Names of the variables in its environment. */
  readonly envNames: readonly string[];
  readonly state: (typeof SANDBOX_STATES)[number];
  /** Why it failed. */
  readonly reason?: { readonly code: string; readonly message: string };
  readonly createdAt: Date;
  readonly lastUsedAt: Date;
  readonly expiresAt?: Date;
  /** 0: no lifetime. */
  readonly timeoutS: number;
  readonly timeoutAction: 'delete' | 'pause';
  readonly autoResume: boolean;
  /** Absent: it is not paused. */
  readonly pausedAt?: Date;
  readonly idle?: IdleRule;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly diskBytes: number;
  readonly rootfs: Pick<RootfsSource, 'kind' | 'name' | 'imageDigest'>;
  /** The sandbox's directory on the host. */
  readonly workdir: string;
  /** The snapshot from which it was forked. */
  readonly sourceSnapshotId?: string;
  /** The snapshot that it was forked from, last saved as, or went back to. It may be deleted. */
  readonly parentSnapshotId?: string;
  /** Of which it is a fork, without a snapshot that stayed. */
  readonly sourceSandboxId?: string;
  readonly network?: NetworkInfo;
  readonly published?: readonly PublishedPort[];
  /** Open for URLs; absent: none. */
  readonly ports?: readonly OpenPort[];
  /** Which it may use, of a tenant, or of keys without one. */
  readonly storedSecrets?: readonly { readonly scope: string; readonly name: string }[];
};

export type DeletedSandboxes = {
  readonly deleted: readonly string[];
  readonly failed: readonly { readonly id: string; readonly error: unknown }[];
};

/** `isExisting`: it had the requested name already. */
export type CreatedSandbox = SandboxInfo & { readonly isExisting?: true };

export type NetworkInfo = NetworkPolicy & { readonly guestIp: string; readonly gateway: string };

/** The public description of a snapshot. */
export type SnapshotInfo = {
  readonly id: string;
  readonly createdAt: Date;
  readonly sourceId: string;
  /** The one that its source continued from. It may be deleted. */
  readonly parentSnapshotId?: string;
  readonly expiresAt?: Date;
  readonly isAutomatic?: true;
  readonly dir: string;
  readonly memoryPath: string;
  readonly rootfsPath: string;
  readonly statePath: string;
  readonly memoryMib: number;
  readonly vcpus: number;
  /** Absent without a snapshot store. */
  readonly storage?: SnapshotStorage;
  /** Why the last upload failed. */
  readonly storageError?: string;
} & About;

/** `local`: only on this host, until it is uploaded. `stored`: in the snapshot store, too. `remote`: only there. */
export type SnapshotStorage = 'local' | 'uploading' | 'stored' | 'remote';

/** A snapshot, deleted or not, or a sandbox. */
export type TreeNode = {
  readonly kind: 'snapshot' | 'sandbox';
  readonly id: string;
  readonly parentId?: string | undefined;
  readonly createdAt: Date;
  readonly name?: string | undefined;
  readonly sourceId?: string;
  readonly state?: SandboxInfo['state'];
  readonly isDeleted?: true;
};

export type ImportOptions = {
  /** The guest is cold-booted from its disk, so the snapshot may be of another engine or processor. */
  readonly isDiskOnly: boolean;
};

/** A sandbox that waits in the store, for a gateway that finds a place for it. */
export type ParkedSandbox = {
  readonly departure: string;
  readonly tenant: string | undefined;
  readonly vcpus: number;
  readonly memoryMib: number;
};
