// The services of the daemon that the REST API uses.
import type { SandboxLimits } from '@sandboxd/api';
import type { Logger } from 'pino';
import type { Journal } from '../events/journal.ts';
import type { Answers } from '../idempotency/index.ts';
import type { Images } from '../images/index.ts';
import type { LimitUse, LinkRegistry, Principal } from '../keys/index.ts';
import type { Finding, Level } from '../lib/findings.ts';
import type { LogPage, LogQuery } from '../logs/index.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { EgressLog } from '../network/index.ts';
import type { Presets } from '../network/presets.ts';
import type { HostCapacity } from '../sandboxes/admission.ts';
import type { SandboxHost } from '../sandboxes/interface.ts';
import type { StoredEvent } from '../sandboxes/lifecycle-events.ts';
import type { DrainProgress } from '../sandboxes/moves/index.ts';
import type { SecretStore } from '../secrets/index.ts';
import type { Telemetry } from '../telemetry/index.ts';
import type { Authenticator } from './authentication.ts';
import type { ConsoleFiles } from './console-files.ts';
import type { AuditSink } from './middleware.ts';
import type { Placement } from './placement.ts';

/** A root filesystem that sandboxes boot from. */
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

/** The engine that runs the virtual machines, and the reason for its choice. */
export type EngineInfo = {
  readonly state: 'trying' | 'chosen' | 'failed';
  /** Empty, like the next two, unless one is chosen. */
  readonly name: string;
  readonly accelerator: string;
  readonly version: string;
  readonly reason: string;
  /** The engines that were tried, in order. `verdict` is `works` or the reason why not. */
  readonly tried: readonly {
    readonly name: string;
    readonly accelerator: string;
    readonly verdict: string;
    readonly ms: number;
  }[];
};

/** What `sandboxd doctor` finds; in the form of the answer. */
export type HostReport = {
  readonly checked_at: string;
  readonly version: string;
  readonly worst: Level;
  readonly groups: { readonly group: string; readonly findings: Finding[] }[];
};

/** Links to ports, and the URLs of ports. */
export type PortLinks = Pick<LinkRegistry, 'create' | 'list' | 'delete'> & {
  urlOf(id: string, port: number): URL;
  /** The origins of all URLs, as a source of a Content-Security-Policy. */
  source(): string;
};

export interface HttpServices {
  readonly log: Logger;
  readonly sandboxes: SandboxHost;
  readonly placement: Placement;
  readonly authenticator: Authenticator;
  readonly audit: AuditSink;
  readonly metrics: Metrics;
  /** Absent: the daemon sends no traces. */
  readonly telemetry?: Telemetry | undefined;
  readonly events: Journal<StoredEvent>;
  /** Answers to requests with an Idempotency-Key. */
  readonly answers: Answers;
  readonly limits: SandboxLimits;
  /** The limits on numbers that a client has, with their use. */
  readonly limitUse: (principal: Principal) => readonly LimitUse[];
  /** Absent: images are disabled. */
  readonly images?: Images | undefined;
  /** Absent: durable logs are disabled. */
  readonly logs?: { read(id: string, query: LogQuery): Promise<LogPage | undefined> } | undefined;
  readonly egressLog: Pick<EgressLog, 'isKept' | 'read' | 'isOpen' | 'onMore'>;
  readonly presets: Pick<Presets, 'list'>;
  /** Stored ones. */
  readonly secrets: Pick<SecretStore, 'list' | 'get' | 'put' | 'remove'>;
  /** Of a request that has values of secrets, for its retries. */
  readonly digestSecrets: (text: string) => string;
  readonly console: ConsoleFiles;
  /** Absent: the daemon has no ingress. */
  readonly portLinks?: PortLinks | undefined;
  listProfiles(): Promise<readonly ProfileInfo[]>;
  /** Known profiles without a root filesystem. The first sandbox that uses one builds it. */
  listUnbakedProfiles(): Promise<readonly Pick<ProfileInfo, 'name' | 'isDefault'>[]>;
  engine(): EngineInfo;
  /** Findings of the last minute. Never rejects. */
  checkHost(): Promise<HostReport>;
  /** Of the machine. */
  readCapacity(): Promise<HostCapacity>;
  readDrain(): DrainProgress;
  /** Aborts when the daemon stops. Endless streams then end. */
  readonly stopping: AbortSignal;
  /** Idle timeout of request bodies; default 30 s. */
  readonly bodyIdleMs?: number;
}
