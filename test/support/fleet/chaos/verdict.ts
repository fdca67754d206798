// What has to be so when everything answers again: no sandbox is lost or twice, and nothing is left of deleted ones.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openTestStore } from '../../s3/store.ts';
import { scaled } from '../../time-scale.ts';
import { until } from '../../until.ts';
import { ask } from '../fleet.ts';
import type { Load } from './load.ts';
import { type Gateway, idOf, type World } from './world.ts';

/** Retries wait for a minute at most, those of uploads for five. */
const SETTLE_MS = 400_000;
const MAX_ROUNDS = 30;
const STATES = ['running', 'paused', 'failed'];
const TABLES = ['departures', 'arrivals', 'fleet_places', 'sandboxes', 'snapshots'];
const DAY_MS = 24 * 3_600_000;

const isSame = (a: readonly string[], b: readonly string[]) => [...a].sort().join() === [...b].sort().join();

export async function assertSettled(world: World, load: Load): Promise<void> {
  const { test: t, fleet } = world;
  const idsOf = () => world.registries().map(({ id }) => id);
  const isSettled = () =>
    isSame(idsOf(), world.pods().map(idOf)) &&
    world.gateways.every(({ map }) => map.size === world.pods().length) &&
    [...world.hosts.values()].every(({ daemon }) => daemon.store.table('departures').all().length === 0);
  await settle(world, isSettled, 'registries and catalogues that agree');
  t.same([...world.problems, ...load.ambiguous], []);
  const there = new Set(idsOf());
  t.equal(there.size, idsOf().length, 'none is twice');
  t.same(
    [...load.alive].filter((id) => !there.has(id)),
    [],
    'none is lost',
  );
  t.same(
    [...load.gone].filter((id) => there.has(id)),
    [],
    'none is back',
  );
  t.same(
    world.registries().filter(({ state }) => !['running', 'paused'].includes(state)),
    [],
    'each runs, or is paused',
  );
  for (const { url } of world.gateways)
    for (const id of load.alive) t.equal((await ask(url, 'GET', `/sandboxes/${id}`)).status, 200, id);
  t.equal(fleet.api.objects.list('nodes').filter(({ metadata }) => metadata.name.startsWith('h')).length, 3);
}

export async function assertNothingLeft(world: World, { url }: Gateway): Promise<void> {
  const { test: t, fleet, bucket } = world;
  for (let rounds = 0; world.registries().length > 0 && rounds < MAX_ROUNDS; rounds++) {
    for (const state of STATES) await ask(url, 'DELETE', `/sandboxes?state=${state}`);
    if (world.registries().length > 0) await sleep(scaled(500));
  }
  await settle(world, () => world.registries().length === 0 && world.pods().length === 0, 'nothing');
  await settle(world, () => fleet.api.objects.list('leases', 'sandboxd').length === 0, 'no claims');
  t.same(world.guests(), [], 'no guest runs');
  const records = () =>
    [...world.hosts].flatMap(([name, { daemon }]) =>
      TABLES.flatMap((table) =>
        daemon.store
          .table(table)
          .all()
          .map(({ id }) => `${name} ${table} ${id}`),
      ),
    );
  await settle(world, () => records().length === 0, 'no records').catch(() => t.same(records(), []));
  for (const [name, home] of world.homes())
    for (const dir of [home.runDir, ...['sandboxes', 'snapshots'].map((each) => join(home.dataDir, each))])
      t.same(await filesOf(dir), [], `${dir} of ${name}`);
  const keys = () => [...bucket.s3.objects.keys()].map((key) => key.split('/').slice(1).join('/'));
  t.same(
    keys().filter((key) => /^(?:sandboxes|snapshots)\//.test(key)),
    [],
    'no manifest',
  );
  bucket.s3.age(2 * DAY_MS);
  const { collector } = openTestStore(t, world.settings);
  await collector.collect(new AbortController().signal);
  t.same(
    keys().filter((key) => !key.startsWith('claims/')),
    [],
    'only claims are left in the bucket',
  );
}

async function settle(world: World, isTrue: () => boolean, what: string): Promise<void> {
  await until(isTrue, what, SETTLE_MS).catch((error: unknown) => {
    const { test: t } = world;
    t.comment(`problems: ${[...world.problems].join('; ')}`);
    t.comment(JSON.stringify({ registries: world.registries(), pods: world.pods() }));
    t.comment(JSON.stringify(world.gateways.map(({ map }) => map.size)));
    for (const [name, { daemon }] of world.hosts) {
      t.comment(`${name}: ${JSON.stringify(daemon.store.table('departures').all())}`);
      for (const line of daemon.lines.filter(({ level }) => Number(level) >= 40).slice(-15))
        t.comment(`${name}: ${JSON.stringify(line)}`);
    }
    throw error;
  });
}

/** Of folders that all sandboxes share, what is in them. */
async function filesOf(dir: string): Promise<string[]> {
  const names = await readdir(dir, { recursive: true }).catch((): string[] => []);
  return names.filter((name) => !['idle', 'used'].includes(name));
}
