// Sandboxes that go on without a place: no answer to a client says that they are gone, and a drain takes them along.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { toHostAnnotations } from '../../host-agent/src/fleet/kubernetes/pods.ts';
import { toUnplacedAnnotations } from '../../host-agent/src/fleet/kubernetes/unplaced.ts';
import { ask, type Fleet, startFleet } from '../support/fleet/fleet.ts';
import { holdFetches, NOT_AHEAD, startMovingFleet } from '../support/fleet/moves.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { openKeyring } from './keyed.ts';

t.setTimeout(scaled(240_000));

type Pods = ReturnType<Fleet['api']['objects']['list']>;
const podsOf = (fleet: Fleet): Pods => fleet.api.objects.list('pods');
const QUOTA = { metadata: { name: 'tenant' }, spec: { hard: { pods: '0' } } };

const namedBy = (fleet: Fleet, name: string): string =>
  fleet.api.objects.find('nodes', '', name)?.metadata.annotations?.['sandboxd.dev/unplaced'] ?? '';

async function prepare(t: Test) {
  const { fleet, s3, host, cordon } = await startMovingFleet(t);
  const a = await host('h0', { moveTimes: NOT_AHEAD });
  await fleet.ready(1);
  const { url, map } = await fleet.gateway({ sweepMs: 300, unboundMs: 1000, lostMs: 1000 });
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  await until(() => podsOf(fleet)[0]?.status?.phase === 'Running', 'a place');
  return { fleet, s3, host, cordon, a, url, map, id: body.id };
}

const nodeUid = (fleet: Fleet): string | undefined => fleet.api.objects.find('nodes', '', 'h0')?.metadata.uid;

/** As the engine does with the pods of a Node that is gone. */
function removePods(fleet: Fleet, host: string): void {
  for (const pod of podsOf(fleet)) if (pod.spec.nodeName === host) fleet.api.objects.removePod(pod);
}

t.test('a Node and its pods are deleted: no answer says that a sandbox is gone', async (t) => {
  const { fleet, url, map, id } = await prepare(t);
  const former = podsOf(fleet)[0]?.metadata.uid;
  const answers = new Set<number>();
  const node = nodeUid(fleet);
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  // Watches of Nodes and pods have no common order.
  await until(() => map.host('h0')?.hasMoreUnplaced === true || map.host('h0') === undefined, 'it is seen');
  removePods(fleet, 'h0');
  const isPlaced = (): boolean => {
    const [pod] = podsOf(fleet);
    return pod !== undefined && pod.metadata.uid !== former && pod.status?.phase === 'Running';
  };
  for (let attempt = 0; attempt < 2000 && !isPlaced(); attempt++) {
    answers.add((await ask(url, 'GET', `/sandboxes/${id}`)).status);
    await sleep(10);
  }
  t.ok(isPlaced(), 'it has a place again');
  t.not(nodeUid(fleet), node);
  t.notOk(answers.has(404), [...answers].join());
  t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200);
  t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
});

