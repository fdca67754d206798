// What is told of requests to a collector of OpenTelemetry.
import type { Logger } from 'pino';
import type { Metrics } from '../metrics/index.ts';
import type { LifecycleListener } from '../sandboxes/lifecycle-events.ts';

export type RequestFacts = {
  readonly method: string;
  /** Path of the route, with names for what is in it; absent: nobody knows the path. */
  readonly route?: string | undefined;
  readonly operation?: string | undefined;
  readonly path: string;
  readonly requestId: string;
  readonly address: string;
  /** Headers of the trace that it is a part of, by lower-case name. */
  readonly header: (name: string) => string | undefined;
};

export interface RequestSpan {
  /** 32 hexadecimal digits: the client's own where it sent `traceparent`. */
  readonly traceId: string;
  /** What `work` brings about is a part of this. */
  within<T>(work: () => T): T;
  /** The answer is over. */
  end(status: number): void;
}

export interface Telemetry {
  readonly onLifeEvent: LifecycleListener;
  begin(facts: RequestFacts): RequestSpan;
  /** Sends what was not sent yet. Never rejects, and does not wait for long. */
  close(): Promise<void>;
}

export type TelemetryOptions = {
  readonly env: Readonly<NodeJS.ProcessEnv>;
  readonly metrics: Metrics;
  readonly version: string;
  readonly log: Logger;
};

/** What to send, by the variables that OpenTelemetry has for it. */
export type Signals = { readonly traces: boolean; readonly metrics: boolean };
