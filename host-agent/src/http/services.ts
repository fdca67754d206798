// What the REST interface needs from the rest of the daemon.

import type { SandboxLimits } from '@sandboxd/api';
import type { Logger } from 'pino';
import type { Journal } from '../events/index.ts';
import type { Images } from '../images/index.ts';
import type { LogPage, LogQuery } from '../logs/index.ts';
import type { Metrics } from '../metrics/index.ts';
import type { SandboxHost } from '../sandboxes/interface.ts';
import type { StoredEvent } from '../sandboxes/lifecycle-events.ts';
import type { Telemetry } from '../telemetry/index.ts';
import type { Authenticator } from './authentication.ts';
import type { AuditSink } from './middleware/audit.ts';

/** A root filesystem that sandboxes can boot from. */
export type ProfileInfo = {
  readonly name: string;
  readonly isDefault: boolean;
  readonly digest: string;
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  readonly sizeBytes: number;
  /** Version by package name. */
  readonly packages: Readonly<Record<string, string>>;
};

/** Which engine runs the virtual machines, and why that one. */
export type EngineInfo = {
  readonly name: string;
  readonly accelerator: string;
  readonly version: string;
  readonly reason: string;
  /** What was tried for this choice, in order; `verdict` is `works` or why not. */
  readonly tried: readonly {
    readonly name: string;
    readonly accelerator: string;
    readonly verdict: string;
    readonly ms: number;
  }[];
};

export interface HttpServices {
  readonly log: Logger;
  readonly sandboxes: SandboxHost;
  readonly authenticator: Authenticator;
  readonly audit: AuditSink;
  readonly metrics: Metrics;
  /** Absent: no traces are sent. */
  readonly telemetry?: Telemetry | undefined;
  readonly events: Journal<StoredEvent>;
  readonly limits: SandboxLimits;
  /** Absent when this daemon has no container images. */
  readonly images?: Images | undefined;
  /** Absent when this daemon keeps no logs. */
  readonly logs?: { read(id: string, query: LogQuery): Promise<LogPage | undefined> } | undefined;
  listProfiles(): Promise<readonly ProfileInfo[]>;
  /** Those that the first create that asks for one bakes. */
  listUnbakedProfiles(): Promise<readonly Pick<ProfileInfo, 'name' | 'isDefault'>[]>;
  engine(): EngineInfo;
  /** Fires when the daemon stops: streams that would go on for ever end then. */
  readonly stopping: AbortSignal;
  /** Longest silence in the middle of a request body; 30 s when absent. */
  readonly bodyIdleMs?: number;
}
