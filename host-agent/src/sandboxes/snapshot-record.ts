// Types of snapshots: the registry record, the public description, what is needed to make one.
import type { Logger } from 'pino';
import type { Engines } from '../engines/choice.ts';
import type { Owner } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { Faults } from '../lib/faults.ts';
import type { StoredBinding } from '../secrets/index.ts';
import type { Table } from '../store/store.ts';
import type { Authorities } from './authorities.ts';
import type { CommitHook } from './interface.ts';
import type { LifecycleEvent, LifecycleEvents } from './lifecycle-events.ts';
import { parentOf, type SandboxRecord } from './record.ts';
import type { SavedGuest } from './saved/saved-guest.ts';
import { type About, type Automatic, type SnapshotWishes, toAbout } from './snapshot-about.ts';
import type { SharedDeps } from './stored/shared.ts';
import type { SnapshotInfo } from './types.ts';

export type SnapshotRecord = {
  readonly createdAtMs: number;
  readonly sourceId: string;
  readonly owner?: Owner;
  /** Absent once it is deleted. */
  readonly about?: About;
  /** False until every file is on disk, and again during a delete. */
  readonly isComplete: boolean;
  /** The snapshot that its source continued from. */
  readonly parentId?: string;
  /** When it is deleted. */
  readonly expiresAtMs?: number;
  /** An idle timeout took it. */
  readonly automatic?: Automatic;
  /** Secrets of its forks, whose values no file of it has. */
  readonly secrets?: readonly StoredBinding[];
  /** As of its source. */
  readonly authority?: string;
  /** It was deleted, and is only known because others came from it: see ancestry.ts. */
  readonly deletedAtMs?: number;
};

/** For whom a snapshot is made, and what is bound to its commit. */
export type SnapshotFor = {
  readonly owner: Owner | undefined;
  readonly commit?: CommitHook<SnapshotInfo> | undefined;
  readonly about?: SnapshotWishes | undefined;
  readonly automatic?: Automatic | undefined;
  /** Of an import. */
  readonly secrets?: readonly StoredBinding[] | undefined;
};

export type SnapshotsOptions = {
  readonly dataDir: string;
  readonly engines: Pick<Engines, 'current'>;
  readonly records: Table<SnapshotRecord>;
  readonly sandboxRecords: Table<SandboxRecord>;
  readonly faults: Faults;
  /** Of the sandboxes, and of what was saved of them. */
  readonly authorities: Pick<Authorities, 'collect'>;
  readonly events: LifecycleEvents;
  readonly log: Logger;
  /** Undefined without a snapshot store. */
  readonly shared: SharedDeps | undefined;
};

export type Entry = {
  record: SnapshotRecord;
  readonly saved: SavedGuest;
  /** Of its files, which never change; absent until it is asked for. */
  diskBytes?: number | undefined;
  /** A delete in progress. */
  deletion?: Promise<void> | undefined;
};

/** Writes all files to a new directory, and returns the event of what happened. */
export type Fill = (
  dir: string,
  id: string,
) => Promise<{ readonly saved: SavedGuest; readonly event: LifecycleEvent }>;

export function toInfo(id: string, { record, saved }: Pick<Entry, 'record' | 'saved'>): SnapshotInfo {
  const { parentId, expiresAtMs, automatic } = record;
  return {
    id,
    createdAt: new Date(record.createdAtMs),
    sourceId: record.sourceId,
    ...(parentId !== undefined && { parentSnapshotId: parentId }),
    ...(expiresAtMs !== undefined && { expiresAt: new Date(expiresAtMs) }),
    ...(automatic && { isAutomatic: true as const }),
    dir: saved.dir,
    memoryPath: saved.vm.memoryPath,
    rootfsPath: saved.diskPath,
    statePath: saved.vm.statePath,
    memoryMib: saved.manifest.options.memoryMib,
    vcpus: saved.manifest.options.vcpus,
    ...record.about,
  };
}

/** `source`: the sandbox that is saved, if it is one of this host. */
export function newRecord(
  sourceId: string,
  { owner, about = {}, automatic, secrets: given }: Omit<SnapshotFor, 'commit'>,
  source?: SandboxRecord,
): SnapshotRecord {
  const createdAtMs = Date.now();
  const parentId = source && parentOf(source);
  const secrets = given ?? source?.metadata?.secrets;
  const authority = source?.authority;
  return {
    createdAtMs,
    sourceId,
    about: toAbout(about),
    ...(owner && { owner }),
    ...(parentId !== undefined && { parentId }),
    ...(authority !== undefined && { authority }),
    ...toExpiry(about.expiresS, createdAtMs),
    ...(automatic && { automatic }),
    ...(secrets && { secrets }),
    isComplete: false,
  };
}

/** Unchanged if `expiresS` is undefined. */
export function withExpiry(record: SnapshotRecord, expiresS: number | undefined): SnapshotRecord {
  if (expiresS === undefined) return record;
  const { expiresAtMs: _, ...rest } = record;
  return { ...rest, ...toExpiry(expiresS, Date.now()) };
}

/** `expiresS`: from `nowMs`; 0 or absent: never. */
function toExpiry(expiresS: number | undefined, nowMs: number): { readonly expiresAtMs?: number } {
  return expiresS === undefined || expiresS === 0 ? {} : { expiresAtMs: nowMs + expiresS * 1000 };
}

export function noSnapshot(id: string): AppError {
  return new AppError('not_found', `snapshot ${id} does not exist`);
}
