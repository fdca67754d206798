// What snapshots need of the store that hosts share.
import type { LimitsOptions } from '../../keys/index.ts';
import type { StoredBinding } from '../../secrets/index.ts';
import type { SnapshotStore } from '../../snapshot-store/index.ts';
import type { Table } from '../../store/store.ts';
import type { Admission } from '../admission.ts';
import type { ArchiveManifest } from '../saved/archive/format.ts';
import type { SavedManifest } from '../saved/manifest.ts';

/**
 * `stored`: its manifest is in the store of that name. `deleting`: it may still be. `expired`: it was here until then,
 * and the manifest may still have a later time.
 */
export type StoredRecord =
  | { readonly store: string; readonly state: 'stored' | 'deleting' }
  | { readonly store: string; readonly state: 'expired'; readonly expiresAtMs: number };

export type SharedOptions = {
  readonly store: Pick<
    SnapshotStore,
    | 'name'
    | 'sendChunks'
    | 'upload'
    | 'putManifest'
    | 'read'
    | 'download'
    | 'list'
    | 'isDeleted'
    | 'remove'
    | 'removeManifest'
    | 'parked'
    | 'ahead'
    | 'forgetSeen'
    | 'usedBytes'
  >;
  readonly records: Table<StoredRecord>;
};

/** The options of a snapshot of another host, as they are on this one. */
export type ResolvedImport = SavedManifest['options'] & { readonly secrets: readonly StoredBinding[] };

export type SharedDeps = SharedOptions & {
  /** AppError conflict if it does not fit this host, invalid_argument. */
  readonly resolve: (manifest: ArchiveManifest, signal: AbortSignal) => Promise<ResolvedImport>;
  readonly admission: Pick<Admission, 'reserve'>;
  /** Of a tenant, as it is now. */
  readonly quotaOf: LimitsOptions['quotaOf'];
};
