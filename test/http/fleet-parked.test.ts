// Sandboxes that only the bucket has, as their host is gone: every request that names one finds it, for its tenant.
import { createServer } from 'node:http';
import t, { type Test } from 'tap';
import { serveE2bDoor, serveIngress } from '../support/fleet/doors.ts';
import { type Asked, ask, type Fleet, type HostOptions, startFleet } from '../support/fleet/fleet.ts';
import { NOT_AHEAD } from '../support/fleet/moves.ts';
import { toHost } from '../support/fleet/ports.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { ask as askPort, serveGuest } from './ingress-host.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const JSON_ANSWER = { accept: 'application/json' };
const RUN = { cmd: ['true'] };
const podsOf = (fleet: Fleet) => fleet.api.objects.list('pods');

/** `count` sandboxes of tenant acme, whose host is gone for good; two others are there. */
async function lose(t: Test, count: number, create: object = {}) {
  const fleet = await startFleet(t);
  for (const tenant of ['acme', 'other']) fleet.api.namespaces.add(`sandboxd-${tenant}`);
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const keyring = await openKeyring(t);
  const { text: e2bKey } = await keyring.registry.create({ name: 'e2b', tenant: 'acme' }, 'e2b');
  const [acme, other] = [await keyring.make({ tenant: 'acme' }), await keyring.make({ tenant: 'other' })];
  const as = (key: string, more: Record<string, string> = {}) => ({
    authorization: `Bearer ${key}`,
    ...more,
  });
  const ports = await serveGuest(
    t,
    createServer((_, response) => response.end('hello')),
  );
  const home = await makeHome(t);
  const { authenticator } = keyring;
  const host = (name: string, options: HostOptions = {}) =>
    fleet.host(name, {
      ...{ snapshotStore: openTestStore(t, settings).store, authenticator, ports, e2b: keyring },
      moveTimes: NOT_AHEAD,
      ...options,
    });
  const a = await host('h0', { home });
  await fleet.ready(1);
  const gateway = await fleet.gateway({ sweepMs: 300, unboundMs: 600_000 });
  const { url } = gateway;
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const made = await ask(url, 'POST', '/sandboxes', { labels: { n: `${n}` }, ...create }, as(acme));
    ids.push(made.body.id);
    await ask(url, 'POST', `/sandboxes/${made.body.id}/ports`, { port: 3000, access: 'public' }, as(acme));
    await ask(url, 'POST', `/sandboxes/${made.body.id}/ports`, { port: 3001, access: 'private' }, as(acme));
  }
  const node = fleet.api.objects.get('nodes', '', 'h0');
  fleet.api.objects.change('nodes', node, { spec: { unschedulable: true } });
  const stored = (id: string) => [...s3.objects.keys()].some((key) => key.includes(`/sandboxes/${id}/`));
  await until(() => ids.every(stored), 'all are offered');
  await a.crash();
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  for (const pod of podsOf(fleet)) fleet.api.objects.removePod(pod);
  const hosts = [await host('h1'), await host('h2')];
  await fleet.ready(2);
  await until(() => podsOf(fleet).length === 0 && gateway.map.size === 0, 'none has a place');
  const askAs = (key: string, method: string, path: string, body?: object): Promise<Asked> =>
    ask(url, method, path, body, as(key, JSON_ANSWER));
  const countOf = (id: string) => hosts.filter(({ daemon }) => daemon.manager.find(id) !== undefined).length;
  return {
    fleet,
    s3,
    gateway,
    url,
    ids,
    hosts,
    host,
    home,
    keyring,
    e2bKey,
    acme,
    other,
    askAs,
    stored,
    countOf,
  };
}

const idsOf = ({ body }: Asked): string[] => (body.sandboxes as { id: string }[]).map(({ id }) => id);

