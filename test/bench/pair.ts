// Compares builds, or settings of one build, by alternating them: A B A B … on one machine, whose speed varies over
// minutes. usage: node test/bench/pair.ts [--rounds 9] [--measures stdout,pull-disk] SIDE SIDE… A side is a name and
// its settings, separated by `;`: checkout=DIR (built and baked there), env=NAME=VALUE of its daemon, args=TEXT of its
// sandbox's kernel command line. Ratios compare each side with the first, pair by pair; above 1 means faster. A run
// ends after --rounds, or after the round in which --seconds have passed.
import { readdir, readFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
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
import { makeTar } from '../support/files.ts';
import { vmmPids } from '../support/vmms.ts';
import { PlainClient } from './plain-client.ts';
import { cpuMs, cpuWithChildrenMs } from './processes.ts';
import { settle } from './settled.ts';
import { median, plainTable, spread } from './stats.ts';
import { installStdio, stdinRate, stdoutRate, writer } from './throughput.ts';

const MIB = 2 ** 20;
const SIZE_MIB = 64;
const ROOT = resolve(import.meta.dirname, '../..');
const DIR = '/bench-pair';
const EXECS = 20;
const FORKS = 4;
const CREATES = 10;

type Side = {
  readonly name: string;
  readonly checkout: string;
  readonly env: Readonly<Record<string, string>>;
  readonly args: string;
};

type Running = { readonly side: Side; readonly daemon: Daemon; readonly id: string; readonly vmm: number };

/**
 * Returns MiB/s, operations per second, or guests per GiB. `others` gets the CPU time in ms of VMMs that exited
 * before.
 */
type Measure = (running: Running, others: number[]) => Promise<number>;

function parseSide(text: string): Side {
  const [name = '', ...settings] = text.split(';');
  const side = { name, checkout: ROOT, env: {} as Record<string, string>, args: 'bench=1' };
  for (const setting of settings) {
    const [, key, value = ''] = /^(\w+)=(.*)$/s.exec(setting) ?? [];
    if (key === 'checkout') side.checkout = resolve(value);
    else if (key === 'args') side.args = value;
    else if (key === 'env')
      side.env[value.slice(0, value.indexOf('='))] = value.slice(value.indexOf('=') + 1);
    else throw new Error(`${setting}: a side has checkout=, env= and args=`);
  }
  return side;
}

async function rate(work: () => Promise<unknown>, amount = SIZE_MIB): Promise<number> {
  const startedAt = performance.now();
  await work();
  return amount / ((performance.now() - startedAt) / 1000);
}

const archive = await makeTar([{ name: 'large', content: Buffer.alloc(SIZE_MIB * MIB, 'large ') }]);

async function push({ daemon, id }: Running, path: string): Promise<void> {
  using client = new PlainClient(daemon.url);
  const { status, tail } = await client.request('POST', `/sandboxes/${id}/files?path=${path}`, archive);
  if (status !== 200) throw new Error(`push: ${status} ${tail}`);
}

async function pull({ daemon, id }: Running, path: string): Promise<void> {
  using client = new PlainClient(daemon.url);
  const target = `/sandboxes/${id}/files?path=${path}&max_bytes=${2 ** 40}`;
  const { status, wireBytes } = await client.request('GET', target, Buffer.alloc(0));
  if (status !== 200 || wireBytes < SIZE_MIB * MIB) throw new Error(`pull: ${status}, ${wireBytes} bytes`);
}

/** Drops the page cache of earlier rounds. */
const forget = ({ daemon, id }: Running): Promise<string> =>
  daemon.api.sh(id, 'sync; echo 1 > /proc/sys/vm/drop_caches');

async function execs({ daemon, id }: Running): Promise<void> {
  using client = new PlainClient(daemon.url);
  const body = Buffer.from(JSON.stringify({ cmd: ['true'] }));
  for (let n = 0; n < EXECS; n++) await client.request('POST', `/sandboxes/${id}/exec`, body);
}

const MEASURES: Readonly<Record<string, Measure>> = {
  stdout: ({ daemon, id }) => stdoutRate(daemon, id, SIZE_MIB, writer(SIZE_MIB)),
  stdin: ({ daemon, id }) => stdinRate(daemon, id, SIZE_MIB),
  'push-disk': async (running) => {
    await running.daemon.api.sh(running.id, `rm -rf ${DIR}/disk`);
    return rate(() => push(running, `${DIR}/disk`));
  },
  'push-tmpfs': async (running) => {
    await running.daemon.api.sh(running.id, `rm -rf ${DIR}/ram/*`);
    return rate(() => push(running, `${DIR}/ram`));
  },
  'pull-disk': async (running) => {
    await forget(running);
    return rate(() => pull(running, `${DIR}/kept/large`));
  },
  'pull-tmpfs': (running) => rate(() => pull(running, `${DIR}/ram/large`)),
  exec: (running) => rate(() => execs(running), EXECS),
  create: ({ daemon }, others) => made(others, daemon, async () => [(await daemon.api.create()).id]),
  boot: ({ daemon, side }, others) =>
    made(others, daemon, async () => [(await daemon.api.create({ boot_args: side.args })).id]),
  /** Creates per second of CPU of the daemon and its helpers. */
  'create-cpu': async ({ daemon: { api, pid } }) => {
    const before = await cpuWithChildrenMs(pid);
    const ids: string[] = [];
    for (let n = 0; n < CREATES; n++) ids.push((await api.create()).id);
    // Before their deletes, with which the VMMs' own time counts as the daemon's.
    const ms = (await cpuWithChildrenMs(pid)) - before;
    for (const id of ids) await api.delete(id);
    return CREATES / (ms / 1000);
  },
  fork: async ({ daemon, id }, others) => {
    const snapshot = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
    const path = `/snapshots/${snapshot.id}/fork?count=${FORKS}`;
    const forks = await made(others, daemon, async () => {
      const { sandboxes } = await daemon.api.call<{ sandboxes: { id: string }[] }>('POST', path);
      return sandboxes.map((fork) => fork.id);
    });
    await daemon.api.call('DELETE', `/snapshots/${snapshot.id}`);
    return forks;
  },
  snapshot: async ({ daemon, id }) => {
    let taken = '';
    const perS = await rate(async () => {
      taken = (await daemon.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`)).id;
    }, 1);
    await daemon.api.call('DELETE', `/snapshots/${taken}`);
    return perS;
  },
  /** Snapshot of a copy, as most sandboxes are; and the inverse of the pause in seconds. */
  'snapshot-copy': async ({ daemon }) => (await snapshotOfCopy(daemon)).requests,
  'pause-copy': async ({ daemon }) => (await snapshotOfCopy(daemon)).pauses,
  /** Delete of a used sandbox. */
  delete: async ({ daemon }) => {
    const { id } = await daemon.api.create();
    await daemon.api.sh(id, 'head -c 20000000 /dev/urandom > /root/kept');
    return rate(() => daemon.api.delete(id), 1);
  },
  /** How many guests' private memory fits in a GiB: for idle copies of a template, and of a snapshot. */
  'idle-copy': async ({ daemon }, others) => {
    const { id } = await daemon.api.create();
    return idle(daemon, id, others);
  },
  'idle-fork': async ({ daemon, id }, others) => {
    const snapshot = await daemon.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
    const { sandboxes } = await daemon.api.call<{ sandboxes: { id: string }[] }>(
      'POST',
      `/snapshots/${snapshot.id}/fork`,
    );
    await daemon.api.call('DELETE', `/snapshots/${snapshot.id}`);
    return idle(daemon, sandboxes[0]?.id ?? '', others);
  },
  /** The first execs of a sandbox. */
  'first-execs': async (running, others) => {
    const { id } = await running.daemon.api.create();
    const execsPerS = await rate(() => execs({ ...running, id }), EXECS);
    others.push(await cpuMs(await vmmPids(id)));
    await running.daemon.api.delete(id);
    return execsPerS;
  },
};

/** Measures whose rate does not count bytes. */
const COUNTED = [
  'exec',
  'first-execs',
  'create',
  'create-cpu',
  'delete',
  'boot',
  'fork',
  'snapshot',
  'snapshot-copy',
  'pause-copy',
];
/** Measures in guests per GiB. */
const FITTING = ['idle-copy', 'idle-fork'];
/** After this time, a copy has finished its own work. */
const IDLE_MS = 10_000;

/** Sandboxes per second; they are deleted afterwards. */
async function made(others: number[], { api }: Daemon, make: () => Promise<string[]>): Promise<number> {
  const startedAt = performance.now();
  const ids = await make();
  const seconds = (performance.now() - startedAt) / 1000;
  const pids = await Promise.all(ids.map(async (id) => (await vmmPids(id))[0] ?? 0));
  others.push(await cpuMs(pids));
  for (const id of ids) await api.delete(id);
  return ids.length / seconds;
}

/** Guest memory written by the VMM: the largest of its mappings by far. The sandbox is deleted afterwards. */
async function idle({ api }: Daemon, id: string, others: number[]): Promise<number> {
  await sleep(IDLE_MS);
  const pids = await vmmPids(id);
  const text = await readFile(`/proc/${pids[0]}/smaps`, 'utf8');
  others.push(await cpuMs(pids));
  await api.delete(id);
  const sizes = [...text.matchAll(/^Size:\s+(\d+) kB[\s\S]*?^Anonymous:\s+(\d+) kB/gm)].map((match) =>
    match.slice(1).map(Number),
  );
  const [, ownKib = 0] = sizes.sort(([a = 0], [b = 0]) => b - a)[0] ?? [];
  return 2 ** 20 / ownKib;
}

async function snapshotOfCopy(daemon: Daemon): Promise<{ requests: number; pauses: number }> {
  const { api } = daemon;
  const { id } = await api.create();
  await api.sh(id, 'head -c 20000000 /dev/urandom > /dev/shm/kept');
  let taken = '';
  const requests = await rate(async () => {
    taken = (await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`)).id;
  }, 1);
  const pauses = 1000 / Number(daemon.log.findLast(({ msg }) => msg === 'snapshot taken')?.pausedMs);
  await api.call('DELETE', `/snapshots/${taken}`);
  await api.delete(id);
  return { requests, pauses };
}

const { values, positionals } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    measures: { type: 'string' },
    seconds: { type: 'string', default: '150' },
  },
  allowPositionals: true,
});
const sides = positionals.map(parseSide);
const names = values.measures?.split(',') ?? Object.keys(MEASURES);
const measures = names.map((name) => {
  const measure = MEASURES[name];
  if (measure === undefined) throw new Error(`${name}: the measures are ${Object.keys(MEASURES).join(', ')}`);
  return { name, measure, rates: sides.map((): number[] => []), cpu: sides.map((): number[] => []) };
});

