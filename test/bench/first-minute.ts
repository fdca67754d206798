// The first minute of an installation, of several builds in turn: the daemon's start, the very first create, creates
// right behind it, and creates once everything is settled.
// usage: node test/bench/first-minute.ts [--rounds 5] NAME=CHECKOUT… (built and baked there)
import { mkdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
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
type Side = { readonly name: string; readonly checkout: string; readonly results: Record<Row, number[]> };

async function timed<T>(work: () => Promise<T>): Promise<readonly [ms: number, result: T]> {
  const startedAt = performance.now();
  const result = await work();
  return [performance.now() - startedAt, result];
}

async function until(isTrue: () => boolean): Promise<void> {
  await poll(async () => isTrue() || undefined, POLL_MS, AbortSignal.timeout(scaled(SETTLE_TIMEOUT_MS)));
}

const create = async ({ api }: Daemon): Promise<number> => (await timed(() => api.create()))[0];

async function withDaemon(
  { checkout }: Side,
  directories: Directories,
  flags: readonly string[],
  use: (daemon: Daemon) => Promise<void>,
): Promise<number> {
  const program = join(checkout, 'dist', 'sandboxd');
  const [ms, daemon] = await timed(() => spawnDaemon(directories, { program, flags }));
  await use(daemon);
  if ((await daemon.end()) !== 0) throw new Error('the daemon failed');
  return ms;
}

async function measure(side: Side): Promise<void> {
  const { checkout, results } = side;
  const directories = await makeDirectories({ bakedDataDir: join(checkout, '.data'), templates: 'own' });
  const engines = join(directories.dataDir, 'engines');
  await rm(engines);
  await mkdir(engines, { mode: 0o700 });
  const isChosen = ({ log }: Daemon) => log.some(({ msg }) => msg === 'engine chosen');
  results['start, nothing remembered'].push(
    await withDaemon(side, directories, [], (daemon) => until(() => isChosen(daemon))),
  );
  await withDaemon(side, directories, ['--template-disk-bytes', '0'], async (daemon) => {
    results['cold create (no templates)'].push(await create(daemon));
  });
  results['start, remembered'].push(
    await withDaemon(side, directories, [], async (daemon) => {
      results['very first create'].push(await create(daemon));
      for (let n = 0; n < CREATES; n++) results['creates 2 to 6, right behind it'].push(await create(daemon));
      // An older build logs no `isFirst`, and makes no such template.
      const isMade = (name: string) =>
        daemon.log.some(
          ({ msg, rootfs, isFirst }) => msg === 'template made' && rootfs === name && isFirst !== true,
        );
      await until(() => isMade('agent') && isMade('base'));
      await sleep(SETTLE_MS);
      for (let n = 0; n < CREATES; n++) results['settled create'].push(await create(daemon));
    }),
  );
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
const rows = ROWS.map((row) => [row, ...sides.map(({ results }) => spread(results[row], 0, 'ms'))]);
process.stdout.write(`${plainTable(['', ...sides.map(({ name }) => name)], rows)}\n`);
