// An OpenTelemetry collector: receives OTLP over HTTP and decodes it by the protocol's field numbers.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import protobuf from 'protobufjs';
import type { Test } from 'tap';

/** The used subset of opentelemetry/proto/{common,resource,trace,metrics}/v1, with its numbers and types. */
const PROTOCOL = `
syntax = "proto3";
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
message KeyValue { string key = 1; AnyValue value = 2; }
message Resource { repeated KeyValue attributes = 1; }
message Scope { string name = 1; string version = 2; }
message Status { string message = 2; uint32 code = 3; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; string name = 5; uint32 kind = 6;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9; Status status = 15;
}
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Traces { repeated ResourceSpans resource_spans = 1; }
message Number { fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3; double as_double = 4; sfixed64 as_int = 6; repeated KeyValue attributes = 7; }
message Histogram {
  fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3; fixed64 count = 4; double sum = 5;
  repeated fixed64 bucket_counts = 6; repeated double explicit_bounds = 7; repeated KeyValue attributes = 9;
}
message Gauge { repeated Number data_points = 1; }
message Sum { repeated Number data_points = 1; uint32 aggregation_temporality = 2; bool is_monotonic = 3; }
message Histograms { repeated Histogram data_points = 1; uint32 aggregation_temporality = 2; }
message Metric { string name = 1; string description = 2; string unit = 3; Gauge gauge = 5; Sum sum = 7; Histograms histogram = 9; }
message ScopeMetrics { Scope scope = 1; repeated Metric metrics = 2; }
message ResourceMetrics { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2; }
message Metrics { repeated ResourceMetrics resource_metrics = 1; }
`;

// 64-bit numbers are JavaScript numbers, as in the daemon's own protocol: the setting applies to the whole process.
protobuf.util.Long = null as unknown as typeof protobuf.util.Long;
protobuf.configure();
const { root } = protobuf.parse(PROTOCOL, { keepCase: true });
type Pair = { readonly key: string; readonly value: Readonly<Record<string, unknown>> };

type CollectedSpan = {
  readonly name: string;
  readonly traceId: string;
  readonly id: string;
  /** Empty for a root span. */
  readonly parent: string;
  /** The tracestate of systems before the daemon, as text. */
  readonly traceState: string;
  readonly kind: number;
  readonly ms: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly status: number;
};

type CollectedMetric = {
  readonly name: string;
  readonly unit: string;
  readonly sum?: { readonly is_monotonic: boolean; readonly aggregation_temporality: number };
  readonly points: readonly Readonly<Record<string, unknown>>[];
};

export class Collector {
  readonly spans: CollectedSpan[] = [];
  /** Metrics of the newest export. */
  metrics: readonly CollectedMetric[] = [];
  resource: Readonly<Record<string, unknown>> = {};
  readonly headers: NodeJS.Dict<string | string[]>[] = [];
  /** Status of the next responses. */
  status = 200;

  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  span(name: string): CollectedSpan | undefined {
    return this.spans.find((span) => span.name === name);
  }

  take(path: string, body: Buffer): void {
    if (path === '/v1/traces') this.#takeSpans(body);
    else if (path === '/v1/metrics') this.#takeMetrics(body);
    else throw new Error(`nothing takes ${path}`);
  }

  #takeSpans(body: Buffer): void {
    for (const { resource, scope_spans } of decode('Traces', body).resource_spans) {
      this.resource = toRecord(resource.attributes);
      for (const { spans } of scope_spans)
        for (const span of spans)
          this.spans.push({
            name: span.name,
            traceId: hex(span.trace_id),
            id: hex(span.span_id),
            parent: hex(span.parent_span_id),
            traceState: span.trace_state,
            kind: span.kind,
            ms: (Number(span.end_time_unix_nano) - Number(span.start_time_unix_nano)) / 1e6,
            attributes: toRecord(span.attributes),
            status: span.status?.code ?? 0,
          });
    }
  }

  #takeMetrics(body: Buffer): void {
    for (const { resource, scope_metrics } of decode('Metrics', body).resource_metrics) {
      this.resource = toRecord(resource.attributes);
      this.metrics = scope_metrics.flatMap(({ metrics }: { metrics: Decoded[] }) =>
        metrics.map(({ name, unit, sum, gauge, histogram }) => ({
          ...{ name, unit, ...(sum && { sum }) },
          points: (sum ?? gauge ?? histogram)?.data_points.map((point: Decoded) => ({
            ...point,
            attributes: toRecord(point.attributes),
          })),
        })),
      );
    }
  }
}

export async function startCollector(t: Test): Promise<Collector> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      collector.headers.push(request.headers);
      if (collector.status === 200) collector.take(request.url ?? '', Buffer.concat(chunks));
      response.writeHead(collector.status, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const collector = new Collector(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.teardown(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return collector;
}

// biome-ignore lint/suspicious/noExplicitAny: a decoded message has the types of the text above.
type Decoded = any;

function decode(type: string, body: Buffer): Decoded {
  const message = root.lookupType(type);
  return message.toObject(message.decode(body), {
    longs: Number,
    arrays: true,
    defaults: true,
    bytes: Buffer,
  });
}

function hex(bytes: Buffer): string {
  return Buffer.from(bytes).toString('hex');
}

function toRecord(pairs: readonly Pair[] = []): Record<string, unknown> {
  return Object.fromEntries(
    pairs.map(({ key, value }) => [key, value.string_value ?? value.double_value ?? Number(value.int_value)]),
  );
}
