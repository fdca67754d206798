// Places of a fleet: what may be made in one, who gives it back, and what others cannot say about it.
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { toHoldingLabel, toImageHolding } from '../../host-agent/src/fleet/kubernetes/holdings.ts';
import { toPod } from '../../host-agent/src/fleet/kubernetes/pods.ts';
import { writePlaceHeader } from '../../host-agent/src/fleet/place-header.ts';
import { PLACE_HEADER } from '../../host-agent/src/http/index.ts';
import { newId } from '../../host-agent/src/lib/ids.ts';
import { serveE2bDoor } from '../support/fleet/doors.ts';
import { ask, type Fleet, startFleet } from '../support/fleet/fleet.ts';
import type { KubeObject } from '../support/fleet/objects.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

const podsOf = (fleet: Fleet, namespace?: string) => fleet.api.objects.list('pods', namespace);

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('a place that nothing uses is given back', async (t) => {
  const fleet = await startFleet(t);
  const { daemon } = await fleet.host('h0', { unusedMs: 300 });
  await fleet.ready(1);
  const { catalogue } = await fleet.gateway();
  const asked = { id: newId('sbx'), tenant: undefined, vcpus: 1, memoryMib: 128, claims: [] };
  await catalogue.place(asked, new AbortController().signal);
  await until(() => podsOf(fleet).length === 0, 'no pods');
  t.equal(daemon.manager.list().length, 0);
});

t.test('a place without a host goes with its create, also when its gateway stops or is gone', async (t) => {
  const fleet = await startFleet(t);
  fleet.api.scheduler.isStopped = true;
  const asked = () => ({ id: newId('sbx'), tenant: undefined, vcpus: 1, memoryMib: 128, claims: [] });
  const { catalogue, stop } = await fleet.gateway();
  const placing = catalogue.place(asked(), new AbortController().signal);
  await until(() => podsOf(fleet).length === 1, 'a pod');
  const refused = t.rejects(placing, { code: 'cancelled' });
  await stop();
  await refused;
  await catalogue.settled();
  t.equal(podsOf(fleet).length, 0);

  // Two gateways were killed meanwhile, and somebody deleted one of the pods.
  for (const request of [asked(), asked()])
    fleet.api.objects.create(
      'pods',
      'sandboxd',
      toPod(request, 'sandboxd', fleet.seal) as unknown as KubeObject,
    );
  const [first, second] = podsOf(fleet).map(({ metadata }) => metadata.name);
  await fleet.gateway({ sweepMs: 50 });
  fleet.api.objects.delete('pods', 'sandboxd', first!, undefined);
  await until(() => podsOf(fleet).length === 1, 'the other pod');
  t.equal(podsOf(fleet)[0]?.metadata.name, second);
  await fleet.gateway({ sweepMs: 50, unboundMs: 200 });
  await until(() => podsOf(fleet).length === 0, 'no pod');
});