t.test('a host hears late that the pods of its former Node are gone: it ends nothing', async (t) => {
  const unusedMs = 500;
  const { fleet, host } = await startMovingFleet(t);
  const a = await host('h0', { unusedMs });
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300, unboundMs: 1000, lostMs: 1000 });
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  const isRunning = (): boolean => podsOf(fleet)[0]?.status?.phase === 'Running';
  await until(isRunning, 'a place');
  const former = nodeUid(fleet);
  const release = fleet.api.delayWatches('h0');
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  removePods(fleet, 'h0');
  await until(() => ![undefined, former].includes(nodeUid(fleet)), 'the Node is there again');
  const renewed = (): boolean => a.records.all()[0]?.record.nodeUid === nodeUid(fleet);
  const lists = (): number => fleet.api.requests.filter((each) => each === 'GET pods').length;
  const before = lists();
  await until(() => renewed() || lists() > before, 'the host holds its place for one of the Node, or asks');
  release();
  await until(isRunning, 'it has a place again', 60_000);
  t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`)).status, 200);
  t.equal(a.daemon.manager.list().length, 1);
});

/** A create arrives at a host that has another Node than the place was made for; `release` ends the delay of its watch. */
async function createAtFormerPlace(t: Test, { knowsPlace }: { readonly knowsPlace: boolean }) {
  const { fleet, host } = await startMovingFleet(t);
  const arrived = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  const beforeAdmit = async (): Promise<void> => {
    arrived.resolve();
    await goesOn.promise;
  };
  const a = await host('h0', { beforeAdmit });
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300, unboundMs: 1000, lostMs: 1000 });
  const former = nodeUid(fleet);
  let release = knowsPlace ? undefined : fleet.api.delayWatches('h0');
  const create = ask(url, 'POST', '/sandboxes', {});
  await arrived.promise;
  release ??= fleet.api.delayWatches('h0');
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  const isBack = async (): Promise<void> => {
    await until(() => ![undefined, former].includes(nodeUid(fleet)), 'the Node is there again');
    // Its host knows it when it says so.
    await fleet.ready(1);
  };
  const isKept = async (): Promise<void> => {
    const { status, body } = await create;
    t.equal(status, 201);
    await until(() => podsOf(fleet)[0]?.status?.phase === 'Running', 'it has a place again', 60_000);
    t.equal((await ask(url, 'GET', `/sandboxes/${body.id}`)).status, 200);
    t.equal(a.daemon.manager.list().length, 1);
  };
  return { fleet, create, goesOn: goesOn.resolve, release, isBack, isKept };
}

t.test('a create comes to a place of the former Node, of which the host hears late: it stays', async (t) => {
  const { fleet, create, goesOn, release, isBack, isKept } = await createAtFormerPlace(t, {
    knowsPlace: true,
  });
  removePods(fleet, 'h0');
  await isBack();
  goesOn();
  await create;
  release();
  await isKept();
});

t.test(
  'a host hears of a place of its former Node when it has another: it ends nothing with it',
  async (t) => {
    const { fleet, create, goesOn, release, isBack, isKept } = await createAtFormerPlace(t, {
      knowsPlace: false,
    });
    await isBack();
    goesOn();
    release();
    await create;
    removePods(fleet, 'h0');
    await isKept();
  },
);

t.test('a host that starts without its Node takes early places for ones of the former', async (t) => {
  const { fleet, host } = await startMovingFleet(t);
  const a = await host('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300, unboundMs: 1000, lostMs: 1000 });
  const first = await ask(url, 'POST', '/sandboxes', {});
  await a.crash();
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  removePods(fleet, 'h0');
  const b = await host('h0', { home: a.daemon.home });
  await fleet.ready(1);
  const second = await ask(url, 'POST', '/sandboxes', {});
  t.equal(second.status, 201);
  removePods(fleet, 'h0');
  const arePlaced = (): boolean =>
    podsOf(fleet).length === 2 && podsOf(fleet).every(({ status }) => status?.phase === 'Running');
  await until(arePlaced, 'both have a place', 60_000);
  t.same(new Set(b.daemon.manager.list().map(({ id }) => id)), new Set([first.body.id, second.body.id]));
});

t.test('a host that was chosen ends, and the place that is left goes: the source has it', async (t) => {
  const { fleet, s3, host, cordon, a, url, id } = await prepare(t);
  const b = await host('h1');
  await fleet.ready(2);
  const held = holdFetches(s3, { status: 403, code: 'AccessDenied' });
  cordon('h0');
  await held.begun();
  const ended = b.crash();
  held.release();
  await ended;
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  removePods(fleet, 'h0');
  const conditions = [{ type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' }];
  const node = fleet.api.objects.get('nodes', '', 'h1');
  fleet.api.objects.change('nodes', node, { status: { conditions } });
  await until(() => podsOf(fleet).every(({ spec }) => spec.nodeName !== 'h1'), 'that place is withdrawn');
  await until(() => a.daemon.manager.list()[0]?.state === 'running', 'it runs where it was');
  await until(() => podsOf(fleet)[0]?.status?.phase === 'Running', 'it has a place there');
  t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { state: 'running' } });
});

t.test('a sandbox without a place leaves a host that is cordoned', async (t) => {
  const { fleet, host, cordon, a, url, id } = await prepare(t);
  const b = await host('h1');
  await fleet.ready(2);
  fleet.api.objects.create('resourcequotas', 'sandboxd', QUOTA as never);
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  removePods(fleet, 'h0');
  await until(() => namedBy(fleet, 'h0').includes(id), 'its host says that it has it');
  cordon('h0');
  await until(() => namedBy(fleet, 'h0').includes(`${id}>`), 'and that it leaves');
  fleet.api.objects.delete('resourcequotas', 'sandboxd', 'tenant', 0);
  await until(() => b.daemon.manager.list()[0]?.state === 'running', 'it runs at the other host', 60_000);
  await until(() => a.daemon.manager.list().length === 0, 'the first host has forgotten it');
  await until(() => namedBy(fleet, 'h0') === '', 'and names it no more');
  t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { state: 'running' } });
  t.equal(podsOf(fleet).length, 1);
});

t.test('a sandbox that is deleted soon after it had a place again gets no other one', async (t) => {
  const { fleet, url, id } = await prepare(t);
  const former = podsOf(fleet)[0]?.metadata.uid;
  const made: string[] = [];
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  removePods(fleet, 'h0');
  const isPlaced = (): boolean =>
    podsOf(fleet).some(({ metadata, status }) => metadata.uid !== former && status?.phase === 'Running');
  await until(isPlaced, 'it has a place again');
  t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  await until(() => podsOf(fleet).length === 0, 'its place goes');
  // The gateway waits for the host for 1.5 s.
  for (let look = 0; look < 30; look++) {
    made.push(...podsOf(fleet).map(({ metadata }) => metadata.uid ?? ''));
    await sleep(100);
  }
  t.same(made, []);
  t.equal(namedBy(fleet, 'h0').includes(id), false);
});

t.test('look-ups in a slow bucket leave the sandboxes of the host alone', async (t) => {
  const fleet = await startFleet(t);
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const { authenticator, make } = await openKeyring(t);
  const key = { authorization: `Bearer ${await make({ tenant: 'acme' })}` };
  const { url: hostUrl } = await fleet.host('h0', {
    ...{ authenticator, snapshotStore: openTestStore(t, settings).store },
  });
  await fleet.ready(1);
  fleet.api.namespaces.add('sandboxd-acme');
  const { url } = await fleet.gateway();
  const { body } = await ask(url, 'POST', '/sandboxes', {}, key);
  t.equal((await ask(url, 'POST', `/sandboxes/${body.id}/pause`, {}, key)).status, 200);
  const gate = Promise.withResolvers<void>();
  let asked = 0;
  s3.fault = async () => {
    asked += 1;
    await gate.promise;
    return undefined;
  };
  const ids = Array.from({ length: 8 }, (_, n) => `sbx_000000000000${n}`);
  const lookUps = ids.map((id) => ask(hostUrl, 'POST', `/sandboxes/${id}/resume`, {}, key));
  await until(() => asked >= ids.length, 'all are looked for');
  t.equal((await ask(url, 'POST', `/sandboxes/${body.id}/resume`, {}, key)).status, 200);
  gate.resolve();
  for (const { status } of await Promise.all(lookUps)) t.equal(status, 404);
});

t.test('what a silent host says does not hide a host that has the sandbox', async (t) => {
  const { fleet, url, id } = await prepare(t);
  const annotations = {
    ...toHostAnnotations('a0', new URL('http://127.0.0.1:9/'), fleet.seal),
    ...toUnplacedAnnotations('a0', `${id}=sandboxd/1x512`, fleet.seal),
  };
  const metadata = { name: 'a0', labels: { 'sandboxd.dev/host': 'true' }, annotations };
  fleet.api.objects.create('nodes', '', { metadata } as never);
  fleet.api.objects.create('resourcequotas', 'sandboxd', QUOTA as never);
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  removePods(fleet, 'h0');
  await until(() => namedBy(fleet, 'h0').includes(id), 'its host says that it has it');
  const { url: other, map } = await fleet.gateway();
  t.same(
    map.hosts().map(({ name, unplaced }) => `${name} ${unplaced.length}`),
    ['a0 1', 'h0 1'],
  );
  t.equal(map.find(id)?.host, 'h0');
  for (const each of [url, other]) t.equal((await ask(each, 'GET', `/sandboxes/${id}`)).status, 200);
});
