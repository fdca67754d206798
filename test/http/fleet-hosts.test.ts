// The hosts of a fleet, and the metrics of the gateway and of all hosts.
import { Client } from '@sandboxd/client';
import t from 'tap';
import { runCommand } from '../support/command.ts';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const readText = async (url: string, headers: Record<string, string> = {}) => {
  const answer = await fetch(url, { headers });
  return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() };
};

t.test('all hosts are listed, also one that does not answer', async (t) => {
  const fleet = await startFleet(t);
  const [h0, h1] = [await fleet.host('h0'), await fleet.host('h1')];
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  for (let n = 0; n < 4; n++)
    t.equal((await ask(url, 'POST', '/sandboxes', { memory_mib: 256 })).status, 201);
  const counts = { h0: h0.daemon.manager.list().length, h1: h1.daemon.manager.list().length };
  const client = new Client({ host: url });
  t.match(await client.hosts(), [
    {
      ...{ name: 'h0', state: 'ready', engine: 'chosen', engine_name: 'memory' },
      ...{ sandboxes: counts.h0, places: counts.h0, memory_promised_bytes: counts.h0 * 2 ** 28 },
      ...{ cpus: Number, memory_bytes: 2 ** 34, disk_free_bytes: 2 ** 40, version: String },
    },
    { name: 'h1', sandboxes: counts.h1, max_sandboxes: 500, places: counts.h1 },
  ]);
  await h1.crash();
  const [, lost] = await client.hosts();
  t.same(Object.keys(lost ?? {}).sort(), ['name', 'places', 'reason', 'state']);
  t.match(lost, { name: 'h1', state: 'unreachable', reason: /h1 does not answer/, places: counts.h1 });
  const run = await runCommand(['hosts'], { SANDBOXD_HOST: url });
  t.equal(run.code, 0);
  t.match(run.stdout, /^HOST +STATE .*\nh0 +ready +memory .*\nh1 +unreachable /);
  t.match(run.stderr, /h1: the host h1 does not answer/);
  // A daemon alone lists itself.
  t.match(await ask(h0.url, 'GET', '/hosts'), { status: 200, body: { hosts: [{ state: 'ready' }] } });
});

t.test('metrics are those of the gateway, and of all hosts with their names', async (t) => {
  const fleet = await startFleet(t);
  const hosts = [await fleet.host('h0'), await fleet.host('h1')];
  await fleet.ready(2);
  const { url, map } = await fleet.gateway();
  t.equal((await ask(url, 'POST', '/sandboxes', {})).status, 201);
  await until(() => map.size === 1, 'one place');
  t.equal((await ask(url, 'POST', '/sandboxes', { vcpus: -1 })).status, 400);
  const { status, type, text } = await readText(`${url}/metrics`);
  t.equal(status, 200);
  t.match(type, /^application\/openmetrics-text/);
  for (const line of [
    'sandboxd_gateway_places 1',
    'sandboxd_gateway_hosts 2',
    'sandboxd_gateway_hosts_ready 2',
    'sandboxd_gateway_engine_connected 1',
    'sandboxd_gateway_host_up{host="h0"} 1',
    'sandboxd_gateway_host_up{host="h1"} 1',
    'sandboxd_gateway_requests_total{operation="createSandbox",status="201"} 1',
    'sandboxd_gateway_requests_total{operation="createSandbox",status="400"} 1',
    'sandboxd_gateway_place_duration_seconds_count{result="placed"} 1',
  ])
    t.ok(text.includes(`\n${line}\n`), line);
  for (const name of ['memory_bytes', 'cpu_seconds_total', 'event_loop_delay_seconds{quantile="p99"}'])
    t.match(text, new RegExp(`^sandboxd_gateway_${name.replace(/[{}]/g, '\\$&')} [\\d.e+-]+$`, 'm'));
  for (const name of ['h0', 'h1'])
    t.match(
      text,
      new RegExp(`^sandboxd_requests_total\\{host="${name}",operation="\\w+",status="\\d+"\\} \\d`, 'm'),
    );
  t.ok(text.endsWith('\n# EOF\n'));
  t.equal(text.split('# EOF').length, 2);
  const families = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  t.equal(new Set(families).size, families.length, 'each family once');
  const own = await readText(`${url}/metrics?hosts=0`);
  t.match(own.text, /^sandboxd_gateway_places 1$/m);
  t.notMatch(own.text, /host="/);

  await hosts[1]?.crash();
  const later = await readText(`${url}/metrics`);
  t.ok(later.text.includes('sandboxd_gateway_host_up{host="h1"} 0\n'));
  await hosts[0]?.crash();
  const alone = await readText(`${url}/metrics`);
  t.equal(alone.status, 200, 'a key that hosts accepted is known for a while');
  t.ok(alone.text.includes('sandboxd_gateway_host_up{host="h0"} 0\n'));
});

t.test('hosts check the keys', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const keys = {
    metrics: await keyring.make({ policy: { operations: ['metrics'] } }),
    view: await keyring.make({ policy: { operations: ['view'] } }),
    tenant: await keyring.make({ tenant: 'acme' }),
  };
  const host = await fleet.host('h0', { authenticator: keyring.authenticator });
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const statuses = async (path: string) =>
    await Promise.all(
      [keys.metrics, keys.view, keys.tenant, 'wrong'].map(
        async (key) => (await readText(`${url}${path}`, { authorization: `Bearer ${key}` })).status,
      ),
    );
  for (const path of ['/metrics', '/metrics?hosts=0', '/hosts']) {
    t.same(await statuses(path), [200, 403, 403, 401], path);
    t.equal((await readText(`${url}${path}`)).status, 401, path);
  }
  await host.crash();
  t.same(await statuses('/metrics'), [200, 502, 502, 502]);
});