t.test('its tenant sees, uses and deletes it; for another one it is not there', async (t) => {
  const { ids, acme, other, askAs, stored, countOf, hosts, url, fleet, keyring } = await lose(t, 5);
  const [seen = '', used = '', deleted = '', forked = '', changed = ''] = ids;
  t.match(await askAs(acme, 'GET', `/sandboxes/${seen}`), {
    status: 200,
    body: { id: seen, state: 'paused', labels: { n: '0' } },
  });
  t.same(idsOf(await askAs(acme, 'GET', '/sandboxes')), ids);
  t.same(idsOf(await askAs(acme, 'GET', '/sandboxes?label=n%3D2&state=paused')), [deleted]);
  t.same(idsOf(await askAs(acme, 'GET', '/sandboxes?state=running')), []);
  const paged: string[] = [];
  for (let cursor = '', page = 0; page === 0 || cursor !== ''; page++) {
    const answer = await askAs(acme, 'GET', `/sandboxes?limit=2&cursor=${cursor}`);
    t.ok(idsOf(answer).length <= 2);
    paged.push(...idsOf(answer));
    cursor = String(answer.body.next_cursor ?? '');
  }
  t.same(paged, ids);
  t.equal(hosts.flatMap(({ daemon }) => daemon.manager.list()).length, 0, 'nothing of it needed a host');

  // Another tenant: as an id that never was.
  const never = 'sbx_0000000000000';
  t.same(idsOf(await askAs(other, 'GET', '/sandboxes')), []);
  for (const [method, path, body] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/exec', RUN],
  ] as const) {
    const [its, none] = [
      await askAs(other, method, `/sandboxes/${seen}${path}`, body),
      await askAs(other, method, `/sandboxes/${never}${path}`, body),
    ];
    t.ok([404, 503].includes(its.status), `${method} ${path}`);
    const plain = ({ body }: Asked, id: string) => String(body.error).replaceAll(id, 'x');
    if (its.status === none.status) t.equal(plain(its, seen), plain(none, never), `${method} ${path}`);
  }
  t.match((await askAs(other, 'DELETE', '/sandboxes?state=paused')).body, { deleted: [], failed: [] });
  t.ok(ids.every(stored), 'all are still there');

  const readOnly = await keyring.make({ tenant: 'acme', policy: { operations: ['read'] } });
  t.equal((await askAs(readOnly, 'DELETE', `/sandboxes/${seen}`)).status, 403, 'a key does what it may');
  t.equal((await askAs(readOnly, 'POST', `/sandboxes/${seen}/exec`, RUN)).status, 403);
  t.equal((await askAs(readOnly, 'GET', `/sandboxes/${seen}`)).status, 200);
  t.equal((await askAs('sbk_wrong', 'GET', `/sandboxes/${seen}`)).status, 401);
  t.ok(ids.every(stored));

  t.equal((await askAs(acme, 'DELETE', `/sandboxes/${deleted}`)).status, 204);
  t.not((await askAs(acme, 'DELETE', `/sandboxes/${deleted}`)).status, 204);
  t.equal(stored(deleted), false);
  t.ok(
    hosts.some(({ daemon }) =>
      daemon.happened.some((event) => event.kind === 'deleted' && event.sandbox === deleted),
    ),
    'as an event of its tenant',
  );

  t.match(await askAs(acme, 'POST', `/sandboxes/${used}/exec`, RUN), { status: 200, body: { exit_code: 0 } });
  t.equal(countOf(used), 1);
  t.match(await askAs(acme, 'GET', `/sandboxes/${used}`), { status: 200, body: { state: 'running' } });
  const has = hosts.find(({ daemon }) => daemon.manager.find(used) !== undefined);
  const asGateway = async (id: string) => {
    const headers = { authorization: `Bearer ${other}`, 'sandboxd-parked': 'ask', ...JSON_ANSWER };
    const { status, body } = await ask(has?.url ?? '', 'POST', `/sandboxes/${id}/exec`, RUN, headers);
    return { status, error: String(body.error).replaceAll(id, 'x') };
  };
  t.same(await asGateway(used), await asGateway(never), 'a host says no more to who asks as a gateway does');
  t.match(await askAs(acme, 'PATCH', `/sandboxes/${changed}`, { labels: { a: 'b' } }), {
    status: 200,
    body: { labels: { a: 'b' } },
  });
  const fork = await askAs(acme, 'POST', `/sandboxes/${forked}/fork`, {});
  t.equal(fork.status, 201, JSON.stringify(fork.body));
  await until(() => ![used, changed, forked].some(stored), 'what hosts have is not in the bucket');
  t.equal((await askAs(acme, 'GET', '/sandboxes')).body.unreachable_hosts, undefined);
  t.same(
    new Set(idsOf(await askAs(acme, 'GET', '/sandboxes')).filter((id) => ids.includes(id))),
    new Set([seen, used, forked, changed]),
    'each is listed once',
  );
  const all = await askAs(acme, 'DELETE', '/sandboxes?state=paused');
  t.ok((all.body.deleted as string[]).includes(seen), JSON.stringify(all.body));
  t.same(all.body.failed, []);
  t.ok(podsOf(fleet).length > 0, 'what runs goes on');
  t.equal((await ask(url, 'GET', `/sandboxes/${seen}`, undefined, { 'sandboxd-parked': 'ask' })).status, 401);
});

