// The metrics: what is counted, what a stranger can make of it, and who may read.

import t, { type Test } from 'tap';
import { ANY_PLACE, createMetricsApp, HttpServer } from '../../host-agent/src/http/index.ts';
import { Metrics, measureProcess } from '../../host-agent/src/metrics/metrics.ts';
import { EgressLog } from '../../host-agent/src/network/index.ts';
import { countLifecycleEvents, measureSandboxes } from '../../host-agent/src/sandboxes/metrics.ts';
import { FAKE_CONSOLE } from '../support/console.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { NO_PRESETS } from '../support/no-presets.ts';
import { until } from '../support/until.ts';
import { FAKE_SECRETS } from './fake-secrets.ts';
import { openKeyring } from './keyed.ts';
import {
  ask,
  CAPACITY,
  ENGINE,
  MemoryAnswers,
  makeApp,
  NO_EVENTS,
  RawClient,
  serve,
  UNGUARDED,
} from './support.ts';

async function read(url: string, key?: string): Promise<{ status: number; text: string; type: string }> {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const answer = await fetch(url, { headers });
  return { status: answer.status, text: await answer.text(), type: answer.headers.get('content-type') ?? '' };
}

/** The value of a series as it is written. */
function seriesOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

t.test('operations are counted by what came of them, with how long they took', async (t) => {
  const { app, sandboxes } = makeApp();
  await ask(app, 'POST', '/sandboxes', '{}');
  await ask(app, 'POST', '/sandboxes', '{"vcpus": -1}');
  sandboxes.onCreate = async () => {
    throw new Error('broken');
  };
  await ask(app, 'POST', '/sandboxes', '{}');
  const { body, headers, status } = await ask(app, 'GET', '/metrics');
  const text = String(body);
  t.equal(status, 200);
  t.match(headers.get('content-type'), /^application\/openmetrics-text; version=1\.0\.0/);
  t.ok(text.endsWith('# EOF\n'));
  for (const code of [201, 400, 500])
    t.equal(
      seriesOf(text, `sandboxd_requests_total{operation="createSandbox",status="${code}"}`),
      1,
      `${code}`,
    );
  for (const result of ['ok', 'refused', 'failed'])
    t.equal(
      seriesOf(text, `sandboxd_request_duration_seconds_count{operation="createSandbox",result="${result}"}`),
      1,
      result,
    );
});

t.test('the number of series does not depend on what untrusted callers request', async (t) => {
  const { app } = makeApp();
  const count = async () => String((await ask(app, 'GET', '/metrics')).body).split('\n').length;
  await ask(app, 'GET', '/nothing');
  await ask(app, 'BREW', '/sandboxes/sbx_0123456789abc');
  await ask(app, 'GET', '/sandboxes/sbx_0123456789abc');
  await ask(app, 'POST', '/sandboxes', '{}');
  await ask(app, 'POST', '/sandboxes', '{"image":1}');
  await count();
  const before = await count();
  for (let at = 0; at < 300; at++) {
    const name = `${at}"} 1\n# TYPE x counter\\${'x'.repeat(at === 0 ? 4096 : 1)}\ud800`;
    await ask(app, 'POST', '/sandboxes', JSON.stringify({ profile: name }));
    await ask(app, 'POST', '/sandboxes', JSON.stringify({ image: name, [name]: name }));
    await ask(app, 'GET', `/nothing/${at}"}\n`);
    await ask(app, `M${at}`, `/${at}`);
    await ask(app, 'GET', `/sandboxes/sbx_0123456789${at.toString().padStart(3, '0')}`);
  }
  t.equal(await count(), before);
});

t.test('a stream is open until it ends', async (t) => {
  const metrics = new Metrics();
  const { port, sandboxes } = await serve(t, { metrics });
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => void exec.events.started?.(7);
  const client = new RawClient(t, port);
  client.write(
    `POST /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{"cmd":["true"]}`,
  );
  const open = async () => seriesOf(await metrics.render(), 'sandboxd_requests_open{operation="exec"}');
  await until(() => sandboxes.execs.length === 1);
  t.equal(await open(), 1);
  sandboxes.execs[0]?.exit();
  await until(() => client.text.includes('\r\n\r\n'), 'an answer');
  while ((await open()) !== 0) await new Promise((resolve) => setTimeout(resolve, 5));
  t.equal(
    seriesOf(await metrics.render(), 'sandboxd_request_duration_seconds_count{operation="exec",result="ok"}'),
    1,
  );
});

t.test('with keys, metrics need a key without a tenant', async (t) => {
  const keyring = await openKeyring(t);
  const { url } = await serve(t, { authenticator: keyring.authenticator });
  t.equal((await read(`${url}/metrics`)).status, 200, 'nobody needs a key yet');
  const key = await keyring.make({ policy: { operations: ['read'] } });
  const foreign = await keyring.make({ tenant: 'acme' });
  const writer = await keyring.make({ policy: { operations: ['exec'] } });
  t.equal((await read(`${url}/metrics`)).status, 401);
  t.equal((await read(`${url}/metrics`, key)).status, 200);
  t.match(await read(`${url}/metrics`, foreign), { status: 403, text: /of all tenants together/ });
  t.equal((await read(`${url}/metrics`, writer)).status, 403);
});

