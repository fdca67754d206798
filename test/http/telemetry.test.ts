// Traces and metrics at a collector: what a request leaves there, whose trace it is a part of, and what is not sent.
import t, { type Test } from 'tap';
import { Metrics } from '../../host-agent/src/metrics/metrics.ts';
import { LifecycleEvents, type LifecycleListener } from '../../host-agent/src/sandboxes/lifecycle-events.ts';
import { countLifecycleEvents, measureSandboxes } from '../../host-agent/src/sandboxes/metrics.ts';
import { openTelemetry, type Telemetry } from '../../host-agent/src/telemetry/index.ts';
import { type Collector, startCollector } from '../support/collector.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { ask, makeApp, RawClient, serve } from './support.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CALLER = 'b7ad6b7169203331';

type Sent = { readonly collector: Collector; readonly telemetry: Telemetry; readonly metrics: Metrics };

/** Exporters read the variables of the process, as the daemon has them. */
async function send(t: Test, changes: NodeJS.ProcessEnv = {}): Promise<Sent> {
  const collector = await startCollector(t);
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '50',
    OTEL_METRIC_EXPORT_INTERVAL: '50',
    ...changes,
  };
  for (const [name, value] of Object.entries(env)) process.env[name] = value;
  t.teardown(() => {
    for (const name of Object.keys(env)) delete process.env[name];
  });
  const metrics = new Metrics();
  const { log } = makeApp();
  const telemetry = await openTelemetry({ env: process.env, metrics, version: '1.2.3', log });
  if (telemetry === undefined) throw new Error('nothing is sent');
  t.teardown(() => telemetry.close());
  return { collector, telemetry, metrics };
}

function eventsFor(listener: LifecycleListener): LifecycleEvents {
  const events = new LifecycleEvents();
  events.subscribe(listener);
  return events;
}

t.test('nothing is loaded or sent unless a collector is named', async (t) => {
  const { log } = makeApp();
  const open = (env: NodeJS.ProcessEnv) => openTelemetry({ env, metrics: new Metrics(), version: '1', log });
  const OTEL_EXPORTER_OTLP_ENDPOINT = 'http://127.0.0.1:4318';
  t.equal(await open({}), undefined);
  t.equal(await open({ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }), undefined);
  t.equal(await open({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED: 'true' }), undefined);
  const none = { OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'none' };
  t.equal(await open({ OTEL_EXPORTER_OTLP_ENDPOINT, ...none }), undefined);
});

t.test('a variable that makes no sense is named', async (t) => {
  const { log } = makeApp();
  const OTEL_EXPORTER_OTLP_ENDPOINT = 'http://127.0.0.1:4318';
  const cases: [NodeJS.ProcessEnv, RegExp][] = [
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: '127.0.0.1:4318' },
      /OTEL_EXPORTER_OTLP_ENDPOINT is "127.*URL of a collector/,
    ],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'ftp://x' }, /OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is "ftp/],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
      /PROTOCOL is "grpc", but only http/,
    ],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER: 'often' }, /OTEL_TRACES_SAMPLER is "often"/],
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' },
      /SAMPLER_ARG is "2"/,
    ],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_BSP_SCHEDULE_DELAY: 'soon' }, /SCHEDULE_DELAY is "soon"/],
  ];
  for (const [env, message] of cases)
    await t.rejects(openTelemetry({ env, metrics: new Metrics(), version: '1', log }), { message });
});