/** Sides without a difference in the daemon share one. */
const daemons = new Map<string, { readonly daemon: Daemon; readonly directories: Directories }>();
async function daemonFor({ checkout, env }: Side): Promise<Daemon> {
  const key = JSON.stringify([checkout, env]);
  const known = daemons.get(key);
  if (known !== undefined) return known.daemon;
  const directories = await makeDirectories({ bakedDataDir: join(checkout, '.data') });
  const daemon = await spawnDaemon(directories, {
    directories,
    env,
    program: join(checkout, 'dist/sandboxd'),
  });
  daemons.set(key, { daemon, directories });
  return daemon;
}

function print(): void {
  console.log(`${measures[0]?.rates[0]?.length} rounds`);
  const rows = measures.flatMap(({ name, rates, cpu }) =>
    rates.map((own, at) => {
      const ratios = own.map((value, n) => value / (rates[0]?.[n] ?? Number.NaN));
      const unit = COUNTED.includes(name) ? '/s' : FITTING.includes(name) ? '/GiB' : 'MiB/s';
      const digits = unit === '/s' ? 3 : 0;
      return [
        name,
        sides[at]?.name ?? '',
        spread(own, digits, unit),
        `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`,
        spread(cpu[at] ?? [], 0, 'ms'),
        median((cpu[at] ?? []).map((value, n) => (cpu[0]?.[n] ?? Number.NaN) / value)).toFixed(2),
      ];
    }),
  );
  console.log(plainTable(['measure', 'side', 'median (min–max)', '÷ first', 'CPU', 'CPU of first ÷'], rows));
}
process.once('SIGTERM', () => {
  print();
  void Promise.all([...daemons.values()].map(({ daemon }) => daemon.end())).finally(() => process.exit(1));
});

