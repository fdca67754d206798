// The supervised service in the host agent's own terms.
import type { ExecOutcome } from './exec-types.ts';

export const SERVICE_STATES = [
  'idle',
  'starting',
  'running',
  'stopping',
  'backing_off',
  'stopped',
  'failed',
] as const;
export type ServiceState = (typeof SERVICE_STATES)[number];

export const RESTART_POLICIES = ['never', 'on-failure', 'always'] as const;

/** Every default filled in. */
export type ServiceSpec = {
  readonly cmd: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Exactly `env`, PATH and HOME apart; otherwise the sandbox's environment is below it. */
  readonly isEnvExact: boolean;
  readonly cwd?: string;
  readonly user?: string;
  readonly stopSignal: string;
  readonly stopGraceS: number;
  readonly restart: { readonly policy: (typeof RESTART_POLICIES)[number]; readonly maxRetries: number };
  readonly logBufferBytes: number;
};

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
  readonly state: ServiceState;
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
