// The first minute of an installation, of several builds in turn: the daemon's start, the very first create, creates
// right behind it, and creates once everything is settled.
// usage: node test/bench/first-minute.ts [--rounds 5] NAME=CHECKOUT… (built and baked there)
import { mkdir, readFile, rm } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { ensureAgentImage, resolveKernel } from '@sandboxd/rootfs-builder';
import { poll } from '../../host-agent/src/lib/wait.ts';
import {
  type Daemon,
  type Directories,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { plainTable, spread } from './stats.ts';

/** Creates right behind the very first one, and as many settled ones. */
const CREATES = 5;
const SETTLE_MS = 5000;
const SETTLE_TIMEOUT_MS = 600_000;
/** Rarely: the measured daemon shares the CPU, and the whole log is parsed each time. */
const POLL_MS = 100;
const ROWS = [
  'start, nothing remembered',
  'start, remembered',
  'cold create (no templates)',
  'very first create',
  'creates 2 to 6, right behind it',
  'settled create',
] as const;
type Row = (typeof ROWS)[number];
/** Of one step: `busyMs` is the CPU time of all of the machine, for one that does nothing else. */
type Result = { readonly ms: number; readonly busyMs: number };
type Side = { readonly name: string; readonly checkout: string; readonly results: Record<Row, Result[]> };

/** Linux counts in ticks of this length. */
const TICK_MS = 10;

/** CPU time of the machine without idle time, of all CPUs together. */
async function readBusyMs(): Promise<number> {
  const [line = ''] = (await readFile('/proc/stat', 'latin1')).split('\n', 1);
  const [user = 0, nice = 0, system = 0] = line.split(/ +/).slice(1).map(Number);
  return (user + nice + system) * TICK_MS;
}

async function timed<T>(side: Side, row: Row, work: () => Promise<T>): Promise<T> {
  const [startedAt, busyAt] = [performance.now(), await readBusyMs()];
  const result = await work();
  const ms = performance.now() - startedAt;
  const busyMs = (await readBusyMs()) - busyAt;
  side.results[row].push({ ms, busyMs });
  const load = loadavg()[0]?.toFixed(1);
  process.stderr.write(`${side.name}: ${row}: ${ms.toFixed(0)} ms, CPU ${busyMs} ms, load ${load}\n`);
  return result;
}

async function until(isTrue: () => boolean): Promise<void> {
  await poll(async () => isTrue() || undefined, POLL_MS, AbortSignal.timeout(scaled(SETTLE_TIMEOUT_MS)));
}

async function withDaemon(
  side: Side,
  row: Row | undefined,
  directories: Directories,
  flags: readonly string[],
  use: (daemon: Daemon) => Promise<void>,
): Promise<void> {
  const program = join(side.checkout, 'dist', 'sandboxd');
  const start = () => spawnDaemon(directories, { program, flags });
  const daemon = await (row === undefined ? start() : timed(side, row, start));
  await use(daemon);
  if ((await daemon.end()) !== 0) throw new Error('the daemon failed');
}

async function measure(side: Side): Promise<void> {
  const { checkout } = side;
  const dataDir = join(checkout, '.data');
  // A daemon makes it in the background after its start; a newcomer's first create comes later.
  await ensureAgentImage(dataDir, join(checkout, 'dist/agent'), await resolveKernel(dataDir, {}));
  const directories = await makeDirectories({ bakedDataDir: dataDir, templates: 'own' });
  const engines = join(directories.dataDir, 'engines');
  await rm(engines);
  await mkdir(engines, { mode: 0o700 });
  const isChosen = ({ log }: Daemon) => log.some(({ msg }) => msg === 'engine chosen');
  const create = (row: Row, { api }: Daemon) => timed(side, row, () => api.create());
  await withDaemon(side, 'start, nothing remembered', directories, [], (daemon) =>
    until(() => isChosen(daemon)),
  );
  await withDaemon(side, undefined, directories, ['--template-disk-bytes', '0'], async (daemon) => {
    await create('cold create (no templates)', daemon);
  });
  await withDaemon(side, 'start, remembered', directories, [], async (daemon) => {
    await create('very first create', daemon);
    for (let n = 0; n < CREATES; n++) await create('creates 2 to 6, right behind it', daemon);
    // An older build logs no `isFirst`, and makes no such template.
    const isMade = (name: string) =>
      daemon.log.some(
        ({ msg, rootfs, isFirst }) => msg === 'template made' && rootfs === name && isFirst !== true,
      );
    await until(() => isMade('agent') && isMade('base'));
    await sleep(SETTLE_MS);
    for (let n = 0; n < CREATES; n++) await create('settled create', daemon);
  });
  await removeDirectories(directories);
}

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '5' } },
  allowPositionals: true,
});
const sides = positionals.map((text): Side => {
  const [name = '', checkout = '.'] = text.split('=');
  const results = Object.fromEntries(ROWS.map((row) => [row, []])) as unknown as Side['results'];
  return { name, checkout: resolve(checkout), results };
});
for (let round = 0; round < Number(values.rounds); round++) for (const side of sides) await measure(side);
for (const [what, key] of [
  ['time', 'ms'],
  ['CPU time of the machine', 'busyMs'],
] as const) {
  const cells = (row: Row) =>
    sides.map(({ results }) => {
      const values = results[row].map((result) => result[key]);
      return spread(values, 0, 'ms');
    });
  const rows = ROWS.map((row) => [row, ...cells(row)]);
  process.stdout.write(`${plainTable([what, ...sides.map(({ name }) => name)], rows)}\n`);
}