try {
  const running: Running[] = [];
  for (const side of sides) {
    const daemon = await daemonFor(side);
    const { id } = await daemon.api.create({ boot_args: side.args });
    await settle(daemon);
    running.push({ side, daemon, id, vmm: (await vmmPids(id))[0] ?? 0 });
    await daemon.api.sh(id, `mkdir -p ${DIR}/ram && mount -t tmpfs -o size=${SIZE_MIB + 16}m t ${DIR}/ram`);
    await installStdio(daemon, id);
    // Gives the threads of its programs priority over other work of this machine.
    for (const pid of [daemon.pid, (await vmmPids(id))[0] ?? 0])
      for (const task of await readdir(`/proc/${pid}/task`)) setPriority(Number(task), -15);
    process.stderr.write(`${side.name} is up after ${(performance.now() / 1000).toFixed(0)} s\n`);
  }
  for (const one of running) {
    if (names.some((name) => name === 'pull-tmpfs')) await push(one, `${DIR}/ram`);
    if (names.some((name) => name === 'pull-disk')) await push(one, `${DIR}/kept`);
    for (const { measure } of measures) await measure(one, []);
  }
  const endAt = performance.now() + Number(values.seconds) * 1000;
  for (let round = 0; round < Number(values.rounds) && performance.now() < endAt; round++) {
    for (const { measure, rates, cpu } of measures) {
      // The first side changes from round to round.
      for (let n = 0; n < running.length; n++) {
        const at = (n + round) % running.length;
        const one = running[at];
        if (one === undefined) continue;
        const pids = [one.daemon.pid, one.vmm];
        const before = await cpuMs(pids);
        const others: number[] = [];
        rates[at]?.push(await measure(one, others));
        cpu[at]?.push((await cpuMs(pids)) - before + others.reduce((sum, ms) => sum + ms, 0));
      }
    }
  }
  print();
} finally {
  for (const { daemon, directories } of daemons.values()) {
    await daemon.end();
    await removeDirectories(directories);
  }
}
process.exit(0);
