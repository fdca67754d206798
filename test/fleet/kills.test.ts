// Daemons with real guests, and gateways, are killed with SIGKILL under load while hosts are drained (KILLS: how many
// times; SEED repeats the choices). With S3, the name of a bucket, through that server.
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { LEAVING } from '../../host-agent/src/fleet/kubernetes/pods.ts';
import { Api } from '../support/api.ts';
import type { Daemon } from '../support/daemon.ts';
import { makeRandom } from '../support/fleet/chaos/random.ts';
import { KillLoad } from '../support/fleet/kill-load.ts';
import { RealFleet } from '../support/fleet/real-fleet.ts';
import { findViolations } from '../support/invariants.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { listVmms } from '../support/vmms.ts';

const KILLS = Number(process.env.KILLS ?? 12);
const SEED = Number(process.env.SEED ?? randomInt(2 ** 31));
const HOSTS = ['a', 'b'];
const GATEWAYS = 2;
const WORKERS = 3;
/** Between two times at which everything is compared. */
const KILLS_AT_ONCE = 3;
const SETTLE_MS = 300_000;

t.setTimeout(scaled(600_000 + KILLS * 120_000));

/** By the id in the path of its control socket, whichever host it is of. */
async function guestsTwice(ids: readonly string[]): Promise<string[]> {
  const paths = (await listVmms()).map(({ socketPath }) => socketPath);
  return ids.filter((id) => paths.filter((path) => path.includes(`/${id}/`)).length > 1);
}

/** A template that is being made once more, as its daemon was killed meanwhile, takes long on a busy machine. */
async function patiently(daemon: Daemon): Promise<string[]> {
  let found: string[] = [];
  for (let n = 0; n < 5; n++) {
    found = await findViolations(daemon);
    if (!found.some((line) => line.includes('half-made template'))) break;
  }
  return found;
}

/** Which sandboxes the hosts have, by their own registries. */
async function listAll(world: RealFleet): Promise<string[]> {
  const all = await Promise.all(world.daemons.map(({ api }) => api.list()));
  return all.flat().map(({ id }) => id);
}

t.test(`${KILLS} kills of daemons and gateways`, async (t) => {
  t.comment(`SEED=${SEED} KILLS=${KILLS}`);
  const random = makeRandom(SEED);
  const world = await RealFleet.start(t, { hosts: HOSTS, gateways: GATEWAYS });
  const load = new KillLoad(world, random);
  const ids = () => [...load.alive.keys()];

  async function killOne(): Promise<void> {
    const at = random(HOSTS.length + GATEWAYS);
    const name = HOSTS[at];
    await sleep(random(scaled(4000)));
    if (name === undefined) world.killGateway(at - HOSTS.length);
    else await world.killHost(name);
    await sleep(random(scaled(3000)));
    if (name === undefined) await world.startGateway(at - HOSTS.length);
    else await world.startHost(name);
    t.same(await guestsTwice(ids()), [], 'no guest runs twice');
  }

  for (let kills = 0; kills < KILLS; ) {
    const stop = new AbortController();
    const workers = Array.from({ length: WORKERS }, () => load.work(stop.signal));
    for (let n = 0; n < KILLS_AT_ONCE && kills < KILLS; n++, kills++) {
      // One of them at most: sandboxes find a host.
      const drained = random(3);
      for (const [at, name] of HOSTS.entries()) world.cordon(name, at === drained);
      await killOne();
    }
    for (const name of HOSTS) world.cordon(name, false);
    stop.abort();
    await Promise.all(workers);
    t.same(await load.check(), [], 'each sandbox has what was written');
    t.same(load.faults.splice(0), [], 'each request has its answer');
    const endMs = performance.now() + scaled(SETTLE_MS);
    const isSettled = async () =>
      (await listAll(world)).sort().join() === ids().sort().join() &&
      world.podNames().length === load.alive.size;
    while (!(await isSettled()) && performance.now() < endMs) await sleep(200);
    t.same((await listAll(world)).sort(), ids().sort(), 'hosts have what clients were told, once');
    t.equal(world.podNames().length, load.alive.size, 'and so has the cluster');
    for (const daemon of world.daemons) t.same(await patiently(daemon), [], 'everything has its owner');
    t.comment(`${kills} kills: ${JSON.stringify(load.done)}`);
  }
  await load.deleteAll();
  t.same(load.faults, []);
  t.same(await world.end(), [], 'nothing is left');
  t.comment(`${world.moved} moves`);
});

t.test('a host that is gone for good, with its disks, takes nothing that it had offered', async (t) => {
  const world = await RealFleet.start(t, { hosts: HOSTS, gateways: 1 });
  const [url = ''] = world.urls;
  const api = new Api(url);
  world.cordon('b', true);
  const ids: string[] = [];
  for (let n = 0; n < 2; n++) ids.push((await api.create({ memory_mib: 128 })).id);
  for (const id of ids) await api.sh(id, `echo ${id} > /root/on-disk; echo ${id} > /dev/shm/in-memory`);
  world.cordon('a', true);
  const isOffered = () =>
    world.fleet.api.objects
      .list('pods')
      .every(({ status }) => status?.conditions?.some(({ type }: { type: string }) => type === LEAVING));
  await until(isOffered, 'both are in the bucket', SETTLE_MS);
  await world.loseHost('a');
  world.cordon('b', false);
  for (const id of ids) {
    for (;;) {
      const answer = await api.sh(id, 'cat /root/on-disk /dev/shm/in-memory').catch((error: Error) => error);
      if (answer instanceof Error && /^(409|502|503|504)/.test(answer.message)) await sleep(200);
      else {
        t.equal(answer, `${id}\n${id}`);
        break;
      }
    }
  }
  t.same(await guestsTwice(ids), []);
  for (const id of ids) await api.delete(id);
  t.same(await world.end(), [], 'nothing is left');
});
