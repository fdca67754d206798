// Hosts, gateways and the API server are started, killed and cut off without an answer, in random order under load
// (FLEET_CHAOS: for how many seconds; SEED repeats a run). Afterwards the catalogue is the union of the registries, and
// nothing is twice or lost.
import '../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ask, type Fleet, type FleetHost, startFleet } from '../support/fleet/fleet.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

const SECONDS = Number(process.env.FLEET_CHAOS ?? 60);
const SEED = Number(process.env.SEED ?? randomInt(2 ** 31));
const NAMES = ['h0', 'h1', 'h2'];
const WORKERS = 4;
const SETTLE_MS = 120_000;
const MAX_SILENCE_MS = 8000;
const LIMIT_MS = scaled(SECONDS * 2000 + 300_000);
t.setTimeout(LIMIT_MS);

/** The same numbers for the same seed (mulberry32). */
function makeRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const nft = (...args: string[]) => execFileSync('nft', args, { stdio: ['ignore', 'ignore', 'inherit'] });
execFileSync('ip', ['link', 'set', 'lo', 'up']);
nft('add table inet chaos');
nft('add set inet chaos silent { type inet_service; flags timeout; }');
nft('add chain inet chaos input { type filter hook input priority 0; }');
// Both directions, for connections that are open already.
nft('add rule inet chaos input tcp dport @silent drop');
nft('add rule inet chaos input tcp sport @silent drop');

const random = makeRandom(SEED);
const pick = <T>(all: readonly T[]): T | undefined => all[random(Math.max(1, all.length))];

class World {
  readonly test: Test;
  readonly fleet: Fleet;
  readonly hosts = new Map<string, FleetHost>();
  /** Of each host that ran. */
  readonly homes = new Map<string, FleetHost['daemon']['home']>();
  readonly gateways: Awaited<ReturnType<Fleet['gateway']>>[] = [];
  /** Made, and not deleted. */
  readonly alive = new Set<string>();
  /** A delete was answered. */
  readonly gone = new Set<string>();
  /** A delete is asked for. */
  readonly going = new Set<string>();
  readonly byKey = new Map<string, string>();
  readonly problems: string[] = [];
  isApiDown = false;
  isOver = false;
  keys = 0;

  constructor(test: Test, fleet: Fleet) {
    this.test = test;
    this.fleet = fleet;
  }

  async startHost(name: string): Promise<void> {
    const home = this.homes.get(name);
    const host = await this.fleet.host(name, { unusedMs: 1000, isAwaited: false, ...(home && { home }) });
    this.hosts.set(name, host);
    this.homes.set(name, host.daemon.home);
    // A host sets that of its test, which is shorter.
    this.test.setTimeout(LIMIT_MS);
  }

  /** One create, or delete, whose answer may be lost. */
  async work(): Promise<void> {
    const gateway = pick(this.gateways);
    if (gateway === undefined) return void (await sleep(20));
    const id = pick([...this.alive].filter((each) => !this.going.has(each)));
    if (id !== undefined && (this.alive.size > 60 || random(3) === 0))
      return await this.delete(gateway.url, id);
    const isRetry = this.keys > 0 && random(4) === 0;
    const key = isRetry ? `key-${random(this.keys)}` : `key-${this.keys++}`;
    const headers = random(2) === 0 || isRetry ? { 'idempotency-key': key } : undefined;
    const made = await ask(gateway.url, 'POST', '/sandboxes', {}, headers).catch(() => undefined);
    if (made?.status !== 201) return void (await sleep(20));
    const former = headers && this.byKey.get(key);
    if (headers) this.byKey.set(key, made.body.id);
    if (former !== undefined && former !== made.body.id && !this.gone.has(former) && !this.going.has(former))
      this.problems.push(`${key} is ${former} and ${made.body.id}`);
    if (!this.gone.has(made.body.id) && !this.going.has(made.body.id)) this.alive.add(made.body.id);
  }

  async delete(url: string, id: string): Promise<void> {
    this.going.add(id);
    const { status } = (await ask(url, 'DELETE', `/sandboxes/${id}`).catch(() => undefined)) ?? {};
    this.alive.delete(id);
    if (status === 204) this.gone.add(id);
    // A gateway whose watch is late does not know it yet.
    else if (status === 404) this.alive.add(id);
  }

