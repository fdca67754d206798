// A fleet whose hosts share a snapshot store: a snapshot outlives its host, and is forked where it is already.
import { mkdir, rm } from 'node:fs/promises';
import t from 'tap';
import { toHoldingLabel, toSnapshotHolding } from '../../host-agent/src/fleet/kubernetes/holdings.ts';
import { ask, startFleet } from '../support/fleet/fleet.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { eventually } from './store-hosts.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

t.test('a snapshot of a host that is gone is forked on others, each of which fetches it once', async (t) => {
  const fleet = await startFleet(t);
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const start = (name: string) => fleet.host(name, { snapshotStore: openTestStore(t, settings).store });
  const first = await start('h0');
  await fleet.ready(1);
  const { url } = await fleet.gateway();
  const { id: original } = (await ask(url, 'POST', '/sandboxes', {})).body;
  const run = { cmd: ['note', 'where', 'there'] };
  const note = await ask(url, 'POST', `/sandboxes/${original}/exec`, run, { accept: 'application/json' });
  t.equal(note.status, 200);
  const { id } = (await ask(url, 'POST', `/sandboxes/${original}/snapshot`)).body;
  const storage = async () => (await ask(url, 'GET', `/snapshots/${id}`)).body.storage;
  await eventually(async () => (await storage()) === 'stored');
  const others = [await start('h1'), await start('h2')];
  await fleet.ready(3);
  await first.crash();
  await rm(first.daemon.home.dataDir, { recursive: true });
  await mkdir(first.daemon.home.dataDir);
  fleet.api.objects.delete('nodes', '', 'h0', 0);
  await eventually(async () => (await storage()) === 'remote');

  const fetched = () => s3.count('GET', /chunks/);
  const forkOn = async (count: number) => {
    const made = await ask(url, 'POST', `/snapshots/${id}/fork`, { count });
    t.equal(made.status, 201, JSON.stringify(made.body));
    const ids = (made.body.sandboxes as { id: string }[]).map((each) => each.id);
    const host = others.find(({ daemon }) => daemon.manager.find(ids[0]!) !== undefined)!;
    for (const each of ids) t.equal(host.daemon.host.of(each).agent.state.notes.where, 'there');
    return host;
  };
  const nothing = fetched();
  const home = await forkOn(1);
  const once = fetched();
  t.ok(once > nothing);
  const label = toHoldingLabel(toSnapshotHolding(id));
  await until(
    () => fleet.api.objects.get('nodes', '', home.name).metadata.labels?.[label] === 'true',
    'a label',
  );
  t.equal(await forkOn(3), home, 'where it is already');
  t.equal(fetched(), once, 'a second fork fetches nothing');

  const key = { 'idempotency-key': 'fork' };
  const [one, again] = [
    await ask(url, 'POST', `/snapshots/${id}/fork`, { count: 1 }, key),
    await ask(url, 'POST', `/snapshots/${id}/fork`, { count: 1 }, key),
  ];
  t.same([again.status, again.body], [one.status, one.body]);

  // That host takes nothing more.
  const { status } = fleet.api.objects.get('nodes', '', home.name);
  const allocatable = { ...status.allocatable, pods: '0' };
  fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', home.name), {
    status: { allocatable },
  });
  const other = await forkOn(2);
  t.not(other, home);
  t.ok(fetched() > once);
});
