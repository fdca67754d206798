// Exports traces and metrics by OTLP. Loaded only if a collector is configured; one of two files that use
// OpenTelemetry's libraries.
import { AsyncLocalStorage } from 'node:async_hooks';
import { hostname } from 'node:os';
import {
  type Attributes,
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { setGlobalErrorHandler, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Logger } from 'pino';
import { toError } from '../lib/errors.ts';
import { type LifecycleEvent, type LifecycleListener, originOf } from '../sandboxes/lifecycle-events.ts';
import { toMetricProducer } from './metric-producer.ts';
import type { RequestFacts, RequestSpan, Signals, Telemetry, TelemetryOptions } from './telemetry.ts';

const SCOPE = 'sandboxd';
/** An unreachable collector fails every batch: it is logged once per interval. */
const ERROR_LOG_MS = 60_000;
/** Timeout for the last export when the daemon stops. */
const LAST_EXPORT_MS = 3000;
const MAX_PATH_CHARS = 256;

export function startTelemetry(
  { env, metrics, version, log }: TelemetryOptions,
  signals: Signals,
): Telemetry {
  const complain = complainSometimes(log);
  diag.setLogger(
    { error: complain, warn: complain, info: () => {}, debug: () => {}, verbose: () => {} },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  setGlobalErrorHandler((error) => complain(toError(error).message));
  const resource = describe(version);
  const spans = signals.traces ? makeTracerProvider(resource, env) : undefined;
  const reader = signals.metrics
    ? new PeriodicExportingMetricReader({
        exporter: new OTLPMetricExporter(),
        metricProducers: [toMetricProducer(metrics, { name: SCOPE, version }, resource)],
        ...milliseconds(env, 'OTEL_METRIC_EXPORT_INTERVAL', (exportIntervalMillis) => ({
          exportIntervalMillis,
          exportTimeoutMillis: Math.min(exportIntervalMillis, 30_000),
        })),
      })
    : undefined;
  const meters = reader && new MeterProvider({ resource, readers: [reader] });
  const current = new AsyncLocalStorage<Context>();
  const tracer = spans?.getTracer(SCOPE, version);
  // The collector's URL may contain a password: only the kinds of signals are logged.
  log.info(signals, 'exporting telemetry by OTLP');
  return {
    onLifeEvent: tracer === undefined ? () => undefined : onLifeEvent(tracer, () => current.getStore()),
    begin: (facts) => (tracer === undefined ? NO_SPAN : begin(tracer, current, facts)),
    close: async () => {
      const ends = Promise.allSettled([spans?.shutdown(), meters?.shutdown()]);
      const limit = new Promise((resolve) => setTimeout(resolve, LAST_EXPORT_MS).unref());
      await Promise.race([ends, limit]);
      diag.disable();
    },
  };
}

const NO_SPAN: RequestSpan = { traceId: '', within: (work) => work(), end: () => undefined };

function begin(tracer: Tracer, current: AsyncLocalStorage<Context>, facts: RequestFacts): RequestSpan {
  const { method, route, operation, path, requestId, address, header } = facts;
  const parent = new W3CTraceContextPropagator().extract(ROOT_CONTEXT, header, {
    get: (read, name) => read(name),
    keys: () => ['traceparent', 'tracestate'],
  });
  const attributes: Attributes = {
    'http.request.method': method,
    'url.path': path.slice(0, MAX_PATH_CHARS),
    'client.address': address,
    'sandboxd.request_id': requestId,
    ...(route !== undefined && { 'http.route': route }),
    ...(operation !== undefined && { 'sandboxd.operation': operation }),
  };
  const name = route === undefined ? method : `${method} ${route}`;
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
  const within = trace.setSpan(parent, span);
  return {
    traceId: span.spanContext().traceId,
    within: (work) => current.run(within, work),
    end: (status) => finish(span, status),
  };
}

/** Without an error message, which may contain request data: the daemon's log has it. */
function finish(span: Span, status: number): void {
  span.setAttribute('http.response.status_code', status);
  // OpenTelemetry's conventions do not count a 4xx status as a failure of the server.
  if (status >= 500) {
    span.setAttribute('error.type', String(status));
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

/** OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override these defaults. */
function describe(version: string): Resource {
  const own = resourceFromAttributes({
    'service.name': SCOPE,
    'service.version': version,
    'host.name': hostname(),
  });
  return own.merge(detectResources({ detectors: [envDetector] }));
}

function makeTracerProvider(resource: Resource, env: TelemetryOptions['env']): TracerProvider {
  const exporter = new OTLPTraceExporter();
  const delay = milliseconds(env, 'OTEL_BSP_SCHEDULE_DELAY', (ms) => ({ scheduledDelayMillis: ms }));
  const processor = new BatchSpanProcessor({ exporter, ...delay });
  return new TracerProvider({
    resource,
    sampler: chooseSampler(env),
    spanProcessors: [processor],
    spanLimits: { attributeValueLengthLimit: 1000 },
  });
}

/** A client's sampling decision is followed, except with `traceidratio`. */
function chooseSampler({
  OTEL_TRACES_SAMPLER: name = '',
  OTEL_TRACES_SAMPLER_ARG: arg,
}: NodeJS.ProcessEnv): Sampler {
  const ratio = arg?.trim() ? Number(arg) : 1;
  if (!(ratio >= 0 && ratio <= 1))
    throw new Error(`OTEL_TRACES_SAMPLER_ARG is "${arg}", but must be a share from 0 to 1`);
  const sampled = new TraceIdRatioBasedSampler(ratio);
  switch (name.trim()) {
    case 'traceidratio':
      return sampled;
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: sampled });
    case '':
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    default:
      throw new Error(
        `OTEL_TRACES_SAMPLER is "${name}", but must be traceidratio, parentbased_traceidratio or parentbased_always_on`,
      );
  }
}

function milliseconds<T>(
  env: TelemetryOptions['env'],
  variable: string,
  use: (ms: number) => T,
): T | undefined {
  const text = env[variable]?.trim();
  if (!text) return undefined;
  const ms = Number(text);
  if (!Number.isSafeInteger(ms) || ms < 1)
    throw new Error(`${variable} is "${text}", but must be a number of milliseconds`);
  return use(ms);
}

function complainSometimes(log: Logger): (message: string) => void {
  let silentUntil = 0;
  return (message) => {
    if (performance.now() < silentUntil) return;
    silentUntil = performance.now() + ERROR_LOG_MS;
    log.warn({ reason: message }, 'cannot export telemetry; the batch is lost');
  };
}

// Spans for the long operations within a request: sandbox starts with their stages, snapshots, templates.
type Work = {
  readonly name: string;
  readonly attributes: Attributes;
  /** Milliseconds from the start to the end of each stage; `totalMs` to the end of the operation. */
  readonly times: Readonly<Record<string, number>>;
};

/** `within` returns the current request's context; without one, no span is sent. */
function onLifeEvent(tracer: Tracer, within: () => Context | undefined): LifecycleListener {
  return (event) => {
    const parent = within();
    const work = parent && toWork(event);
    if (work === undefined) return;
    const { totalMs = 0, ...stages } = work.times;
    const beganAt = Date.now() - totalMs;
    const span = tracer.startSpan(work.name, { startTime: beganAt, attributes: work.attributes }, parent);
    const inner = trace.setSpan(parent as Context, span);
    let from = 0;
    for (const [stage, at] of Object.entries(stages).sort(([, a], [, b]) => a - b)) {
      const name = stage.replace(/Ms$/, '');
      tracer.startSpan(name, { startTime: beganAt + from }, inner).end(beganAt + at);
      from = at;
    }
    span.end(beganAt + totalMs);
  };
}

function toWork(event: LifecycleEvent): Work | undefined {
  switch (event.kind) {
    case 'created':
    case 'forked': {
      const { sandbox, rootfs, times, sourceSnapshot } = event;
      const attributes = {
        'sandboxd.sandbox': sandbox,
        'sandboxd.origin': originOf(event),
        'sandboxd.rootfs': rootfs,
        ...(sourceSnapshot !== undefined && { 'sandboxd.snapshot': sourceSnapshot }),
      };
      return { name: 'start sandbox', attributes, times };
    }
    case 'snapshot-taken': {
      const { snapshot, sandbox, pausedMs, totalMs } = event;
      const attributes = {
        'sandboxd.snapshot': snapshot,
        'sandboxd.sandbox': sandbox,
        'sandboxd.paused_ms': pausedMs,
      };
      return { name: 'take snapshot', attributes, times: { totalMs } };
    }
    case 'template-made': {
      const { template, rootfs, pausedMs, totalMs } = event;
      const attributes = {
        'sandboxd.template': template,
        'sandboxd.rootfs': rootfs,
        'sandboxd.paused_ms': pausedMs,
      };
      return { name: 'make template', attributes, times: { totalMs } };
    }
    default:
      return undefined;
  }
}
