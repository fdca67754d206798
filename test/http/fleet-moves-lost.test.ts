// Moves whose hosts are lost on the way: each sandbox is reachable again, and one host has it.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { MoveTimes } from '../../host-agent/src/sandboxes/moves/index.ts';
import { ask, type Fleet } from '../support/fleet/fleet.ts';
import { holdFetches, NOT_AHEAD, startMovingFleet } from '../support/fleet/moves.ts';
import type { S3Server } from '../support/s3/server.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(240_000));

type Pods = ReturnType<Fleet['api']['objects']['list']>;
const podsOf = (fleet: Fleet): Pods => fleet.api.objects.list('pods');

async function prepare(t: Test, moveTimes: MoveTimes = {}) {
  const { fleet, s3, settings, host, cordon } = await startMovingFleet(t);
  const a = await host('h0', { moveTimes });
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300, unboundMs: 600_000, lostMs: 1000 });
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  return { fleet, s3, settings, host, cordon, a, url, id: body.id };
}

async function answers(url: string, id: string): Promise<void> {
  let status = 0;
  for (let attempt = 0; attempt < 200 && status !== 200; attempt++) {
    if (attempt > 0) await sleep(100);
    status = (await ask(url, 'GET', `/sandboxes/${id}`)).status;
  }
  if (status !== 200) throw new Error(`the gateway answers ${status}`);
}

/** As the controller of nodes does for a host that is not heard of. */
function silence(fleet: Fleet, name: string): void {
  const node = fleet.api.objects.get('nodes', '', name);
  const conditions = [{ type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' }];
  fleet.api.objects.change('nodes', node, { status: { conditions } });
}

/** A sandbox that waits for h1, which ended when it had begun to fetch it. */
async function loseDestination(t: Test, moveTimes: MoveTimes) {
  const { fleet, s3, host, cordon, ...rest } = await prepare(t, moveTimes);
  const b = await host('h1');
  await fleet.ready(2);
  const held = holdFetches(s3, { status: 403, code: 'AccessDenied' });
  cordon('h0');
  await held.begun();
  const ended = b.crash();
  held.release();
  await ended;
  return { fleet, s3, host, cordon, ...rest };
}

/** The chosen host ends while the sandbox still runs, or after its pause. */
const MOMENTS = [
  ['before its claim', NOT_AHEAD],
  ['while it fetches ahead', {}],
] as const;

for (const [moment, moveTimes] of MOMENTS) {
  t.test(`the chosen host ends ${moment}: another host takes the sandbox`, async (t) => {
    const { fleet, host, a, url, id } = await loseDestination(t, moveTimes);
    t.ok(podsOf(fleet).some(({ spec, status }) => spec.nodeName === 'h1' && status?.phase === 'Pending'));
    silence(fleet, 'h1');
    await answers(url, id);
    const c = await host('h2');
    await until(() => c.daemon.manager.list()[0]?.state === 'running', 'at the third host');
    await until(() => a.daemon.manager.list().length === 0 && podsOf(fleet).length === 1, 'one place');
    t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { state: 'running' } });
  });

  t.test(`the chosen host ends ${moment}: the source deletes the sandbox, or keeps it`, async (t) => {
    const { fleet, cordon, a, url, id } = await loseDestination(t, moveTimes);
    silence(fleet, 'h1');
    const other = await ask(url, 'GET', `/sandboxes/${id}`);
    t.ok([200, 503].includes(other.status));
    cordon('h0', false);
    await until(() => a.daemon.manager.list()[0]?.state === 'running', 'it runs again');
    await until(() => podsOf(fleet).length === 1, 'the place that was chosen is forgotten');
    await answers(url, id);
    t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
    await until(() => podsOf(fleet).length === 0, 'no place is left');
  });
}

t.test('a place that changes is not withdrawn: a silent host may have the sandbox', async (t) => {
  const { fleet, s3, host, cordon, a, url, id } = await prepare(t, NOT_AHEAD);
  const b = await host('h1');
  await fleet.ready(2);
  const held = holdFetches(s3);
  cordon('h0');
  await held.begun();
  silence(fleet, 'h1');
  const c = await host('h2');
  await until(() => podsOf(fleet).some(({ spec }) => spec.nodeName === 'h2'), 'another is chosen');
  held.release();
  const hosts = [b, c];
  await until(
    () => hosts.some(({ daemon }) => daemon.manager.list()[0]?.state === 'running'),
    'one host has it',
  );
  await until(() => a.daemon.manager.list().length === 0, 'the first host has forgotten it');
  await sleep(500);
  t.equal(hosts.filter(({ daemon }) => daemon.manager.list().length > 0).length, 1, 'one alone');
  await answers(url, id);
});

t.test('a place that is removed by force after the claim is made again', async (t) => {
  const { fleet, host, cordon, a, url, id, s3 } = await prepare(t);
  const b = await host('h1');
  await fleet.ready(2);
  let claims = 0;
  s3.fault = async (method, key) => {
    if (method !== 'PUT' || !/claims\/sbx/.test(key)) return undefined;
    claims += 1;
    // The claim is written, and its host has not said yet that it has the sandbox.
    const pod = podsOf(fleet).find(({ spec }) => spec.nodeName === 'h1');
    if (claims === 1 && pod !== undefined) fleet.api.objects.removePod(pod);
    return undefined;
  };
  cordon('h0');
  await until(() => b.daemon.manager.list()[0]?.state === 'running', 'it runs at the other host');
  await until(() => a.daemon.manager.list().length === 0, 'the first host has forgotten it');
  const isPlaced = (): boolean =>
    podsOf(fleet).length === 1 &&
    podsOf(fleet).every(({ spec, status }) => spec.nodeName === 'h1' && status?.phase === 'Running');
  await until(isPlaced, 'it has a place again');
  await answers(url, id);
  t.ok(claims > 0);
  t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  await until(() => podsOf(fleet).length === 0, 'its place goes with it');
  await until(() => b.records.all().length === 0, 'and the record of it');
});

