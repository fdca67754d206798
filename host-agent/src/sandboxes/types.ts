// What a sandbox is to the rest of the host agent.

import type { CreatedService, ServiceSpec } from '@sandboxd/api';
import type { PullMode } from '../images/index.ts';
import type { RootfsRequest, RootfsSource } from '../images/rootfs-source.ts';
import type { PublishedPort } from '../network/index.ts';

export type CreateSandboxOptions = {
  /** Absent: the daemon's default profile. */
  readonly rootfs?: RootfsRequest | undefined;
  /** Of an image; absent: missing. */
  readonly pull?: PullMode | undefined;
  readonly vcpus?: number | undefined;
  readonly memoryMib?: number | undefined;
  /** Size of the writable layer. */
  readonly diskBytes?: number | undefined;
  /** Seconds of life; 0 or absent is no limit. */
  readonly timeoutS?: number | undefined;
  /** Absent: it may be idle for as long as it likes. */
  readonly idle?: IdleRule | undefined;
  readonly bootArgs?: string | undefined;
  /** Configured and started before the sandbox is anyone's. Of an image: what differs from its own. */
  readonly service?: CreatedService | undefined;
  /** Absent: no network at all. */
  readonly network?: NetworkWish | undefined;
  /** Ports of the host that lead into it, which gives it a network. */
  readonly publish?: readonly PublishedPort[] | undefined;
};

/** After so many seconds without use it is deleted, or saved first. */
export type IdleRule = { readonly timeoutS: number; readonly action: 'delete' | 'snapshot' };

/** Host names that the guest may reach, normalized; nothing else. */
export type NetworkWish = { readonly allowlist: readonly string[] };

/** Every default filled in and every bound checked. */
export type ResolvedSandboxOptions = {
  readonly rootfs: RootfsSource;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  readonly timeoutS: number;
  readonly idle?: IdleRule | undefined;
  readonly bootArgs: string;
  readonly service?: ServiceSpec;
  readonly network?: NetworkWish | undefined;
  readonly publish?: readonly PublishedPort[] | undefined;
};

/** What a create request gets that leaves a field out. */
export type SandboxDefaults = {
  readonly profile: string;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
};

/** The public picture of a sandbox. */
export type SandboxInfo = {
  readonly id: string;
  readonly createdAt: Date;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly diskBytes: number;
  readonly rootfs: Pick<RootfsSource, 'kind' | 'name'>;
  /** The sandbox's directory on the host. */
  readonly workdir: string;
  /** The snapshot it was forked from. */
  readonly sourceSnapshotId?: string;
  readonly network?: NetworkInfo;
  readonly published?: readonly PublishedPort[];
};

export type NetworkInfo = NetworkWish & { readonly guestIp: string; readonly gateway: string };

/** The public picture of a snapshot. */
export type SnapshotInfo = {
  readonly id: string;
  readonly createdAt: Date;
  readonly sourceId: string;
  readonly dir: string;
  readonly memoryPath: string;
  readonly rootfsPath: string;
  readonly statePath: string;
  readonly memoryMib: number;
  readonly vcpus: number;
};

export type ImportOptions = {
  /** The guest is booted from its disk: it need not be of this engine or processor. */
  readonly isDiskOnly: boolean;
};
