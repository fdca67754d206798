// Moves that fail half-way: whatever refuses, one host has the sandbox, and it is not ended.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ask } from '../support/fleet/fleet.ts';
import { holdFetches, NOT_AHEAD, startMovingFleet } from '../support/fleet/moves.ts';
import { makeHome, startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(240_000));

async function prepare(t: Test, moveTimes = NOT_AHEAD) {
  const { fleet, s3, settings, host, cordon } = await startMovingFleet(t);
  const a = await host('h0', { moveTimes });
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300, unboundMs: 600_000 });
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  return { fleet, s3, settings, host, cordon, a, url, id: body.id };
}

for (const [what, method, key] of [
  ['claim', 'PUT', /claims\/sbx/],
  ['download of a chunk', 'GET', /chunks\//],
] as const)
  t.test(`one refused ${what} ends no sandbox`, async (t) => {
    const { fleet, s3, host, cordon, a, url, id } = await prepare(t);
    const b = await host('h1');
    await fleet.ready(2);
    let refused = 0;
    s3.fault = (asked, path) =>
      asked === method && key.test(path) && refused++ === 0
        ? { status: 403, code: 'AccessDenied' }
        : undefined;
    cordon('h0');
    await until(() => b.daemon.manager.list()[0]?.state === 'running', 'it runs at the other host');
    await until(() => a.daemon.manager.list().length === 0, 'the first host has forgotten it');
    await until(() => fleet.api.objects.list('pods').length === 1, 'one pod');
    t.ok(refused > 0);
    t.match(await ask(url, 'GET', `/sandboxes/${id}`), { status: 200, body: { state: 'running' } });
    t.notMatch(b.daemon.happened, [{ kind: 'deleted' }]);
  });

/** The next host fetches the sandbox, and does not come to an end with it until `held` is released. */
async function beginFetch({ fleet, s3, host, cordon }: Awaited<ReturnType<typeof prepare>>) {
  cordon('h0');
  await until(() => fleet.api.objects.list('pods').length === 2, 'a pod waits');
  const held = holdFetches(s3);
  const b = await host('h1');
  await fleet.ready(2);
  const pod = fleet.api.objects.list('pods').find(({ spec }) => spec.nodeName === undefined);
  if (pod === undefined) throw new Error('no pod waits');
  fleet.api.objects.change('pods', pod, { spec: { nodeName: 'h1' } });
  await held.begun();
  return { held, b, pod };
}

t.test('a host that does not come to an end with what it takes holds no delete', async (t) => {
  const prepared = await prepare(t);
  const { fleet, a, url, id } = prepared;
  const { url: impatient } = await fleet.gateway({ takingMs: 100 });
  const { held, b } = await beginFetch(prepared);
  const path = `/sandboxes/${id}`;
  t.match(await ask(url, 'DELETE', path), { status: 503 }, 'for a time it is for that host');
  let status = 503;
  for (let tries = 0; status === 503 && tries < 200; tries++) {
    await sleep(100);
    status = (await ask(impatient, 'DELETE', path)).status;
  }
  t.equal(status, 204);
  held.release();
  await until(() => fleet.api.objects.list('pods').length === 0, 'no place');
  t.same([a.daemon.manager.list(), b.daemon.manager.list()], [[], []]);
});

t.test('a place that goes while its sandbox is fetched: the sandbox stays where it was', async (t) => {
  const prepared = await prepare(t);
  const { fleet, a, url, id } = prepared;
  const { held, b, pod } = await beginFetch(prepared);
  fleet.api.objects.removePod(pod);
  await sleep(200);
  held.release();
  await until(() => b.daemon.manager.list()[0]?.state === 'running', 'a new place, and it runs');
  await until(() => a.daemon.manager.list().length === 0, 'the first host has forgotten it');
  t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200);
  t.notMatch(b.daemon.happened, [{ kind: 'deleted' }]);
});

for (const isKilled of [false, true])
  t.test(
    `the new host ${isKilled ? 'is killed' : 'fails once'} after its claim: it has the sandbox`,
    async (t) => {
      const { fleet, host, cordon, a, url, id } = await prepare(t);
      const home = await makeHome(t);
      let claims = 0;
      const reach = (point: string): void => {
        if (point === 'arrival.claimed' && (isKilled || claims === 0)) {
          claims += 1;
          throw new Error('it fails at its claim');
        }
      };
      const first = await host('h1', { home, faults: { reach } });
      await fleet.ready(2);
      cordon('h0');
      await until(() => claims > 0, 'it is claimed');
      if (isKilled) await first.crash();
      const b = isKilled ? await host('h1', { home }) : first;
      await until(() => b.daemon.manager.list()[0]?.state === 'running', 'it runs');
      await until(() => a.daemon.manager.list().length === 0, 'the first host has forgotten it');
      await until(() => fleet.api.objects.list('pods').length === 1, 'one pod');
      await until(() => fleet.api.objects.list('pods')[0]?.status?.phase === 'Running', 'which is in use');
      t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200);
      t.notMatch(b.daemon.happened, [{ kind: 'deleted' }]);
    },
  );

t.test('a place that counts less than the sandbox takes it not', async (t) => {
  const { fleet, host, cordon, a, id } = await prepare(t);
  const waiting = () => fleet.api.objects.list('pods').find(({ spec }) => spec.nodeName === undefined);
  cordon('h0');
  await until(() => waiting() !== undefined, 'a pod waits');
  const b = await host('h1');
  await fleet.ready(2);
  const pod = waiting();
  if (pod === undefined) throw new Error('no pod waits');
  const containers = pod.spec.containers.map((each: object) => ({
    ...each,
    resources: { requests: { cpu: '1m', memory: '1Mi' } },
  }));
  fleet.api.objects.change('pods', pod, { spec: { nodeName: 'h1', containers } });
  await until(() => waiting() !== undefined && waiting()?.metadata.uid !== pod.metadata.uid, 'another pod');
  t.same(b.daemon.manager.list(), []);
  t.equal(a.daemon.manager.get(id).state, 'paused');
});

for (const how of ['without a store', 'with another prefix'])
  t.test(`the old host starts again ${how}: it does not own what it offered`, async (t) => {
    const s3 = await startS3(t);
    const settings = makeStoreSettings(t, s3.url);
    const home = await makeHome(t);
    const start = (options: object = {}) =>
      startMemoryDaemon(t, { snapshotStore: openTestStore(t, settings).store, ...options });
    const [a, b] = [await start({ home }), await start()];
    const { id } = await a.manager.create({});
    await a.manager.moves.drain.begin();
    await until(() => a.manager.moves.drain.progress().state === 'drained', 'drained');
    await a.crash();
    await b.manager.moves.takeOver(id, () => true);
    const other = openTestStore(t, { ...settings, prefix: 'other' }).store;
    const again = await start({ home, snapshotStore: how === 'without a store' ? undefined : other });
    await again.manager.moves.drain.cancel();
    await sleep(500);
    t.equal(again.manager.get(id).state, 'paused');
    await t.rejects(again.manager.sleep.resume(again.manager.find(id) as never), { code: 'exhausted' });
    await t.rejects(again.manager.delete(id), { code: 'conflict', message: /snapshot_store/ });
    t.equal([...s3.objects.keys()].filter((key) => /other.*claims\/sbx/.test(key)).length, 0);
    await again.crash();
    const back = await start({ home });
    await until(() => back.manager.find(id) === undefined, 'with its own store it knows');
  });