  /** Nothing arrives at a part, and nothing comes from it, for some seconds. */
  silence(url: string | undefined): void {
    if (url === undefined) return;
    const timeout = `${1000 + random(MAX_SILENCE_MS)}ms`;
    nft(`add element inet chaos silent { ${new URL(url).port} timeout ${timeout} }`);
  }

  /** Starts, kills or cuts off a part. */
  async disturb(): Promise<void> {
    const { fleet } = this;
    const name = NAMES[random(NAMES.length)]!;
    switch (random(6)) {
      case 0: {
        const host = this.hosts.get(name);
        if (host === undefined) return await this.startHost(name);
        this.hosts.delete(name);
        return await host.crash();
      }
      case 1:
        if (this.gateways.length === 0 || (this.gateways.length < 3 && random(2) === 0)) {
          if (!this.isApiDown) this.gateways.push(await fleet.gateway());
          return;
        }
        return await this.gateways.splice(random(this.gateways.length), 1)[0]?.stop();
      case 2:
        if (this.isApiDown) await fleet.api.listen();
        else await fleet.api.stop();
        this.isApiDown = !this.isApiDown;
        return;
      case 3:
        if (!this.isApiDown) fleet.api.compact();
        return;
      case 4:
        return this.silence(random(3) === 0 ? fleet.api.url : this.hosts.get(name)?.url);
      default: {
        const id = pick([...this.alive].filter((each) => !this.going.has(each)));
        if (id === undefined || fleet.api.objects.find('pods', 'sandboxd', podName(id)) === undefined) return;
        this.going.add(id);
        this.alive.delete(id);
        this.gone.add(id);
        fleet.api.objects.delete('pods', 'sandboxd', podName(id), undefined);
      }
    }
  }

  registries(): string[] {
    return [...this.hosts.values()].flatMap(({ daemon }) => daemon.manager.list().map(({ id }) => id));
  }

  pods(): string[] {
    return this.fleet.api.objects.list('pods').map(({ metadata }) => metadata.name);
  }
}

const podName = (id: string) => id.replace('_', '-');
const isSame = (a: readonly string[], b: readonly string[]) => [...a].sort().join() === [...b].sort().join();

t.test('parts start and end in random order', async (t) => {
  t.comment(`SEED=${SEED} FLEET_CHAOS=${SECONDS}`);
  const fleet = await startFleet(t);
  const world = new World(t, fleet);
  for (const name of NAMES) await world.startHost(name);
  await fleet.ready(NAMES.length);
  world.gateways.push(await fleet.gateway(), await fleet.gateway());
  const workers = Array.from({ length: WORKERS }, async () => {
    while (!world.isOver) await world.work();
  });
  let disturbances = 0;
  for (const endMs = performance.now() + SECONDS * 1000; performance.now() < endMs; disturbances++) {
    await world.disturb();
    const all = world.registries();
    if (new Set(all).size !== all.length) world.problems.push('a sandbox is twice');
    await sleep(100 + random(400));
  }
  world.isOver = true;
  nft('flush set inet chaos silent');
  if (world.isApiDown) await fleet.api.listen();
  await Promise.all(workers);
  for (const name of NAMES) if (!world.hosts.has(name)) await world.startHost(name);
  const { url, map } = await fleet.gateway();
  t.comment(
    `${disturbances} disturbances, ${world.alive.size} left, ${world.gone.size} deleted, ${world.keys} keys`,
  );
  const isSettled = () =>
    isSame(world.registries().map(podName), world.pods()) && map.size === world.pods().length;
  await until(isSettled, 'registries and catalogue that agree', SETTLE_MS).catch((error: unknown) => {
    t.comment(JSON.stringify({ registries: world.registries(), pods: world.pods(), map: map.size }));
    throw error;
  });
  t.same(world.problems, []);
  const there = new Set(world.registries());
  t.same(
    [...world.alive].filter((id) => !there.has(id)),
    [],
    'none is lost',
  );
  t.same(
    [...world.gone].filter((id) => there.has(id)),
    [],
    'none is back',
  );
  for (const id of world.alive) t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200);
  await ask(url, 'DELETE', '/sandboxes?state=running');
  await until(() => world.registries().length === 0 && world.pods().length === 0, 'nothing', SETTLE_MS);
  await until(() => fleet.api.objects.list('leases', 'sandboxd').length === 0, 'no claims');
});
