// CPU time of copies of a template, of several builds in turn: until the answer and after it while they are idle; and
// the latency of many creates at once.
// usage: node test/bench/copies.ts [--rounds 6] [--burst 16] [--bursts 3] NAME=CHECKOUT… (built and baked there)
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  type Daemon,
  type Directories,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../support/daemon.ts';
import { vmmPids } from '../support/vmms.ts';
import { cpuMs, cpuWithChildrenMs } from './processes.ts';
import { settle } from './settled.ts';
import { median, plainTable, quantile, spread } from './stats.ts';

/** Seconds after the answer of a create. */
const AFTER_S = [0.25, 1, 5, 20, 40] as const;
const LAST_S = AFTER_S[AFTER_S.length - 1] ?? 0;

type Side = {
  readonly name: string;
  readonly checkout: string;
  /** CPU of the VMM until the answer, and from there until each of `AFTER_S`, ms; one for each create. */
  readonly untilAnswer: number[];
  readonly after: readonly number[][];
  /** Of the daemon, its helpers and the VMM for a lone create, ms. */
  readonly lone: number[];
  /** p50 and p99 of each burst, ms. */
  readonly bursts: { readonly p50: number; readonly p99: number }[];
};
type Running = { readonly side: Side; readonly daemon: Daemon; readonly directories: Directories };

async function start(side: Side): Promise<Running> {
  const directories = await makeDirectories({ bakedDataDir: join(side.checkout, '.data') });
  const daemon = await spawnDaemon(directories, { program: join(side.checkout, 'dist', 'sandboxd') });
  await settle(daemon);
  return { side, daemon, directories };
}

/** The copy stays idle for as long as it is measured, beside those of the other builds. */
async function measureCopy({ side, daemon: { api, pid } }: Running): Promise<() => Promise<void>> {
  const before = await cpuWithChildrenMs(pid);
  const { id } = await api.create();
  const answeredAt = performance.now();
  const pids = await vmmPids(id);
  const atAnswer = await cpuMs(pids);
  side.untilAnswer.push(atAnswer);
  side.lone.push(atAnswer + (await cpuWithChildrenMs(pid)) - before);
  const watch = async (): Promise<void> => {
    for (const [at, seconds] of AFTER_S.entries()) {
      await sleep(Math.max(0, answeredAt + seconds * 1000 - performance.now()));
      side.after[at]?.push((await cpuMs(pids)) - atAnswer);
    }
    await api.delete(id);
  };
  const watched = watch();
  // So that the first second of no two copies overlaps.
  await sleep(1200);
  return () => watched;
}

async function measureBurst({ side, daemon: { api } }: Running, count: number): Promise<void> {
  const startedAt = performance.now();
  const all = await Promise.all(
    Array.from({ length: count }, async () => {
      const { id } = await api.create();
      return { id, ms: performance.now() - startedAt };
    }),
  );
  const times = all.map(({ ms }) => ms);
  side.bursts.push({ p50: median(times), p99: quantile(times, 0.99) });
  for (const { id } of all) await api.delete(id);
}

const { values, positionals } = parseArgs({
  options: {
    rounds: { type: 'string', default: '6' },
    burst: { type: 'string', default: '16' },
    bursts: { type: 'string', default: '3' },
  },
  allowPositionals: true,
});
const count = Number(values.burst);
const sides = positionals.map((text): Side => {
  const [name = '', checkout = '.'] = text.split('=');
  const after = AFTER_S.map((): number[] => []);
  return { name, checkout: resolve(checkout), untilAnswer: [], after, lone: [], bursts: [] };
});
const running: Running[] = [];
try {
  for (const side of sides) running.push(await start(side));
  for (let round = 0; round < Number(values.rounds); round++) {
    const watches: (() => Promise<void>)[] = [];
    for (let n = 0; n < running.length; n++) {
      const one = running[(n + round) % running.length];
      if (one !== undefined) watches.push(await measureCopy(one));
    }
    await Promise.all(watches.map((watched) => watched()));
  }
  for (let round = 0; round < Number(values.bursts); round++)
    for (const one of running) await measureBurst(one, count);
} finally {
  for (const { daemon, directories } of running) {
    await daemon.end();
    await removeDirectories(directories);
  }
}

const ratio = ({ untilAnswer, after }: Side, at: number): number[] =>
  untilAnswer.map((ms, n) => (ms + (after[at]?.[n] ?? Number.NaN)) / ms);
const twenty = AFTER_S.indexOf(20);
const rows = [
  ['VMM’s CPU until the answer', ...sides.map(({ untilAnswer }) => spread(untilAnswer, 0, 'ms'))],
  ...AFTER_S.map((seconds, at) => [
    `… from there to ${seconds} s`,
    ...sides.map(({ after }) => spread(after[at] ?? [], 0, 'ms')),
  ]),
  ['sum after 20 s ÷ until the answer', ...sides.map((side) => spread(ratio(side, twenty), 2, ''))],
  ['CPU of a lone create, daemon included', ...sides.map(({ lone }) => spread(lone, 0, 'ms'))],
  ...(Number(values.bursts) === 0
    ? []
    : [
        [
          `${count} at once: p50`,
          ...sides.map(({ bursts }) =>
            spread(
              bursts.map(({ p50 }) => p50),
              0,
              'ms',
            ),
          ),
        ],
        [
          `${count} at once: p99`,
          ...sides.map(({ bursts }) =>
            spread(
              bursts.map(({ p99 }) => p99),
              0,
              'ms',
            ),
          ),
        ],
        [
          `p99 ÷ CPU of ${count} lone ones`,
          ...sides.map(({ bursts, lone }) =>
            spread(
              bursts.map(({ p99 }) => p99 / (count * median(lone))),
              2,
              '',
            ),
          ),
        ],
      ]),
];
process.stdout.write(`${plainTable([`idle for ${LAST_S} s`, ...sides.map(({ name }) => name)], rows)}\n`);
process.exit(0);
