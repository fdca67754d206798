// Telemetry for an OpenTelemetry collector. Its environment variables decide whether anything is exported.
import { parseWebUrl } from '../lib/authority.ts';
import type { Signals, Telemetry, TelemetryOptions } from './telemetry.ts';

export type { RequestSpan, Telemetry } from './telemetry.ts';

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