t.test('an address of their own has the metrics and nothing else', async (t) => {
  const keyring = await openKeyring(t);
  const key = await keyring.make();
  const { log, sandboxes } = makeApp();
  const services = {
    ...UNGUARDED,
    log,
    sandboxes,
    metrics: new Metrics(),
    events: NO_EVENTS,
    answers: new MemoryAnswers(),
    engine: () => ENGINE,
    readCapacity: async () => CAPACITY,
    readDrain: () => ({ state: 'off' as const, moved: 0, sandboxes: [] }),
    listUnbakedProfiles: async () => [],
    stopping: new AbortController().signal,
    egressLog: new EgressLog(undefined),
    presets: NO_PRESETS,
    placement: ANY_PLACE,
    ...FAKE_SECRETS,
    console: FAKE_CONSOLE,
    authenticator: keyring.authenticator,
    limits: { vcpus: 1, memoryMib: 512, diskBytes: 2 ** 30, sandboxes: 1, fork: 1 },
    limitUse: () => [],
    listProfiles: async () => [],
    checkHost: () => Promise.reject(new Error('not asked')),
  };
  const server = new HttpServer({ ...services, app: createMetricsApp(services) });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${port}`;
  t.equal((await read(`${url}/healthz`)).status, 200);
  t.equal((await read(`${url}/metrics`)).status, 401);
  t.equal((await read(`${url}/metrics`, key)).status, 200);
  t.match(await read(`${url}/sandboxes`, key), { status: 404 });
  t.equal(
    (await fetch(`${url}/sandboxes`, { method: 'POST', headers: { authorization: `Bearer ${key}` } })).status,
    404,
  );
});

t.test('what there is and what happened is in them, and scrapes at once are one', async (t) => {
  const { manager, home } = await startMemoryDaemon(t);
  const metrics = new Metrics();
  using _process = measureProcess(metrics, '1.2.3');
  const listener = countLifecycleEvents(metrics);
  let scrapes = 0;
  measureSandboxes(metrics, {
    source: manager.metricsSource,
    top: 2,
    readCapacity: async () => {
      scrapes++;
      return { memoryTotalBytes: 4, memoryAvailableBytes: 3, diskFreeBytes: 2 };
    },
  });
  const ids = await Promise.all([1, 2, 3].map(async () => (await manager.create({})).id));
  listener({ kind: 'created', sandbox: 'x', origin: 'saved', rootfs: 'profile', times: { totalMs: 70 } });
  listener({ kind: 'hung', sandbox: 'x', reason: 'y' });
  const [text, other] = await Promise.all([metrics.render(), metrics.render()]);
  t.equal(text, other);
  t.equal(scrapes, 1);
  const wanted = {
    'sandboxd_sandboxes{state="running"}': 3,
    'sandboxd_sandboxes{state="failed"}': 0,
    'sandboxd_template_lookups_total{result="made"}': 3,
    sandboxd_templates: 1,
    sandboxd_starts_queued: 0,
    sandboxd_host_memory_available_bytes: 3,
    sandboxd_data_free_bytes: 2,
    sandboxd_memory_promised_bytes: 3 * 128 * 2 ** 20,
    'sandboxd_life_events_total{kind="hung"}': 1,
    'sandboxd_sandbox_start_duration_seconds_count{origin="template",rootfs="profile"}': 1,
    'sandboxd_build_info{version="1.2.3",node="VERSION"}': 1,
  };
  for (const [series, value] of Object.entries(wanted))
    t.equal(seriesOf(text, series.replace('VERSION', process.version)), value, series);
  t.ok((seriesOf(text, 'process_open_fds') ?? 0) > 3);
  t.ok(home);
  await manager.delete(ids[0] ?? '');
  await until(() => manager.metricsSource.sweeps.sandboxes.length === 0);
  t.equal(seriesOf(await metrics.render(), 'sandboxd_sandboxes{state="running"}'), 2);
});

t.test('a create that is refused for lack of capacity is counted by the resource', async (t: Test) => {
  const { manager } = await startMemoryDaemon(t, {
    readCapacity: async () => ({
      memoryTotalBytes: 2 ** 40,
      memoryAvailableBytes: 2 ** 40,
      diskFreeBytes: 0,
    }),
  });
  await t.rejects(manager.create({}), { code: 'exhausted' });
  const metrics = new Metrics();
  measureSandboxes(metrics, {
    source: manager.metricsSource,
    top: 0,
    readCapacity: () => Promise.reject(new Error('no')),
  });
  t.equal(seriesOf(await metrics.render(), 'sandboxd_admission_refusals_total{what="disk"}'), 1);
});