t.test('pods that no gateway made are left alone, and claim no id', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0', { unusedMs: 200 });
  await fleet.ready(1);
  const { url, map } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  const name = body.id.replace('_', '-');
  const [own] = podsOf(fleet);
  fleet.api.namespaces.add('sandboxd-evil');
  fleet.api.scheduler.isStopped = true;
  const { finalizers: _, ...metadata } = own!.metadata;
  const copy = {
    ...own,
    metadata: { ...metadata, name, annotations: own!.metadata.annotations },
  } as KubeObject;
  fleet.api.objects.create('pods', 'sandboxd-evil', copy);
  await sleep(600);
  t.equal(map.find(body.id)?.namespace, 'sandboxd', 'the copy in another namespace is none of the fleet');
  t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`)).status, 200);
  t.equal(podsOf(fleet, 'sandboxd-evil').length, 1);
});

t.test('a node that is no host of the fleet gets no request, and another is tried', async (t) => {
  const fleet = await startFleet(t);
  const { daemon } = await fleet.host('h0');
  await fleet.ready(1);
  const { url, map } = await fleet.gateway();
  // It has the label, and no seal of the fleet.
  const status = { ...fleet.api.objects.get('nodes', '', 'h0').status };
  const metadata = {
    name: 'a-trap',
    labels: { 'sandboxd.dev/host': 'true' },
    annotations: { 'sandboxd.dev/url': url },
  };
  fleet.api.objects.create('nodes', '', { metadata, status } as unknown as KubeObject);
  for (let n = 0; n < 4; n++) t.equal((await ask(url, 'POST', '/sandboxes', {})).status, 201);
  t.equal(daemon.manager.list().length, 4);
  t.same(
    map.hosts().map(({ name }) => name),
    ['h0'],
  );
});

t.test('a place holds no more than it was made for', async (t) => {
  const fleet = await startFleet(t);
  const { url: direct, daemon } = await fleet.host('h0');
  await fleet.ready(1);
  const { url, catalogue } = await fleet.gateway();
  const made = await ask(url, 'POST', '/sandboxes', {});
  // As the gateway placed it, though this host has another default.
  t.match(made, { status: 201, body: { vcpus: 1, memory_mib: 512 } });
  const placed = async (vcpus: number, memoryMib: number) => {
    const asked = { id: newId('sbx'), tenant: undefined, vcpus, memoryMib, claims: [] };
    const place = await catalogue.place(asked, new AbortController().signal);
    const header = { kind: 'place', namespace: 'sandboxd', places: [place] } as const;
    return { place, headers: { [PLACE_HEADER]: writePlaceHeader(header, fleet.seal) } };
  };
  const small = await placed(1, 256);
  const refused = { status: 409, body: { error: /has 1 vCPUs and 256 MiB/ } };
  for (const body of [{}, { memory_mib: 257 }, { memory_mib: 256, vcpus: 2 }])
    t.match(await ask(direct, 'POST', '/sandboxes', body, small.headers), refused, JSON.stringify(body));
  t.match(await ask(direct, 'POST', `/sandboxes/${made.body.id}/fork`, {}, small.headers), refused);
  t.equal((await ask(direct, 'POST', '/sandboxes', { memory_mib: 256 }, small.headers)).status, 201);
  // Somebody who may write pods made it smaller for the scheduler and the quota.
  const changed = await placed(2, 1024);
  const pod = fleet.api.objects.get('pods', 'sandboxd', changed.place.id.replace('_', '-'));
  const requests = { cpu: '1m', memory: '1Mi' };
  const containers = [{ ...pod.spec.containers[0], resources: { requests } }];
  fleet.api.objects.change('pods', pod, { spec: { containers } });
  const hasChanged = async () => {
    const { body } = await ask(direct, 'POST', '/sandboxes', { vcpus: 4 }, changed.headers);
    return /requests another size/.test(String(body.error));
  };
  while (!(await hasChanged())) await sleep(50);
  t.equal((await ask(direct, 'POST', '/sandboxes', { vcpus: 2 }, changed.headers)).status, 409);
  t.equal(daemon.manager.list().length, 2);
});

t.test('a claim that no gateway made holds no name', async (t) => {
  const fleet = await startFleet(t);
  await fleet.host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const first = await ask(url, 'POST', '/sandboxes', { name: 'one' });
  const other = await ask(url, 'POST', '/sandboxes', { name: 'two' });
  t.same([first.status, other.status], [201, 201]);
  const leases = () => fleet.api.objects.list('leases', 'sandboxd');
  const [one, two] = leases();
  t.equal((await ask(url, 'DELETE', `/sandboxes/${first.body.id}`)).status, 204);
  await until(() => leases().length === 1, 'one claim');
  // The annotations of the other’s claim are for its own name.
  const forged = { ...two!.metadata, name: one!.metadata.name };
  fleet.api.objects.create('leases', 'sandboxd', { ...two, metadata: forged } as KubeObject);
  t.equal((await ask(url, 'POST', '/sandboxes', { name: 'one' })).status, 201);
  t.equal((await ask(url, 'POST', '/sandboxes', { name: 'two' })).status, 409);
});

t.test('a name whose sandbox ends leads to no sandbox without a place', async (t) => {
  const fleet = await startFleet(t);
  const { url: direct, daemon, records } = await fleet.host('h0');
  await fleet.ready(1);
  const { url, stop } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', { name: 'n' });
  const [place] = records.all();
  await until(() => podsOf(fleet)[0]?.status.phase === 'Running', 'a running pod');
  await stop();
  await fleet.api.stop();
  t.equal((await ask(direct, 'DELETE', `/sandboxes/${body.id}`)).status, 204);
  // Another gateway found the claim of the pod, which the host cannot remove now.
  const places = [{ id: body.id, uid: place!.record.uid }];
  const held = writePlaceHeader({ kind: 'held', namespace: 'sandboxd', places }, fleet.seal);
  const again = { name: 'n', if_exists: 'return' };
  t.match(await ask(direct, 'POST', '/sandboxes', again, { [PLACE_HEADER]: held }), {
    status: 503,
    body: { code: 'exhausted' },
  });
  t.equal(daemon.manager.list().length, 0);
  await fleet.api.listen();
  await until(() => podsOf(fleet).length === 0 && records.all().length === 0, 'no pod');
});

t.test('a create goes where its image is, while that host can take it', async (t) => {
  const fleet = await startFleet(t);
  const holdings = [toImageHolding('debian:12')];
  const [first, second] = [await fleet.host('h0'), await fleet.host('h1', { holdings })];
  await fleet.ready(2);
  const labels = () =>
    Object.keys(fleet.api.objects.get('nodes', '', 'h1').metadata.labels ?? {}).filter((name) =>
      name.startsWith('sandboxd.dev/has-'),
    );
  await until(() => labels().length === 1, 'a label');
  const { catalogue } = await fleet.gateway();
  const place = async (image: string) => {
    const size = { vcpus: 1, memoryMib: 128, claims: [], tenant: undefined };
    const asked = { ...size, id: newId('sbx'), prefers: toImageHolding(image) };
    return (await catalogue.place(asked, new AbortController().signal)).host;
  };
  const full = 'docker.io/library/debian:12';
  t.same([await place('debian:12'), await place(full), await place('debian:12')], ['h1', 'h1', 'h1']);
  t.equal(await place('other'), 'h0');
  // It has others now, and more than a Node has labels.
  const many = Array.from({ length: 300 }, (_, n) => toImageHolding(`image-${n}`));
  holdings.splice(0, 1, ...many);
  await until(() => labels().length === 200, 'as many labels as there may be');
  t.equal(await place('debian:12'), 'h0');
  t.equal(await place('image-0'), 'h1');
  t.notOk(labels().includes(toHoldingLabel(toImageHolding('debian:12'))));
  t.ok(first && second);
});

t.test(
  'a sandbox that the map does not know yet is found, for keys that a host accepts, so often',
  async (t) => {
    const fleet = await startFleet(t);
    fleet.api.namespaces.add('sandboxd-acme');
    const keyring = await openKeyring(t);
    await fleet.host('h0', { authenticator: keyring.authenticator, e2b: keyring });
    await fleet.ready(1);
    const [operator, acme, other] = [
      await keyring.make(),
      await keyring.make({ tenant: 'acme' }),
      await keyring.make({ tenant: 'other' }),
    ].map((key) => ({ authorization: `Bearer ${key}` }));
    const late = await fleet.gateway();
    const door = await serveE2bDoor(t, late);
    const release = fleet.api.delayWatches();
    const first = await fleet.gateway();
    const made = await ask(first.url, 'POST', '/sandboxes', {}, acme);
    t.equal(made.status, 201);
    const path = `/sandboxes/${made.body.id}`;
    t.equal(late.map.find(made.body.id), undefined);
    t.match(await ask(late.url, 'GET', path, undefined, acme), { status: 200, body: { id: made.body.id } });
    t.match(await ask(late.url, 'GET', path, undefined, operator), { status: 200 });
    t.match(await ask(late.url, 'GET', path, undefined, other), { status: 404 });
    const { text: key } = await keyring.registry.create({ name: 'e2b' }, 'e2b');
    const firstDoor = await serveE2bDoor(t, first);
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const body = JSON.stringify({ templateID: 'base', allow_internet_access: false });
    const created = await fetch(new URL('/sandboxes', firstDoor), { method: 'POST', headers, body });
    const { sandboxID } = (await created.json()) as { sandboxID: string };
    const found = await fetch(new URL(`/sandboxes/${sandboxID}`, door), { headers: { 'x-api-key': key } });
    t.equal(found.status, 200, await found.text());

    const lists = () => fleet.api.requests.filter((request) => request === 'GET pods').length;
    const before = lists();
    t.match(await ask(late.url, 'GET', path, undefined, { authorization: 'Bearer no-key' }), { status: 401 });
    t.match(await ask(late.url, 'GET', path), { status: 401 });
    t.equal(await upgrade(`${late.url}${path}/exec`), 401);
    t.equal(lists(), before, 'the engine hears nothing of a wrong key');
    const unknown = Array.from({ length: 200 }, () =>
      ask(late.url, 'GET', `/sandboxes/${newId('sbx')}`, undefined, other),
    );
    const statuses = new Set((await Promise.all(unknown)).map(({ status }) => status));
    t.same(statuses, new Set([404, 503]), 'the snapshot store may have it, and is not asked so often');
    t.ok(lists() - before < 200, `${lists() - before} requests`);
    t.match(await ask(late.url, 'GET', path, undefined, acme), { status: 200 }, 'others are not concerned');

    fleet.api.isHung = true;
    t.match(await ask(late.url, 'GET', path, undefined, acme), { status: 404 }, 'the map decides alone');
    fleet.api.isHung = false;
    release();
    await until(() => late.map.find(made.body.id) !== undefined, 'a place');
  },
);

/** The status of the answer to a request for a connection, without a key. */
function upgrade(url: string): Promise<number | undefined> {
  const headers = { connection: 'upgrade', upgrade: 'websocket' };
  return new Promise((resolve, reject) => {
    const asked = request(url, { headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on('error', reject).end();
  });
}
