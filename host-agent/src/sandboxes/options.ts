// What a daemon gives its manager of sandboxes.
import type { Logger } from 'pino';
import type { LimitsOptions } from '../keys/index.ts';
import type { Table } from '../store/store.ts';
import type { Admission, AdmissionOptions } from './admission.ts';
import { resolveStored } from './import-snapshot.ts';
import type { MoveTimes } from './moves/ahead.ts';
import type { MoveTables } from './moves/tables.ts';
import type { CreateContext } from './resolve-create.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { DiskComparerOptions } from './saved/compare-disks.ts';
import type { SleepDeps } from './sleep/sleep.ts';
import type { SnapshotsOptions } from './snapshot-record.ts';
import type { SnapshotRecord } from './snapshots.ts';
import type { SharedOptions } from './stored/shared.ts';

export type SandboxManagerOptions = {
  /** What each sandbox is made with. */
  readonly context: ResourceContext;
  /** What creates may ask for. */
  readonly creates: CreateContext;
  /** What the host has for them. */
  readonly capacity: CapacityOptions;
  /** What keys and tenants may have. */
  readonly tenants: Pick<LimitsOptions, 'quotaOf' | 'policyOfOwner' | 'publishPorts' | 'storedBytes'>;
  readonly snapshotRecords: Table<SnapshotRecord>;
  /** Undefined without a snapshot store. */
  readonly shared: SharedOptions | undefined;
  /** Sandboxes that change their host. */
  readonly moves: MoveTables;
  /** How often it is looked whether offered sandboxes have left. */
  readonly movePollMs?: number;
  /** How long hosts wait for each other before a pause. */
  readonly moveTimes?: MoveTimes;
  /** Compares the disks of snapshots. */
  readonly comparer: DiskComparerOptions;
  readonly log: Logger;
};

export function toSnapshotsOptions(
  { context, creates, snapshotRecords: records, shared, tenants, log }: SandboxManagerOptions,
  admission: Pick<Admission, 'reserve'>,
): SnapshotsOptions {
  const { directories, engines, faults, events, authorities } = context;
  return {
    ...{ dataDir: directories.dataDir, engines, faults, events, authorities, log },
    ...{ records, sandboxRecords: context.records },
    shared: shared && {
      ...{ ...shared, admission, quotaOf: tenants.quotaOf },
      resolve: (manifest, signal) => resolveStored(manifest, { ...context, ...creates }, signal),
    },
  };
}

export type CapacityOptions = Pick<
  AdmissionOptions,
  'memoryReserveBytes' | 'memoryOvercommit' | 'readCapacity'
> & {
  /** Disk budget of templates; 0 turns them off. */
  readonly templateBudgetBytes: number;
  /** Limits of paused sandboxes. */
  readonly sleep: Pick<SleepDeps, 'resumeTimeoutMs' | 'maxStoredBytes'>;
  /** Maximum concurrent boots and restores; more would only slow each other down. */
  readonly maxConcurrentStarts: number;
};