t.test('without a place, as a quota is used up, a sandbox is reachable all the same', async (t) => {
  const { fleet, a, url, id } = await prepare(t);
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  const quota = { metadata: { name: 'tenant' }, spec: { hard: { pods: '0' } } };
  fleet.api.objects.create('resourcequotas', 'sandboxd', quota as never);
  const [pod] = podsOf(fleet);
  if (pod === undefined) throw new Error('there is no place');
  fleet.api.objects.removePod(pod);
  const annotationOf = (): string =>
    fleet.api.objects.find('nodes', '', 'h0')?.metadata.annotations?.['sandboxd.dev/unplaced'] ?? '';
  await until(() => annotationOf().includes(id), 'its host says that it has it');
  await answers(url, id);
  t.equal(podsOf(fleet).length, 0);
  t.equal(a.daemon.manager.list().length, 1);
  fleet.api.objects.delete('resourcequotas', 'sandboxd', 'tenant', 0);
  await until(() => podsOf(fleet)[0]?.status?.phase === 'Running', 'it has a place again');
  await until(() => annotationOf() === '', 'its host names it no more');
  await answers(url, id);
});

t.test('a host is lost for good after an offer: a resume by its tenant finds another', async (t) => {
  const { fleet, host, cordon, a, url, id, s3 } = await prepare(t, NOT_AHEAD);
  cordon('h0');
  await until(() => podsOf(fleet).length === 2, 'it is offered');
  await a.crash();
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  for (const pod of podsOf(fleet)) fleet.api.objects.removePod(pod);
  const [b, c] = [await host('h1'), await host('h2')];
  await fleet.ready(2);
  await until(() => podsOf(fleet).length === 0, 'it has no place');
  t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { state: 'paused' } });
  t.equal((await ask(url, 'POST', '/sandboxes/sbx_0000000000000/resume', {})).status, 404);
  const resumed = await Promise.all([1, 2, 3].map(() => ask(url, 'POST', `/sandboxes/${id}/resume`, {})));
  t.same(
    resumed.map(({ status }) => status),
    [200, 200, 200],
    JSON.stringify(resumed.map(({ body }) => body)),
  );
  t.notOk(resumed.some(({ headers }) => headers.has('sandboxd-parked')));
  const owners = [b, c].filter(({ daemon }) => daemon.manager.list().length > 0);
  t.equal(owners.length, 1);
  t.equal(owners[0]?.daemon.manager.get(id).state, 'running');
  t.equal(podsOf(fleet).length, 1);
  await answers(url, id);
  await until(() => ![...s3.objects.keys()].some((key) => /\/sandboxes\//.test(key)), 'not in the bucket');
});

/** The first claim is written, but is neither answered nor seen before `land`: a network that was cut delivers late. */
function delayClaim(s3: S3Server) {
  let isHidden = false;
  let [asked, looks] = [0, 0];
  s3.fault = (method, key) => {
    if (!/claims\/sbx/.test(key)) return undefined;
    if (method === 'GET') looks += 1;
    if (method === 'PUT' && asked++ === 0) {
      isHidden = true;
      return 'lost';
    }
    if (!isHidden) return undefined;
    return method === 'PUT' ? { status: 403, code: 'AccessDenied' } : { status: 404, code: 'NoSuchKey' };
  };
  return {
    failed: () => until(() => asked >= 2, 'a claim that fails'),
    retried: () => until(() => asked >= 3, 'another claim'),
    looked: async () => {
      const former = looks;
      await until(() => looks > former, 'it is looked for');
    },
    land: () => {
      isHidden = false;
    },
  };
}

t.test('a claim that arrives late is still that of its host', async (t) => {
  const { fleet, s3, host, cordon, a, url, id } = await prepare(t, NOT_AHEAD);
  const b = await host('h1');
  await fleet.ready(2);
  const claim = delayClaim(s3);
  cordon('h0');
  await claim.failed();
  await claim.retried();
  claim.land();
  await until(() => b.daemon.manager.list()[0]?.state === 'running', 'it runs at the other host');
  await until(() => a.daemon.manager.list().length === 0, 'the first host has forgotten it');
  await answers(url, id);
});

t.test('a claim that arrives late, after its host has ended, is still that of its host', async (t) => {
  const { fleet, s3, host, cordon, a, url, id } = await prepare(t, NOT_AHEAD);
  const b = await host('h1');
  await fleet.ready(2);
  const claim = delayClaim(s3);
  cordon('h0');
  await claim.failed();
  await Promise.all([a.crash(), b.crash()]);
  const again = await host('h1', { home: b.daemon.home });
  await claim.looked();
  claim.land();
  await until(() => again.daemon.manager.list()[0]?.state === 'running', 'it runs at the other host');
  await answers(url, id);
});
