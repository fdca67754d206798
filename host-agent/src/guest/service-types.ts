// The supervised service in the host agent's own terms.
import type { SERVICE_STATES, ServiceSpec } from '@sandboxd/api';
import type { ExecOutcome } from './exec-types.ts';

/** One buffer of output in the guest; a new spec has a new one. Records are numbered from 0. */
export type ServiceRing = {
  readonly id: string;
  readonly firstSeq: number;
  readonly nextSeq: number;
  readonly droppedRecords: number;
  readonly droppedBytes: number;
};

/** All but the state as far as it is known. */
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
  /** Begins at the oldest record kept when that ring is not known any more. Absent: the newest ring. */
  readonly ring?: string;
  readonly fromSeq?: number;
  readonly isFollowing: boolean;
  /** Waits for a service to be configured; otherwise that there is none is a conflict. */
  readonly isWaiting: boolean;
  /** Output after which it ends; absent is none. */
  readonly maxBytes?: number;
};

export type ServiceOutputEnd = { readonly ring: ServiceRing; readonly nextSeq: number };