t.test('a request is a part of its client’s trace, and its id and the trace’s are in the log', async (t) => {
  const { collector, telemetry } = await send(t, { OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test' });
  const { app, lines, sandboxes } = makeApp({ telemetry });
  const headers = { traceparent: `00-${TRACE}-${CALLER}-01`, 'x-request-id': 'mine' };
  await app.request('/sandboxes/sbx_0123456789abc', { headers });
  sandboxes.onCreate = async () => {
    throw new Error('broken');
  };
  await ask(app, 'POST', '/sandboxes', '{}');
  await ask(app, 'GET', '/nothing/at/all');
  await until(() => collector.spans.length === 3);
  const unknown = collector.span('GET /sandboxes/:id');
  t.match(unknown, { traceId: TRACE, parent: CALLER, kind: 2, status: 0 });
  t.match(unknown?.attributes, {
    'http.request.method': 'GET',
    'http.route': '/sandboxes/:id',
    'url.path': '/sandboxes/sbx_0123456789abc',
    'http.response.status_code': 404,
    'sandboxd.request_id': 'mine',
  });
  const failed = collector.span('POST /sandboxes');
  t.match(failed, {
    parent: '',
    status: 2,
    attributes: { 'http.response.status_code': 500, 'error.type': '500' },
  });
  t.notHas(unknown?.attributes, { 'error.type': '404' }, 'a refusal is no failure');
  t.not(failed?.traceId, TRACE, 'a trace of its own');
  t.match(
    collector.span('GET'),
    { attributes: { 'url.path': '/nothing/at/all' } },
    'strangers make no names',
  );
  t.match(collector.resource, {
    'service.name': 'sandboxd',
    'service.version': '1.2.3',
    'deployment.environment': 'test',
  });
  t.match(
    lines.find(({ requestId }) => requestId === 'mine'),
    { traceId: TRACE },
  );
});

t.test('a key that a client put into the state of its trace does not go on', async (t) => {
  const { collector, telemetry } = await send(t);
  const { app } = makeApp({ telemetry });
  const traceparent = `00-${TRACE}-${CALLER}-01`;
  const key = `sbk_${'k'.repeat(32)}`;
  for (const tracestate of [
    'vendor=opaque',
    `vendor=${key}`,
    `a=1,${key}=1`,
    `a=${encodeURIComponent(key)},b=2`,
  ])
    await app.request('/healthz', { headers: { traceparent, tracestate } });
  await until(() => collector.spans.length === 4);
  const states = collector.spans.map(({ traceState }) => traceState);
  t.equal(states[0], 'vendor=opaque');
  t.notMatch(states.join(), /kkkk/);
  t.ok(collector.spans.every(({ parent }) => parent === CALLER));
});

t.test('an invalid traceparent begins a new trace', async (t) => {
  const { collector, telemetry } = await send(t);
  const { app } = makeApp({ telemetry });
  const bad = [
    '00-0-0-01',
    `00-${'0'.repeat(32)}-${CALLER}-01`,
    `ff-${TRACE}-${CALLER}-01`,
    'x'.repeat(5000),
  ];
  for (const traceparent of bad) await app.request('/healthz', { headers: { traceparent } });
  await until(() => collector.spans.length === bad.length);
  for (const { parent, traceId } of collector.spans) {
    t.equal(parent, '');
    t.match(traceId, /^(?!0af765)[0-9a-f]{32}$/);
  }
});

t.test('nothing of a query, a header or a body is sent, nor of what a refusal says of them', async (t) => {
  const { collector, telemetry } = await send(t);
  const { app, sandboxes } = makeApp({ telemetry });
  const secret = 'se%23cret';
  await ask(
    app,
    'POST',
    '/sandboxes',
    JSON.stringify({ memory_mib: secret, profile: secret, [secret]: secret }),
  );
  await ask(app, 'GET', `/events?kind=${secret}&follow=${secret}`);
  await app.request('/nowhere', {
    headers: { 'last-event-id': secret, authorization: secret, 'x-other': secret },
  });
  sandboxes.onCreate = async () => {
    throw new Error(`cannot do ${secret}`);
  };
  await ask(app, 'POST', '/sandboxes', '{}');
  await until(() => collector.spans.length === 4);
  t.same(
    collector.spans.map(({ attributes }) => attributes['http.response.status_code']),
    [400, 400, 404, 500],
  );
  t.notMatch(JSON.stringify(collector.spans), /se(%23|#)cret/);
});

t.test('a request without the sampled flag is not exported', async (t) => {
  const { collector, telemetry } = await send(t);
  const { app } = makeApp({ telemetry });
  await app.request('/healthz', { headers: { traceparent: `00-${TRACE}-${CALLER}-00` } });
  await ask(app, 'GET', '/profiles');
  await until(() => collector.spans.length > 0);
  t.same(
    collector.spans.map(({ name }) => name),
    ['GET /profiles'],
  );
});

t.test('a stream is one span until it ends', async (t) => {
  const { collector, telemetry } = await send(t);
  const { port, sandboxes } = await serve(t, { telemetry });
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => void exec.events.started?.(7);
  const client = new RawClient(t, port);
  client.write(
    `POST /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{"cmd":["true"]}`,
  );
  await until(() => sandboxes.execs.length === 1);
  t.equal(collector.span('POST /sandboxes/:id/exec'), undefined);
  sandboxes.execs[0]?.exit();
  await until(() => collector.span('POST /sandboxes/:id/exec') !== undefined, 'its span');
});

t.test('a create has its stages in its trace, also when creates wait for each other', async (t) => {
  const { collector, telemetry } = await send(t);
  const { manager } = await startMemoryDaemon(t, { events: eventsFor(telemetry.onLifeEvent) });
  const { app } = makeApp({ telemetry, sandboxes: manager });
  const traces = Array.from({ length: 8 }, (_, at) => `${at}af7651916cd43dd8448eb211c80319c`);
  const made = await Promise.all(
    traces.map(async (trace) => {
      const headers = { traceparent: `00-${trace}-${CALLER}-01`, 'content-type': 'application/json' };
      const answer = await app.request('/sandboxes', { method: 'POST', headers, body: '{}' });
      return ((await answer.json()) as { id: string }).id;
    }),
  );
  const starts = () => collector.spans.filter(({ name }) => name === 'start sandbox');
  await until(() => starts().length === 8);
  const origins = starts().map(({ attributes }) => String(attributes['sandboxd.origin']));
  t.same(
    origins.sort(),
    ['boot', ...Array(7).fill('template')],
    'the first is booted, the others are its copies',
  );
  for (const [at, trace] of traces.entries()) {
    const request = collector.spans.find((span) => span.traceId === trace && span.parent === CALLER);
    const start = starts().find(({ attributes }) => attributes['sandboxd.sandbox'] === made[at]);
    t.match(start, { traceId: trace, parent: request?.id });
    const stages = collector.spans.filter(({ parent }) => parent === start?.id);
    t.ok(stages.length > 2, stages.map(({ name }) => name).join());
    for (const { traceId } of stages) t.equal(traceId, trace);
  }
});

t.test('the metrics arrive as they are at /metrics', async (t) => {
  const { collector, telemetry, metrics } = await send(t);
  const { manager } = await startMemoryDaemon(t, { events: eventsFor(countLifecycleEvents(metrics)) });
  measureSandboxes(metrics, {
    source: manager.metricsSource,
    top: 5,
    readCapacity: async () => ({ memoryTotalBytes: 4, memoryAvailableBytes: 3, diskFreeBytes: 2 }),
  });
  const { app } = makeApp({ telemetry, metrics, sandboxes: manager });
  for (let count = 0; count < 3; count++) await ask(app, 'POST', '/sandboxes', '{}');
  const find = (name: string) => collector.metrics.find((metric) => metric.name === name);
  const points = (name: string) => find(name)?.points ?? [];
  await until(() => points('sandboxd_requests_total')[0]?.as_double === 3);
  t.match(find('sandboxd_requests_total')?.sum, { is_monotonic: true, aggregation_temporality: 2 });
  t.match(points('sandboxd_requests_total'), [
    { as_double: 3, attributes: { operation: 'createSandbox', status: '201' } },
  ]);
  const running = points('sandboxd_sandboxes').find(
    ({ attributes }) => (attributes as { state: string }).state === 'running',
  );
  t.equal(running?.as_double, 3);
  t.match(find('sandboxd_host_memory_bytes'), { unit: 'By', points: [{ as_double: 4 }] });
  const histogram = find('sandboxd_sandbox_start_duration_seconds');
  t.equal(histogram?.unit, 's');
  const before = collector.metrics.map(({ name, unit }) => [name, unit]);
  const text = await metrics.render();
  const exports = collector.headers.length;
  await until(() => collector.headers.length > exports + 1);
  t.same(
    collector.metrics.map(({ name, unit }) => [name, unit]),
    before,
    'a scrape changes no name',
  );
  for (const point of histogram?.points ?? []) {
    const { count, bucket_counts, explicit_bounds, attributes } = point as Record<string, string[]> & {
      count: string;
      attributes: unknown;
    };
    t.equal(bucket_counts?.length, (explicit_bounds?.length ?? 0) + 1);
    t.equal(
      bucket_counts?.reduce((sum, each) => sum + Number(each), 0),
      Number(count),
      JSON.stringify(attributes),
    );
  }
  t.ok(histogram?.points.length);
  const families = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  const sent = new Set(collector.metrics.map(({ name }) => name.replace(/_total$/, '')));
  t.same(
    families.filter((name) => name && !sent.has(name)),
    [],
  );
});

t.test('what goes out has the headers that were asked for', async (t) => {
  const { collector, telemetry } = await send(t, { OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20x' });
  const { app } = makeApp({ telemetry });
  await ask(app, 'GET', '/healthz');
  await until(() => collector.spans.length > 0);
  t.match(collector.headers[0], { authorization: 'Bearer x', 'content-type': 'application/x-protobuf' });
});

t.test('a collector that is away costs requests nothing, and is named once', async (t) => {
  const lines: string[] = [];
  const { log } = makeApp();
  const spy = { ...log, warn: (_: unknown, text: string) => void lines.push(text), info: () => undefined };
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = 'http://127.0.0.1:1';
  process.env.OTEL_BSP_SCHEDULE_DELAY = '20';
  t.teardown(() => {
    delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
    delete process.env.OTEL_BSP_SCHEDULE_DELAY;
  });
  const telemetry = await openTelemetry({
    env: process.env,
    metrics: new Metrics(),
    version: '1',
    log: spy as unknown as typeof log,
  });
  const { app } = makeApp({ telemetry });
  for (let count = 0; count < 50; count++) t.equal((await ask(app, 'GET', '/healthz')).status, 200);
  await telemetry?.close();
  t.ok(lines.length <= 1, lines.join());
});

t.test('the last spans are sent when the daemon stops', async (t) => {
  const { collector, telemetry } = await send(t, { OTEL_BSP_SCHEDULE_DELAY: '3600000' });
  const { app } = makeApp({ telemetry });
  await ask(app, 'GET', '/healthz');
  await telemetry.close();
  t.equal(collector.spans.length, 1);
});