t.test('a visit of an open port wakes it, and clients of E2B find it', async (t) => {
  const { ids, gateway, countOf, e2bKey, hosts, stored, acme, other } = await lose(t, 4);
  const [visited = '', connected = '', ended = '', hidden = ''] = ids;
  const port = await serveIngress(t, gateway);
  const key = (text: string) => ({ headers: { authorization: `Bearer ${text}` } });
  for (const [number, headers] of [
    [3001, {}],
    [3002, {}],
    [3001, key(other).headers],
    [3000, { 'sandboxd-question': 'x', authorization: 'Bearer sbk_wrong' }],
  ] as const) {
    const asked = await askPort(port, toHost(hidden, number), { headers });
    if (number !== 3000) t.ok([403, 404, 503].includes(asked.status), String(asked.status));
    t.notOk('sandboxd-parked' in asked.headers);
    if (number !== 3000) t.equal(countOf(hidden), 0, 'it still sleeps');
  }
  const first = await askPort(port, toHost(visited), { path: '/a' });
  t.match(first, { status: 200, body: 'hello' });
  t.equal(countOf(visited), 1);
  t.match(await askPort(port, toHost(ended, 3001), key(acme)), { status: 200 }, 'a key of its tenant');
  for (const { ingressPort } of hosts) {
    const direct = await askPort(ingressPort, toHost(connected), { headers: { 'sandboxd-question': 'x' } });
    t.match(direct, { status: 404 });
    t.notOk('sandboxd-parked' in direct.headers, 'only a gateway is answered');
  }

  const e2b = await serveE2bDoor(t, gateway);
  const askE2b = async (method: string, path: string, body?: object) => {
    const response = await fetch(new URL(path, e2b), {
      method,
      headers: { 'x-api-key': e2bKey, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, json: text === '' ? undefined : JSON.parse(text) };
  };
  const toE2b = (id: string) => id.replace('_', '');
  const listed = (await askE2b('GET', '/v2/sandboxes?state=paused')).json as { sandboxID: string }[];
  t.ok(listed.some(({ sandboxID }) => sandboxID === toE2b(connected)));
  t.match(await askE2b('GET', `/sandboxes/${toE2b(connected)}`), {
    status: 200,
    json: { sandboxID: toE2b(connected), state: 'paused' },
  });
  const joined = await askE2b('POST', `/v2/sandboxes/${toE2b(connected)}/connect`, { timeout: 60 });
  t.ok([200, 201].includes(joined.status), JSON.stringify(joined.json));
  t.equal(countOf(connected), 1);
  if (stored(hidden)) {
    t.equal((await askE2b('DELETE', `/sandboxes/${toE2b(hidden)}`)).status, 204);
    t.equal(stored(hidden), false);
  }
  t.equal((await askE2b('GET', `/sandboxes/${toE2b('sbx_0000000000000')}`)).status, 404);
});

t.test('two gateways at once, and a host that comes back: one host has it, or none', async (t) => {
  const lost = await lose(t, 4);
  const { ids, fleet, acme, askAs, countOf, host, home, stored, s3 } = lost;
  const [woken = '', deleted = '', raced = '', damaged = ''] = ids;
  const { url: second } = await fleet.gateway({ sweepMs: 300, unboundMs: 600_000 });
  const auth = { authorization: `Bearer ${acme}`, ...JSON_ANSWER };
  const both = await Promise.all([
    askAs(acme, 'POST', `/sandboxes/${woken}/exec`, RUN),
    ask(second, 'POST', `/sandboxes/${woken}/exec`, RUN, auth),
    ask(second, 'GET', `/sandboxes/${woken}`, undefined, auth),
  ]);
  t.same(
    both.map(({ status }) => status).filter((status) => ![200, 503].includes(status)),
    [],
  );
  await until(() => countOf(woken) === 1, 'one host has it');
  const ended = await Promise.all([
    askAs(acme, 'DELETE', `/sandboxes/${raced}`),
    ask(second, 'POST', `/sandboxes/${raced}/exec`, RUN, auth),
  ]);
  t.ok([204, 503].includes(ended[0].status), String(ended[0].status));
  t.equal((await askAs(acme, 'DELETE', `/sandboxes/${deleted}`)).status, 204);

  // Whoever writes to the bucket: a manifest that is damaged is not offered, and harms no other one.
  for (const [key] of s3.objects)
    if (key.includes(`/sandboxes/${damaged}/`)) s3.objects.get(key)?.body.fill(0);
  t.ok([404, 500, 502, 503].includes((await askAs(acme, 'GET', `/sandboxes/${damaged}`)).status));
  t.equal((await askAs(acme, 'GET', '/sandboxes')).status, 200);

  const back = await host('h0', { home });
  await until(() => back.daemon.manager.find(woken) === undefined, 'it forgets what another host has');
  await until(() => back.daemon.manager.find(deleted) === undefined, 'and what was deleted');
  t.equal(countOf(woken), 1);
  t.not((await askAs(acme, 'GET', `/sandboxes/${deleted}`)).status, 200);
  t.equal(stored(deleted), false);
});

t.test('a delete wins while no host can take it, and while one fetches it', async (t) => {
  const { fleet, ids, acme, other, askAs, countOf, stored, s3 } = await lose(t, 2);
  const [unplaced = '', fetched = ''] = ids;
  const cordon = (unschedulable: boolean): void => {
    for (const name of ['h1', 'h2'])
      fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', name), {
        spec: { unschedulable },
      });
  };
  cordon(true);
  t.equal((await askAs(acme, 'POST', `/sandboxes/${unplaced}/exec`, RUN)).status, 503);
  await until(() => podsOf(fleet).length === 1, 'it waits for a host');
  t.match(await askAs(acme, 'GET', `/sandboxes/${unplaced}`), { status: 200, body: { state: 'paused' } });
  t.not((await askAs(other, 'DELETE', `/sandboxes/${unplaced}`)).status, 204);
  t.ok(stored(unplaced));
  t.equal((await askAs(acme, 'DELETE', `/sandboxes/${unplaced}`)).status, 204);
  t.notOk(stored(unplaced));
  cordon(false);
  await until(() => podsOf(fleet).length === 0, 'its place goes');

  const gate = Promise.withResolvers<void>();
  let fetches = 0;
  s3.fault = async (method, key) => {
    if (method !== 'GET' || !/chunks\//.test(key)) return undefined;
    fetches += 1;
    await gate.promise;
    return undefined;
  };
  const waiting = askAs(acme, 'POST', `/sandboxes/${fetched}/exec`, RUN);
  await until(() => fetches > 0, 'a host fetches it');
  t.equal((await askAs(acme, 'DELETE', `/sandboxes/${fetched}`)).status, 204);
  gate.resolve();
  await until(() => podsOf(fleet).length === 0, 'and its place goes');
  t.not((await waiting).status, 200);
  t.equal(countOf(fetched), 0);
  t.notOk(stored(fetched));
  t.equal((await askAs(acme, 'GET', `/sandboxes/${fetched}`)).status, 404);
});

t.test('one key has the store asked so often, and others go on', async (t) => {
  const { acme, other, askAs, s3, ids, gateway } = await lose(t, 1);
  await askAs(acme, 'GET', `/sandboxes/${ids[0]}`);
  let asked = 0;
  s3.fault = (_, key) => {
    if (/sandboxes\/sbx_/.test(key)) asked += 1;
    return undefined;
  };
  const unknown = Array.from({ length: 120 }, (_, n) => `sbx_${String(n).padStart(13, '0')}`);
  const statuses = await Promise.all(
    unknown.map(async (id) => (await askAs(other, 'GET', `/sandboxes/${id}`)).status),
  );
  t.same(new Set(statuses), new Set([404, 503]), 'it hears that it asks too often');
  t.ok(statuses.filter((status) => status === 404).length < 110, String(asked));
  t.equal((await askAs(acme, 'GET', `/sandboxes/${ids[0]}`)).status, 200);
  t.ok(gateway.map.isCurrent);
});
