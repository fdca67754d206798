// Templates of clients of E2B at the gateway of a fleet: each is built on one host, and found there.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { OPERATOR } from '../../host-agent/src/keys/index.ts';
import { serveE2bDoor } from '../support/fleet/doors.ts';
import { Fleet, type FleetHost, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import type { Json } from './e2b-front.ts';
import { openKeyring } from './keyed.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const BODY = { allow_internet_access: false };
const HASH = 'a'.repeat(64);

async function start(t: Test, names = ['h0', 'h1', 'h2'], unusedMs = 3000) {
  const fleet = await startFleet(t);
  for (const tenant of ['acme', 'other']) fleet.api.namespaces.add(`sandboxd-${tenant}`);
  const keyring = await openKeyring(t);
  const one = await keyring.registry.create({ name: 'one', tenant: 'acme' }, 'e2b');
  const { text: stranger } = await keyring.registry.create({ name: 'two', tenant: 'other' }, 'e2b');
  const { authenticator } = keyring;
  const hosts: FleetHost[] = [];
  for (const name of names)
    hosts.push(
      await fleet.host(name, {
        ...{ authenticator, e2b: keyring, unusedMs },
      }),
    );
  for (const { daemon } of hosts) daemon.host.agentFaults = { hasNoFiles: true };
  await fleet.ready(names.length);
  const gateways: URL[] = [];
  for (let n = 0; n < 2; n++) gateways.push(await serveE2bDoor(t, await fleet.gateway()));
  let turn = 0;
  const ask = async (method: string, path: string, body?: object, key = one.text) => {
    // Another gateway each time.
    const url = new URL(path, gateways[turn++ % gateways.length]);
    const response = await fetch(url, {
      method,
      headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const json: Json = /^[[{]/.test(text) ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, json };
  };
  const request = async (name: string, more: object = {}): Promise<Json> => {
    const answer = await ask('POST', '/v3/templates', { name, ...more });
    t.equal(answer.status, 202, answer.text);
    return answer.json;
  };
  const begin = ({ templateID, buildID }: Json, body: object = {}) =>
    ask('POST', `/v2/templates/${templateID}/builds/${buildID}`, { fromTemplate: 'base', ...body });
  const end = async ({ templateID, buildID }: Json): Promise<Json> => {
    for (const endMs = performance.now() + scaled(60_000); ; await sleep(20)) {
      const { json } = await ask('GET', `/templates/${templateID}/builds/${buildID}/status`);
      if (json.status === 'ready' || json.status === 'error') return json;
      if (performance.now() > endMs) throw new Error('the build did not end');
    }
  };
  const build = async (name: string, more: object = {}, body: object = {}): Promise<Json> => {
    const ids = await request(name, more);
    const begun = await begin(ids, body);
    t.equal(begun.status, 202, begun.text);
    const { status, reason } = await end(ids);
    t.equal(status, 'ready', reason?.message);
    return ids;
  };
  const holderOf = (templateID: string) =>
    hosts.filter(({ e2b }) => e2b!.templates.list(OPERATOR).some(({ id }) => id === templateID));
  const noPods = () => until(() => fleet.api.objects.list('pods').length === 0, 'no pods');
  return {
    fleet,
    hosts,
    keyring,
    keyId: one.key.id,
    stranger,
    ask,
    request,
    begin,
    end,
    build,
    holderOf,
    noPods,
  };
}

t.test('a build is placed, found from any gateway, and its template forked where it is', async (t) => {
  const { fleet, hosts, stranger, ask, build, holderOf, noPods } = await start(t);
  const ids = await build('app', { cpuCount: 2, memoryMB: 256, tags: ['v1'] }, { readyCmd: 'true' });
  const [holder, ...others] = holderOf(ids.templateID);
  t.same(others, [], 'on one host');
  await noPods();
  const again = await build('app', { tags: ['v2'] });
  t.equal(again.templateID, ids.templateID, 'the next build of the name is on the same host');
  for (const text of ['app:v1', 'app:v2', `${ids.templateID}:v1`]) {
    const made = await ask('POST', '/sandboxes', { ...BODY, templateID: text });
    t.match(made, { status: 201 }, `${text}: ${made.text}`);
  }
  t.equal(holder!.daemon.manager.list().length, 3);
  const sizes = holder!.daemon.manager.list().map(({ memoryMib }) => memoryMib);
  t.same(sizes.toSorted(), [256, 256, 512]);
  t.match(await ask('POST', '/sandboxes', { ...BODY, templateID: 'app:v3' }), {
    status: 404,
    text: /no build with the tag v3/,
  });
  t.match(await ask('POST', '/sandboxes', { ...BODY, templateID: 'app' }), { status: 404 });
  t.equal(fleet.api.objects.list('pods').length, 3);

  const listed = await ask('GET', '/templates');
  t.same(
    listed.json.map(({ templateID, names }: Json) => [templateID, names]),
    [[ids.templateID, ['app']]],
  );
  t.match(await ask('GET', `/templates/${ids.templateID}`), { json: { builds: [{}, {}] } });
  t.match(await ask('GET', '/templates/aliases/app'), { json: { templateID: ids.templateID } });
  t.equal((await ask('GET', '/templates/aliases/none')).status, 404);
  t.match(await ask('POST', '/templates/tags', { target: 'app:v2', tags: ['best'] }), { status: 201 });
  t.equal((await ask('GET', `/templates/${ids.templateID}/tags`)).json.length, 3);
  t.equal((await ask('DELETE', '/templates/tags', { name: 'app', tags: ['v1'] })).status, 204);

  t.same((await ask('GET', '/templates', undefined, stranger)).json, []);
  t.equal((await ask('GET', `/templates/${ids.templateID}`, undefined, stranger)).status, 404);
  t.equal((await ask('DELETE', `/templates/${ids.templateID}`, undefined, stranger)).status, 404);
  const other = await ask('POST', '/sandboxes', { ...BODY, templateID: 'app:best' }, stranger);
  t.not(other.status, 201, 'the name of another tenant');

  t.equal((await ask('DELETE', '/templates/app')).status, 204);
  t.equal((await ask('GET', `/templates/${ids.templateID}`)).status, 404);
  for (const { daemon } of hosts)
    t.same(
      daemon.manager.snapshots.list(() => true),
      [],
    );
});

t.test('templates are spread over hosts, and files are sent through the gateway', async (t) => {
  const { hosts, ask, request, begin, end, build, holderOf, noPods } = await start(t);
  const all: Json[] = [];
  for (let n = 0; n < 12; n++) all.push(await request(`app-${n}`));
  const holders = new Set(all.flatMap(({ templateID }) => holderOf(templateID).map(({ name }) => name)));
  t.ok(holders.size > 1, [...holders].join());
  // A name that a host does not know could be that of an image.
  await build('source', { tags: ['1.0'] });
  const refused: number[] = [];
  for (const [at, ids] of all.slice(1).entries()) {
    const begun = await begin(ids, { fromTemplate: 'source:1.0' });
    if (begun.status === 202) t.match(await end(ids), { status: 'ready' });
    else t.match(begun, { status: 409, text: /is on the host h\d, and this build on h\d/ });
    if (begun.status !== 202) refused.push(at);
  }
  t.ok(refused.length > 0, 'those on other hosts');
  const [ids] = all;
  const shown = await ask('GET', `/templates/${ids.templateID}/files/${HASH}`);
  t.match(shown, { status: 201, json: { present: false } });
  const { url } = shown.json;
  t.notOk(
    hosts.some(({ e2b }) => url.startsWith(`${e2b!.url}/`)),
    'it is the address of the gateway',
  );
  const send = async (to: string) => (await fetch(to, { method: 'PUT', body: 'an archive' })).status;
  t.equal(await send(url.replace(/host=h\d/, 'host=h9')), 401);
  t.equal(await send(url.replace(/.\?host/, '?host')), 401);
  t.equal(await send(url), 200);
  t.match((await ask('GET', `/templates/${ids.templateID}/files/${HASH}`)).json, { present: true });
  t.equal((await begin(ids)).status, 202);
  t.equal((await begin(ids)).status, 409, 'it was begun');
  t.equal((await end(ids)).status, 'ready');
  await noPods();
});

t.test('what a quota refuses, and what fails, leaves nothing', async (t) => {
  const { fleet, hosts, ask, request, begin, end, holderOf, noPods } = await start(t);
  const ids = await request('app');
  const quota = { metadata: { name: 'tenant' }, spec: { hard: { pods: '0' } } };
  fleet.api.objects.create('resourcequotas', 'sandboxd-acme', quota as never);
  t.match(await begin(ids), { status: 403, text: /quota/ });
  fleet.api.objects.delete('resourcequotas', 'sandboxd-acme', 'tenant', 0);
  t.equal(
    (await begin(ids, { steps: [{ type: 'RUN', args: ['note x'] }] })).status,
    202,
    'it may be begun again',
  );
  const ended = await end(ids);
  t.equal(ended.status, 'ready', ended.reason?.message);
  const missing = await request('next');
  t.equal((await begin(missing, { fromTemplate: 'no-such' })).status, 202);
  t.match(await end(missing), { status: 'error', reason: { step: 'base', message: /no-such/ } });
  await noPods();
  t.match(await ask('POST', '/v3/templates', { name: '../x' }), { status: 400 });
  t.match(await ask('POST', '/v3/templates', { name: 'app' }, 'e2b_00'), { status: 401 });
  t.match(await ask('GET', '/templates/%ff'), { status: 404 });
  t.match(await ask('GET', '/sandboxd/templates/app'), { status: 404 });
  const [holder] = holderOf(ids.templateID);
  const direct = (path: string, body: object) =>
    fetch(new URL(path, holder!.e2b!.url), {
      method: 'POST',
      headers: { 'x-api-key': 'x', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  t.equal((await direct('/v3/templates', { name: 'app' })).status, 401);
  for (const { daemon } of hosts) t.equal(daemon.manager.list().length, 0);
});

t.test('a build that waits for its turn keeps its place', async (t) => {
  const { fleet, hosts, ask, request, begin, noPods } = await start(t, ['h0'], 200);
  for (const { daemon } of hosts) daemon.host.agentFaults = { hasNoFiles: true, neverExits: true };
  const all: Json[] = [];
  for (let n = 0; n < 4; n++) all.push(await request(`app-${n}`));
  // Two run at once for one tenant.
  for (const ids of all) t.equal((await begin(ids, { steps: [{ type: 'RUN', args: ['x'] }] })).status, 202);
  const pods = () => fleet.api.objects.list('pods').length;
  const isMade = ({ buildID }: Json) =>
    hosts.some(({ daemon }) => daemon.manager.list().some(({ name }) => name === `e2b-build-${buildID}`));
  await until(() => pods() === 4 && all.filter(isMade).length === 2, 'four places, and two sandboxes');
  // Longer than an unused place is kept.
  await sleep(1000);
  t.equal(pods(), 4);
  const remove = async ({ templateID }: Json) =>
    t.equal((await ask('DELETE', `/templates/${templateID}`)).status, 204);
  await remove(all[3]);
  await until(() => pods() === 3, 'the place of one that did not begin is free');
  await remove(all[0]);
  await until(() => isMade(all[2]), 'the next one has its sandbox');
  await until(() => pods() === 2, 'two places');
  for (const ids of all.slice(1, 3)) await remove(ids);
  await noPods();
});

t.test('a place that is taken away from a build that waits goes at once', async (t) => {
  const { fleet, hosts, keyring, ask, request, begin, end, noPods } = await start(t, ['h0']);
  for (const { daemon } of hosts) daemon.host.agentFaults = { hasNoFiles: true, neverExits: true };
  const all: Json[] = [];
  for (let n = 0; n < 3; n++) {
    const ids = await request(`app-${n}`);
    t.equal((await begin(ids, { steps: [{ type: 'RUN', args: ['x'] }] })).status, 202);
    all.push(ids);
  }
  const pods = () => fleet.api.objects.list('pods').map(({ metadata: { name } }) => name);
  const made = () =>
    hosts.flatMap(({ daemon }) => daemon.manager.list().map(({ id }) => id.replace('_', '-')));
  await until(() => pods().length === 3 && made().length === 2, 'three places, and two sandboxes');
  const { id, text } = await keyring.registry
    .create({ name: 'brief', tenant: 'acme' }, 'e2b')
    .then(({ key, text: own }) => ({ id: key.id, text: own }));
  const brief = (await ask('POST', '/v3/templates', { name: 'brief' }, text)).json;
  const path = `/v2/templates/${brief.templateID}/builds/${brief.buildID}`;
  t.equal((await ask('POST', path, { fromTemplate: 'base' }, text)).status, 202);
  await until(() => pods().length === 4, 'four places');
  await keyring.registry.revoke(id);
  await until(() => pods().length === 3, 'a key that was revoked keeps no place');
  t.match(await end(brief), { status: 'error', reason: { message: /not valid any more/ } });
  const [waiting = ''] = pods().filter((name) => !made().includes(name));
  // As a gateway does whose client left just before the answer.
  fleet.api.objects.delete('pods', 'sandboxd-acme', waiting, undefined);
  await until(() => pods().length === 2, 'two places');
  t.equal((await ask('DELETE', `/templates/${all[0].templateID}`)).status, 204);
  t.match(await end(all[2]), { status: 'error', reason: { step: 'base', message: /no longer/ } });
  t.equal((await ask('DELETE', `/templates/${all[1].templateID}`)).status, 204);
  await noPods();
});

t.test('a size that no sandbox has is refused with the request', async (t) => {
  const { ask, noPods } = await start(t, ['h0']);
  for (const size of [{ cpuCount: 33 }, { cpuCount: 10_000 }, { memoryMB: 65_537 }, { memoryMB: 10 ** 9 }])
    t.equal((await ask('POST', '/v3/templates', { name: 'app', ...size })).status, 400);
  await noPods();
});

t.test('nothing else takes the name of a template whose host is gone', async (t) => {
  const { hosts, ask, build, holderOf } = await start(t);
  const { templateID } = await build('app');
  const [holder] = holderOf(templateID);
  await holder!.e2b!.close();
  const at = new RegExp(`the host ${holder!.name} `);
  for (const text of ['app', 'app:v1', templateID, 'python:3.12'])
    t.match(await ask('POST', '/sandboxes', { ...BODY, templateID: text }), { status: 502, text: at }, text);
  t.match(await ask('GET', `/templates/${templateID}`), { status: 502, text: at });
  t.equal((await ask('POST', '/sandboxes', { ...BODY, templateID: 'base' })).status, 201);
  const listed = await ask('GET', '/v2/templates');
  t.same([listed.json, listed.headers.get('sandboxd-unreachable-hosts')], [[], holder!.name]);
  t.equal(hosts.length, 3);
});

async function buildInCluster(t: Test): Promise<void> {
  const run = randomBytes(3).toString('hex');
  const namespace = `fleet-builds-${run}`;
  const fleet = new Fleet(t, undefined, namespace);
  const client = fleet.client();
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } };
  await client.request({ method: 'POST', path: '/api/v1/namespaces', body });
  const names = ['f', 'g'].map((name) => `${name}-${run}`);
  t.teardown(async () => {
    for (const path of [...names.map((name) => `/api/v1/nodes/${name}`), `/api/v1/namespaces/${namespace}`])
      await client.request({ method: 'DELETE', path }).catch(() => undefined);
  });
  const keyring = await openKeyring(t);
  const { text: key } = await keyring.registry.create({ name: 'one' }, 'e2b');
  const hosts: FleetHost[] = [];
  for (const name of names)
    hosts.push(await fleet.host(name, { authenticator: keyring.authenticator, e2b: keyring }));
  for (const { daemon } of hosts) daemon.host.agentFaults = { hasNoFiles: true };
  const url = await serveE2bDoor(t, await fleet.gateway());
  const ask = async (method: string, path: string, body?: object) => {
    const response = await fetch(new URL(path, url), {
      method,
      headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const json: Json = /^[[{]/.test(text) ? JSON.parse(text) : undefined;
    return { status: response.status, text, json };
  };
  const eventually = async (isTrue: () => Promise<boolean>, what: string): Promise<void> => {
    for (const endMs = performance.now() + scaled(60_000); !(await isTrue()); await sleep(100))
      if (performance.now() > endMs) throw new Error(`timed out waiting for ${what}`);
  };
  let ids: Json;
  await eventually(async () => {
    const asked = await ask('POST', '/v3/templates', { name: 'app' });
    if (asked.status === 202) ids = asked.json;
    return asked.status === 202;
  }, 'hosts that are ready');
  const at = `${ids.templateID}/builds/${ids.buildID}`;
  // The service account of a new namespace, without which no pod is accepted, is made by controllers.
  await eventually(
    async () => (await ask('POST', `/v2/templates/${at}`, { fromTemplate: 'base' })).status === 202,
    'a place',
  );
  let status = '';
  await eventually(async () => {
    status = (await ask('GET', `/templates/${at}/status`)).json.status;
    return status === 'ready' || status === 'error';
  }, 'the end of the build');
  t.equal(status, 'ready');
  const made = await ask('POST', '/sandboxes', { ...BODY, templateID: 'app' });
  t.equal(made.status, 201, made.text);
  t.equal((await ask('DELETE', `/sandboxes/${made.json.sandboxID}`)).status, 204);
  await eventually(async () => {
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const { items } = (await client.request({ method: 'GET', path })) as { items: object[] };
    return items.length === 0;
  }, 'no pods');
}

if (process.env.KUBE !== undefined) t.test('a build in a real control plane', buildInCluster);
