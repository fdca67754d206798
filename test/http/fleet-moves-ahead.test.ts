// Before the pause: the next host is chosen, and fetches what the sandbox has sent, while the sandbox runs. Whatever fails
// there, it moves, or stays and runs, and nothing is left.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import { ask, type Fleet, type FleetHost } from '../support/fleet/fleet.ts';
import { holdFetches, PATIENT, startMovingSandbox as prepare } from '../support/fleet/moves.ts';
import { openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(240_000));

const podsOf = (fleet: Fleet) => fleet.api.objects.list('pods');

type Moving = Awaited<ReturnType<typeof prepare>>;

/** Directories of what is fetched ahead. */
async function fetchedBy({ daemon }: FleetHost): Promise<string[]> {
  const names = await readdir(join(daemon.home.dataDir, 'snapshots')).catch(() => []);
  return names.filter((name) => name.startsWith('.'));
}

async function untilNothingIsFetched(host: FleetHost): Promise<void> {
  let left: string[] = ['?'];
  const look = setInterval(async () => {
    left = await fetchedBy(host);
  }, 50);
  await until(() => left.length === 0, 'nothing that was fetched ahead is left').finally(() =>
    clearInterval(look),
  );
}

const copiesIn = ({ objects }: { objects: ReadonlyMap<string, unknown> }) =>
  [...objects.keys()].filter((key) => /(?:^|\/)ahead\//.test(key));

t.test('the next host has what was sent before the sandbox is paused', async (t) => {
  const { s3, cordon, a, b, url, id, arrives } = await prepare(t);
  cordon('h0');
  await arrives(b);
  t.equal(b.daemon.home.host.counts.prepares, 1, 'its engine is ready for it');
  const { requests } = s3;
  const isChunk = ({ method, key }: (typeof requests)[number]) => method === 'GET' && /chunks\//.test(key);
  const offered = requests.findIndex(({ method, key }) => method === 'PUT' && /sandboxes\/sbx/.test(key));
  const [before, after] = [requests.slice(0, offered), requests.slice(offered)];
  t.ok(before.some(isChunk), 'it is fetched before the offer');
  t.ok(after.filter(isChunk).length < before.filter(isChunk).length, 'and only changes after it');
  const claimed = after.findIndex(({ method, key }) => method === 'PUT' && /claims\/sbx/.test(key));
  t.ok(claimed > 0);
  t.notOk(
    after.slice(0, claimed).some(({ method, key }) => method === 'GET' && key === ''),
    'it is not searched for',
  );
  t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { state: 'running' } });
  t.same(copiesIn(s3), [], 'the store keeps no copy');
  await untilNothingIsFetched(b);
  await untilNothingIsFetched(a);
});

/** The form of what was offered, when a host claims it. */
function watchOffers({ s3, settings }: Pick<Moving, 's3' | 'settings'>, t: Test) {
  const { store } = openTestStore(t, settings);
  const formats: (number | undefined)[] = [];
  s3.fault = async (method, key) => {
    const [, id] = /claims\/(sbx_[0-9a-v]+\/[0-9a-f]+)$/.exec(key) ?? [];
    if (method === 'PUT' && id !== undefined) formats.push((await store.read(id))?.formatVersion);
    return undefined;
  };
  return formats;
}

t.test('changes alone are offered to a host that has the copy and takes them', async (t) => {
  for (const takesChanges of [true, false]) {
    const moving = await prepare(t, PATIENT, { local: { takesChanges } });
    const formats = watchOffers(moving, t);
    moving.cordon('h0');
    await moving.arrives(moving.b);
    t.same(formats, [takesChanges ? 2 : 1]);
    t.match(await ask(moving.url, 'GET', `/sandboxes/${moving.id}`), { body: { state: 'running' } });
    await untilNothingIsFetched(moving.a);
  }
});