t.test('the checks are those of all hosts, each with its name', async (t) => {
  const fleet = await startFleet(t);
  const keyring = await openKeyring(t);
  const { authenticator } = keyring;
  const reportOf = (worst: 'ok' | 'warning' | 'fault', checked_at: string) => ({
    ...{ checked_at, version: '0.1.0', worst },
    groups: [{ group: 'storage', findings: [{ name: 'disk', level: worst, seen: 'of the test' }] }],
  });
  const services = (worst: 'ok' | 'warning' | 'fault', at: string) => ({
    checkHost: async () => reportOf(worst, at),
  });
  await fleet.host('h0', { authenticator, services: services('ok', '2026-01-02T00:00:00.000Z') });
  const h1 = await fleet.host('h1', {
    ...{ authenticator, services: services('fault', '2026-01-01T00:00:00.000Z') },
  });
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  const headers = { authorization: `Bearer ${await keyring.make()}` };
  const { status, body } = await ask(url, 'GET', '/host/checks', undefined, headers);
  t.equal(status, 200, JSON.stringify(body));
  t.match(body, {
    ...{ checked_at: '2026-01-01T00:00:00.000Z', worst: 'fault' },
    groups: [
      { group: 'storage', host: 'h0', findings: [{ level: 'ok' }] },
      { group: 'storage', host: 'h1', findings: [{ level: 'fault' }] },
    ],
  });
  t.notOk(body.unreachable_hosts);
  const key = headers.authorization.slice('Bearer '.length);
  const env = { SANDBOXD_HOST: url, SANDBOXD_API_KEY: key };
  const run = await runCommand(['checks'], env);
  t.match(run, { code: 1, stdout: /^h0: storage\n.*disk.*\nh1: storage\n/ });
  const tenant = { authorization: `Bearer ${await keyring.make({ tenant: 'acme' })}` };
  t.match(await ask(url, 'GET', '/host/checks', undefined, tenant), { status: 403 });
  t.match(await ask(url, 'GET', '/host/checks'), { status: 401 });
  await h1.crash();
  t.match(await ask(url, 'GET', '/host/checks', undefined, headers), {
    status: 200,
    body: { worst: 'ok', unreachable_hosts: ['h1'] },
  });
  t.match((await runCommand(['checks'], env)).stderr, /h1: it does not answer/);
});
