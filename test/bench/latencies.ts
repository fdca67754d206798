// Latencies that a user sees, in one table: a new daemon, then one sandbox after another.
import { setTimeout as sleep } from 'node:timers/promises';
import { isChecksummed, readManifest } from '../../host-agent/src/sandboxes/saved/manifest.ts';
import { type Daemon, makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';
import { PlainClient } from './plain-client.ts';
import { cpuMs, cpuWithChildrenMs, parseSmaps, smaps } from './processes.ts';
import { settle } from './settled.ts';
import { median, type Section, spread } from './stats.ts';

const FIRST_EXECS = 15;
const EXECS = 200;
/** The median is that of the last ones. */
const WARM_EXECS = 40;
const CHILDREN = 8;
const TRUE = Buffer.from(JSON.stringify({ cmd: ['true'] }));

/** The table's rows in order: name, and values in ms or MiB. */
type Values = ReturnType<typeof noValues>;

const noValues = () => ({
  start: [] as number[],
  firstCreate: [] as number[],
  nextCreate: [] as number[],
  nextExec: [] as number[],
  createCpu: [] as number[],
  create: [] as number[],
  cold: [] as number[],
  exec1: [] as number[],
  exec15: [] as number[],
  exec200: [] as number[],
  execCpu: [] as number[],
  snapshot: [] as number[],
  paused: [] as number[],
  checksums: [] as number[],
  fork1: [] as number[],
  fork8: [] as number[],
  pss: [] as number[],
  remove: [] as number[],
  used: [] as number[],
  agent: [] as number[],
});

async function timed<T>(into: number[], work: () => Promise<T>, parts = 1): Promise<T> {
  const startedAt = performance.now();
  const result = await work();
  into.push((performance.now() - startedAt) / parts);
  return result;
}

export async function benchLatencies(rounds: number): Promise<Section> {
  const values = noValues();
  for (let round = 0; round < rounds; round++) {
    const directories = await makeDirectories();
    const daemon = await timed(values.start, () => spawnDaemon(directories));
    try {
      const first = await timed(values.firstCreate, () => daemon.api.create());
      await daemon.api.delete(first.id);
      const next = await timed(values.nextCreate, () => daemon.api.create());
      await timed(values.nextExec, () => daemon.api.sh(next.id, 'true'));
      await daemon.api.delete(next.id);
      await settle(daemon);
      await createCpu(daemon, values);
      await life(daemon, values);
    } finally {
      await daemon.end();
      await removeDirectories(directories);
    }
  }
  return section(rounds, values);
}

/** CPU time is counted in ticks of 10 ms, so one create alone cannot be measured. */
async function createCpu({ api, pid }: Daemon, values: Values): Promise<void> {
  const before = await cpuWithChildrenMs(pid);
  const ids: string[] = [];
  for (let n = 0; n < CHILDREN; n++) ids.push((await api.create()).id);
  // Before their deletes, with which the VMMs' own time counts as the daemon's.
  values.createCpu.push(((await cpuWithChildrenMs(pid)) - before) / CHILDREN);
  for (const id of ids) await api.delete(id);
}

async function life(daemon: Daemon, values: Values): Promise<void> {
  const { api } = daemon;
  const { id } = await timed(values.create, () => api.create());
  await execs(daemon, id, values);
  values.agent.push(parseSmaps(await api.sh(id, 'cat /proc/1/smaps_rollup')).pssMib);
  values.used.push(Number(await api.sh(id, USED_KIB)) / 1024);
  const taken = await timed(values.snapshot, () =>
    api.call<{ id: string; dir: string }>('POST', `/sandboxes/${id}/snapshot`),
  );
  // Checksums are computed in the background after the response, and would compete with the first fork.
  await timed(values.checksums, async () => {
    while (!isChecksummed(await readManifest(taken.dir))) await sleep(10);
  });
  values.paused.push(Number(daemon.log.findLast(({ msg }) => msg === 'snapshot taken')?.pausedMs));
  const fork = async (count: number) => {
    const path = `/snapshots/${taken.id}/fork?count=${count}`;
    return (await api.call<{ sandboxes: { id: string }[] }>('POST', path)).sandboxes.map((child) => child.id);
  };
  const one = await timed(values.fork1, () => fork(1));
  const children = [...one, ...(await timed(values.fork8, () => fork(CHILDREN), CHILDREN))];
  await sleep(scaled(5000));
  for (const child of children) values.pss.push((await smaps((await vmmPids(child))[0] ?? 0)).pssMib);
  for (const child of children) await api.delete(child);
  await api.call('DELETE', `/snapshots/${taken.id}`);
  await timed(values.remove, () => api.delete(id));
  // A boot argument forces a cold boot.
  const booted = await timed(values.cold, () => api.create({ boot_args: 'bench=1' }));
  await api.delete(booted.id);
}

const USED_KIB = `awk '/^MemTotal/ {total = $2} /^MemAvailable/ {print total - $2}' /proc/meminfo`;

async function execs({ url, pid }: Daemon, id: string, values: Values): Promise<void> {
  using client = new PlainClient(url);
  const times: number[] = [];
  let cpuBefore = 0;
  for (let n = 0; n < EXECS; n++) {
    if (n === EXECS - WARM_EXECS) cpuBefore = await cpuMs([pid]);
    times.push((await client.request('POST', `/sandboxes/${id}/exec`, TRUE)).ms);
  }
  values.execCpu.push(((await cpuMs([pid])) - cpuBefore) / WARM_EXECS);
  values.exec1.push(times[0] ?? Number.NaN);
  values.exec15.push(median(times.slice(1, FIRST_EXECS)));
  values.exec200.push(median(times.slice(-WARM_EXECS)));
}

function section(rounds: number, values: Values): Section {
  const ms = (of: number[]) => spread(of, of.every((value) => value < 100) ? 1 : 0, 'ms');
  const mib = (of: number[]) => spread(of, 1, 'MiB');
  return {
    title: 'At a glance',
    note: `${rounds} rounds of a life, each on a daemon and data directory of its own: 1 vCPU, 512 MiB, the profile \`base\`. Settled: all templates and their checksums are made.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['daemon start, until it serves', ms(values.start)],
      ['very first create', ms(values.firstCreate)],
      ['create right after it, while templates are made', ms(values.nextCreate)],
      ['first exec in that one', ms(values.nextExec)],
      ['**create → 201**, settled', ms(values.create)],
      ['of that: CPU of the daemon and its helpers, without the VMM', ms(values.createCpu)],
      ['create that has to boot', ms(values.cold)],
      ['exec of `true`: the first of a sandbox', ms(values.exec1)],
      [`the second to the ${FIRST_EXECS}th, median`, ms(values.exec15)],
      [`the last ${WARM_EXECS} of ${EXECS}, median`, ms(values.exec200)],
      ['of that: CPU of the daemon', ms(values.execCpu)],
      ['snapshot request', ms(values.snapshot)],
      ['of that: the source is paused', ms(values.paused)],
      ['checksums of its files, in the background', ms(values.checksums)],
      ['fork × 1', ms(values.fork1)],
      [`fork × ${CHILDREN}, per child`, ms(values.fork8)],
      ['PSS of an idle fork', mib(values.pss)],
      ['memory used in a guest that ran those commands', mib(values.used)],
      ['of that: PSS of the agent', mib(values.agent)],
      ['delete', ms(values.remove)],
    ],
  };
}