t.test('what no host takes as changes is offered whole', async (t) => {
  const moving = await prepare(t, { ...PATIENT, wholeMs: 0 });
  const formats = watchOffers(moving, t);
  const watch = moving.s3.fault;
  const refused = Promise.withResolvers<void>();
  let offers = 0;
  moving.s3.fault = async (method, key) => {
    if (method === 'PUT' && /sandboxes\/sbx/.test(key) && ++offers > 1) await refused.promise;
    const before = formats.length;
    const fault = await watch(method, key);
    if (formats.length === before || formats.at(-1) === 1) return fault;
    // As a host of an earlier version, which reads no changes.
    refused.resolve();
    return { status: 403, code: 'AccessDenied' };
  };
  moving.cordon('h0');
  await moving.arrives(moving.b);
  t.equal(formats[0], 2);
  t.equal(formats.at(-1), 1);
  t.match(await ask(moving.url, 'GET', `/sandboxes/${moving.id}`), { body: { state: 'running' } });
});

t.test('all is offered where the copy was not fetched', async (t) => {
  const moving = await prepare(t);
  const formats = watchOffers(moving, t);
  const watch = moving.s3.fault;
  moving.s3.fault = (method, key) =>
    method === 'GET' && /(?:^|\/)ahead\//.test(key) ? { status: 404, code: 'NoSuchKey' } : watch(method, key);
  moving.cordon('h0');
  await moving.arrives(moving.b);
  t.same(formats, [1]);
});

t.test('a disk without space for the copy and a pause: the copy goes, and it moves', async (t) => {
  let isFull = false;
  const faults = {
    reach: (point: FaultPoint) => {
      if (point !== 'pause.paused' || isFull) return;
      isFull = true;
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    },
  };
  const moving = await prepare(t, PATIENT, {}, { faults });
  const formats = watchOffers(moving, t);
  moving.cordon('h0');
  await moving.arrives(moving.b);
  t.ok(isFull);
  t.same(formats, [1], 'at once, with whole chunks');
  await untilNothingIsFetched(moving.a);
});

t.test('an uncordon while it is fetched ahead: it was never paused, and nothing is left', async (t) => {
  const { fleet, s3, cordon, a, b, url, id } = await prepare(t);
  const held = holdFetches(s3);
  cordon('h0');
  await held.begun();
  t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { state: 'running' } });
  cordon('h0', false);
  await until(() => podsOf(fleet).length === 1, 'its other place goes');
  await until(() => copiesIn(s3).length === 0, 'the store keeps no copy');
  held.release();
  await untilNothingIsFetched(b);
  t.same(b.daemon.manager.list(), []);
  t.match(a.daemon.manager.list(), [{ id, state: 'running' }]);
  t.notOk(a.daemon.happened.some(({ kind }) => kind === 'paused'));
  t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  await until(() => podsOf(fleet).length === 0, 'no place');
});

t.test('a delete while it is fetched ahead', async (t) => {
  const { fleet, s3, cordon, b, url, id } = await prepare(t);
  const held = holdFetches(s3);
  cordon('h0');
  await held.begun();
  t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  await until(() => podsOf(fleet).length === 0, 'no place');
  held.release();
  await untilNothingIsFetched(b);
  t.same(copiesIn(s3), []);
});

t.test('a bucket that refuses what is fetched ahead: the sandbox moves, and is fetched then', async (t) => {
  const { s3, cordon, b, arrives } = await prepare(t);
  let isOffered = false;
  s3.fault = (method, key) => {
    isOffered ||= method === 'PUT' && /sandboxes\/sbx/.test(key);
    const isRefused = !isOffered && method === 'GET' && /chunks\//.test(key);
    return isRefused ? { status: 403, code: 'AccessDenied' } : undefined;
  };
  cordon('h0');
  await arrives(b);
  await untilNothingIsFetched(b);
});

