// What is exported about requests to an OpenTelemetry collector, and whether: its environment variables decide.
import type { Logger } from 'pino';
import { parseWebUrl } from '../lib/authority.ts';
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

const ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const PROTOCOL = 'http/protobuf';

/**
 * Undefined if telemetry is not configured; then none of its code is loaded. Throws an error with a sentence for an
 * invalid variable.
 */
export async function openTelemetry(options: TelemetryOptions): Promise<Telemetry | undefined> {
  const signals = readSignals(options.env);
  if (!signals.traces && !signals.metrics) return undefined;
  const { startTelemetry } = await import('./otlp.ts');
  return startTelemetry(options, signals);
}

function readSignals(env: TelemetryOptions['env']): Signals {
  const isOff = env.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true';
  const isSent = (signal: 'TRACES' | 'METRICS'): boolean => {
    const own = `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`;
    const [variable, endpoint] = env[own]?.trim() ? [own, env[own]] : [ENDPOINT, env[ENDPOINT]];
    if (isOff || !endpoint?.trim() || env[`OTEL_${signal}_EXPORTER`]?.trim() === 'none') return false;
    assertUrl(variable, endpoint.trim());
    assertProtocol(env, signal);
    return true;
  };
  return { traces: isSent('TRACES'), metrics: isSent('METRICS') };
}

function assertUrl(variable: string, endpoint: string): void {
  if (parseWebUrl(endpoint) !== undefined) return;
  throw new Error(
    `${variable} is "${endpoint}", but must be the URL of a collector such as http://127.0.0.1:4318`,
  );
}

function assertProtocol(env: TelemetryOptions['env'], signal: string): void {
  for (const variable of [`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`, 'OTEL_EXPORTER_OTLP_PROTOCOL']) {
    const protocol = env[variable]?.trim();
    if (!protocol) continue;
    if (protocol === PROTOCOL) return;
    throw new Error(
      `${variable} is "${protocol}", but only ${PROTOCOL} is spoken: collectors take it on port 4318`,
    );
  }
}
