// What is exported about requests to an OpenTelemetry collector.
import type { Logger } from 'pino';
import type { Metrics } from '../metrics/metrics.ts';
import type { LifecycleListener } from '../sandboxes/lifecycle-events.ts';

export type RequestFacts = {
  readonly method: string;
  /** The route's path with parameter names; absent: no route has this path. */
  readonly route?: string | undefined;
  readonly operation?: string | undefined;
  readonly path: string;
  readonly requestId: string;
  readonly address: string;
  /** Headers of the parent trace context, by lower-case name. */
  readonly header: (name: string) => string | undefined;
};

export interface RequestSpan {
  /** 32 hexadecimal digits: the client's own if it sent `traceparent`. */
  readonly traceId: string;
  /** Spans that `work` causes are children of this one. */
  within<T>(work: () => T): T;
  /** The response has been sent. */
  end(status: number): void;
}

export interface Telemetry {
  readonly onLifeEvent: LifecycleListener;
  begin(facts: RequestFacts): RequestSpan;
  /** Exports what is pending. Never rejects, and does not wait for long. */
  close(): Promise<void>;
}

export type TelemetryOptions = {
  readonly env: Readonly<NodeJS.ProcessEnv>;
  readonly metrics: Metrics;
  readonly version: string;
  readonly log: Logger;
};

/** Signals to export, from OpenTelemetry's environment variables. */
export type Signals = { readonly traces: boolean; readonly metrics: boolean };