t.test('a bucket with the copy of another sandbox, or without one: it moves', async (t) => {
  for (const isOther of [true, false]) {
    const { s3, cordon, b, arrives } = await prepare(t);
    s3.fault = (method, key) => {
      if (!/(?:^|\/)ahead\//.test(key) || method !== 'GET') return undefined;
      const object = s3.objects.get(key);
      if (object !== undefined) s3.objects.set(key, { ...object, body: Buffer.from(object.body).reverse() });
      return isOther ? undefined : { status: 404, code: 'NoSuchKey' };
    };
    cordon('h0');
    await arrives(b);
    await untilNothingIsFetched(b);
  }
});

t.test('the source ends while its sandbox is fetched ahead: it runs there, and moves later', async (t) => {
  const { fleet, s3, host, cordon, home, a, b, id, arrives } = await prepare(t, PATIENT, {
    moveTimes: { keptMs: 500 },
  });
  const held = holdFetches(s3);
  cordon('h0');
  await held.begun();
  await a.crash();
  held.release();
  await untilNothingIsFetched(b);
  t.same(b.daemon.manager.list(), [], 'the other host has no sandbox');
  const again = await host('h0', { home, moveTimes: { placedMs: 1000 } });
  await fleet.ready(2);
  await arrives(b, again);
  t.equal(b.daemon.manager.list()[0]?.id, id);
  await untilNothingIsFetched(b);
});

t.test('the place that was chosen goes while its host fetches ahead: another is made', async (t) => {
  const { fleet, s3, cordon, b, arrives } = await prepare(t);
  const held = holdFetches(s3);
  cordon('h0');
  await held.begun();
  const pod = podsOf(fleet).find(({ spec }) => spec.nodeName === 'h1');
  if (pod === undefined) throw new Error('no pod waits');
  fleet.api.objects.removePod(pod);
  await until(() => podsOf(fleet).some(({ metadata }) => metadata.uid !== pod.metadata.uid), 'another place');
  held.release();
  await arrives(b);
  await untilNothingIsFetched(b);
});

t.test('a host of an earlier version fetches nothing ahead, and takes the sandbox', async (t) => {
  const local = { prefetch: async () => undefined, prefetchOf: () => undefined };
  const { cordon, b, arrives } = await prepare(t, { ...PATIENT, placedMs: 500 }, { local });
  cordon('h0');
  await arrives(b);
});

t.test('a host of an earlier version sends its sandboxes when they are paused', async (t) => {
  const { s3, cordon, b, arrives } = await prepare(t, { placedMs: 0 });
  cordon('h0');
  await arrives(b);
  t.equal(s3.count('PUT', /(?:^|\/)ahead\//), 0);
});

t.test('a host fetches few sandboxes ahead at once', async (t) => {
  const { s3, b } = await prepare(t);
  const { prefetches } = b.daemon.manager.moves;
  if (prefetches === undefined) throw new Error('no store');
  const gate = Promise.withResolvers<void>();
  s3.fault = async () => {
    await gate.promise;
    return undefined;
  };
  const ids = [1, 2, 3, 4].map((n) => `sbx_000000000000${n}`);
  const begun = ids.map((id) => prefetches.begin(id, '01234567'));
  await t.rejects(prefetches.begin('sbx_0000000000005', '01234567'), { code: 'exhausted' });
  gate.resolve();
  await Promise.all(begun);
  await prefetches.begin('sbx_0000000000005', '01234567');
  t.same(await fetchedBy(b), []);
});

t.test('many moves of one sandbox that do not come: their places go, and it stays', async (t) => {
  const { fleet, a, b, url, id } = await prepare(t);
  const own = () => podsOf(fleet).find(({ metadata }) => metadata.name === id.replace('_', '-'));
  await until(() => own()?.status?.phase === 'Running', 'a place');
  for (let move = 0; move < 30; move++) {
    const pod = own();
    if (pod === undefined) throw new Error('its place went');
    const reason = `D${move.toString(16).padStart(8, '0')}`;
    const condition = { type: 'sandboxd.dev/Copied', status: 'True', reason };
    fleet.api.objects.change('pods', pod, { status: { conditions: [condition] } });
    await sleep(10);
  }
  await until(() => podsOf(fleet).length === 1, 'one place');
  t.same([...(b.daemon.manager.moves.prefetches?.ids() ?? [])], []);
  t.match(a.daemon.manager.list(), [{ id, state: 'running' }]);
  t.equal((await ask(url, 'DELETE', `/sandboxes/${id}`)).status, 204);
  await until(() => podsOf(fleet).length === 0, 'no place');
});
