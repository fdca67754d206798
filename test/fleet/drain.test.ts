// A host with nine guests is drained while they count in memory and on disk: all go on at the other host, under their
// ids, and no number is written twice. With S3, the name of a bucket, through that server.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Api, type SandboxJson } from '../support/api.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { startFleet } from '../support/fleet/fleet.ts';
import { readRecordIds } from '../support/leftovers.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, storeFlags } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

const GUESTS = Number(process.env.GUESTS ?? 9);
const COUNT =
  '(i=0; while :; do i=$((i+1)); echo $i >> /root/log; date +%s.%N >> /dev/shm/at; sync; sleep 0.5; done) >/dev/null 2>&1 &';
const GAP =
  "awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { print most }' /dev/shm/at";

t.setTimeout(scaled(900_000));

t.test('nine guests go on at another host, none of them twice', async (t) => {
  const flags = storeFlags(makeStoreSettings(t, process.env.S3 ?? (await startS3(t)).url));
  const fleet = await startFleet(t);
  const join = (name: string) => startDaemon(t, { flags: [...flags, ...fleet.joinFlags(name)] });
  const [a, b] = [await join('a'), await join('b')];
  await fleet.ready(2);
  const gateway = await fleet.gateway();
  // Until they know the keys of the fleet.
  for (const { api: own } of [a, b]) while (!(await own.fetch('/whoami')).ok) await sleep(100);
  const api = new Api(gateway.url, () => '');
  const setCordoned = (name: string, unschedulable: boolean) =>
    fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', name), { spec: { unschedulable } });
  setCordoned('b', true);
  const ids: string[] = [];
  for (let n = 0; n < GUESTS; n++) ids.push((await api.create({ memory_mib: 128 })).id);
  setCordoned('b', false);
  for (const id of ids) await api.sh(id, COUNT);
  const machines = await Promise.all(ids.map((id) => api.sh(id, 'cat /etc/machine-id')));
  t.equal(new Set(machines).size, GUESTS);
  const [first = ''] = ids;
  const { id: snapshot } = await api.ask('takeSnapshot', { params: { id: first } });
  t.comment(`longest time between two lines, with a snapshot: ${await api.sh(first, GAP)} s`);
  await api.call('DELETE', `/snapshots/${snapshot}`);

  const startedAt = performance.now();
  setCordoned('a', true);
  const listOf = async ({ api: own }: { readonly api: Api }) =>
    (await own.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes')).sandboxes;
  for (;;) {
    const [left, arrived] = [await listOf(a), await listOf(b)];
    const runs = (all: readonly SandboxJson[]) =>
      new Set(all.filter(({ state }) => state === 'running').map(({ id }) => id));
    const twice = [...runs(left)].filter((id) => runs(arrived).has(id));
    t.same(twice, [], 'none runs at both');
    if (left.length === 0 && runs(arrived).size === GUESTS) break;
    await sleep(1000);
  }
  t.comment(`${GUESTS} guests moved in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  for (const [at, id] of ids.entries()) {
    t.equal(await api.sh(id, 'cat /etc/machine-id'), machines[at], 'the same guest');
    const lines = () => api.sh(id, 'wc -l < /root/log');
    const before = Number(await lines());
    while (Number(await lines()) <= before) await sleep(200);
    const faults = "sort -n /root/log | uniq -d | wc -l; awk 'NR != $1' /root/log | wc -l";
    t.equal(await api.sh(id, faults), '0\n0', 'no number twice, and none is missing');
    t.comment(`longest time between two lines, with the move: ${await api.sh(id, GAP)} s`);
  }
  setCordoned('a', false);
  for (const id of ids) await api.delete(id);
  await until(() => fleet.api.objects.list('pods').length === 0, 'no place', 60_000);
  const isLeft = async ({ directories }: Daemon) =>
    (await readRecordIds(directories.dataDir)).some((key) => /^(?:fleet_places|drain)\//.test(key));
  while ((await isLeft(a)) || (await isLeft(b))) await sleep(100);
});
