// Types of the supervised service.
import type { SERVICE_STATES, ServiceSpec } from '@sandboxd/api';
import type { ExecOutcome } from './exec-types.ts';

/** One output buffer in the guest; each new spec gets a new one. Records are numbered from 0. */
export type ServiceRing = {
  readonly id: string;
  readonly firstSeq: number;
  readonly nextSeq: number;
  readonly droppedRecords: number;
  readonly droppedBytes: number;
};

/** All fields except the state are present only if known. */
export type ServiceStatus = {
  readonly state: (typeof SERVICE_STATES)[number];
  readonly pid?: number;
  readonly restarts?: number;
  readonly spec?: ServiceSpec;
  readonly startedUnixMs?: number;
  readonly uptimeMs?: number;
  readonly lastExit?: ExecOutcome;
  readonly lastExitUnixMs?: number;
  readonly isLastExitRequested?: boolean;
  readonly liveRssBytes?: number;
  readonly livePeakRssBytes?: number;
  readonly ring?: ServiceRing;
};

export type ServiceOutputRequest = {
  /** If this ring does not exist any more, the output starts at the oldest stored record. Absent: the newest ring. */
  readonly ring?: string;
  readonly fromSeq?: number;
  readonly isFollowing: boolean;
  /** Waits until a service is configured; otherwise a missing service is a conflict. */
  readonly isWaiting: boolean;
  /** Maximum output before it ends; absent: unlimited. */
  readonly maxBytes?: number;
};

export type ServiceOutputEnd = { readonly ring: ServiceRing; readonly nextSeq: number };
