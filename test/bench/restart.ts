// The cost of a restart with running sandboxes, and the REST interface's performance with many of them.
import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import type { Daemon } from '../support/daemon.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { quantile, type Section, spread } from './stats.ts';

type RestartScale = {
  readonly rounds: number;
  readonly adopted: number;
  readonly alive: number;
  readonly seconds: number;
};

const KEEP = { onExit: 'keep' } as const;
const CONNECTIONS = 8;
const WARM_UP_REQUESTS = 500;

export async function benchRestart(scale: RestartScale): Promise<Section[]> {
  const directories = await makeDirectories();
  const emptyMs: number[] = [];
  const startMs: number[] = [];
  const adoptMs: number[] = [];
  const usableMs: number[] = [];
  const start = async (): Promise<{ readonly daemon: Daemon; readonly ms: number }> => {
    const startedAt = performance.now();
    const daemon = await spawnDaemon(directories, KEEP);
    return { daemon, ms: performance.now() - startedAt };
  };
  for (let round = 0; round < scale.rounds; round++) {
    const { daemon, ms } = await start();
    emptyMs.push(ms);
    await daemon.end();
  }
  let { daemon } = await start();
  try {
    await createUpTo(daemon, scale.adopted);
    for (let round = 0; round < scale.rounds; round++) {
      await daemon.end('SIGKILL');
      const startedAt = performance.now();
      const next = await start();
      daemon = next.daemon;
      startMs.push(next.ms);
      adoptMs.push(Number(daemon.log.find(({ msg }) => msg === 'sandboxes adopted')?.ms));
      const ids = (await daemon.api.list()).map(({ id }) => id);
      if (ids.length !== scale.adopted) throw new Error(`${ids.length} of ${scale.adopted} were adopted`);
      await Promise.all(ids.map((id) => daemon.api.sh(id, 'true')));
      usableMs.push(performance.now() - startedAt);
    }
    await createUpTo(daemon, scale.alive);
    const [{ id = '' } = {}] = await daemon.api.list();
    const paths = {
      'GET /healthz': '/healthz',
      'GET one sandbox': `/sandboxes/${id}`,
      'GET all sandboxes': '/sandboxes',
    };
    const memory = await readFile(`/proc/${daemon.pid}/smaps_rollup`, 'utf8');
    const loads: string[][] = [];
    for (const [name, path] of Object.entries(paths))
      loads.push([name, ...(await load(daemon, path, scale.seconds))]);
    return [
      restartSection(scale, { emptyMs, startMs, adoptMs, usableMs }),
      loadSection(scale, loads, memory),
    ];
  } finally {
    await daemon.end();
    // Destroys running sandboxes too.
    await (await spawnDaemon(directories)).end();
    await removeDirectories(directories);
  }
}

async function createUpTo({ api }: Daemon, count: number): Promise<void> {
  let missing = count - (await api.list()).length;
  const work = async (): Promise<void> => {
    while (missing-- > 0) await api.create({ memory_mib: 128 });
  };
  await Promise.all([work(), work(), work()]);
}

/** Requests per second, then median and 99th percentile of their latency. */
async function load(daemon: Daemon, path: string, seconds: number): Promise<string[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const times: number[] = [];
  for (let n = 0; n < WARM_UP_REQUESTS; n++) await get(`${daemon.url}${path}`, agent);
  const endAt = performance.now() + seconds * 1000;
  const work = async (): Promise<void> => {
    while (performance.now() < endAt) {
      const startedAt = performance.now();
      await get(`${daemon.url}${path}`, agent);
      times.push(performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  agent.destroy();
  return [
    (times.length / seconds).toFixed(0),
    `${quantile(times, 0.5).toFixed(2)} ms`,
    `${quantile(times, 0.99).toFixed(2)} ms`,
  ];
}

function get(url: string, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    request(url, { agent }, (response) => {
      response.on('end', () =>
        response.statusCode === 200 ? resolve() : reject(new Error(`${url}: ${response.statusCode}`)),
      );
      response.on('error', reject).resume();
    })
      .on('error', reject)
      .end();
  });
}

type RestartTimes = Readonly<Record<'emptyMs' | 'startMs' | 'adoptMs' | 'usableMs', readonly number[]>>;

function restartSection({ adopted, rounds }: RestartScale, times: RestartTimes): Section {
  return {
    title: `Restart with ${adopted} sandboxes`,
    note: `${rounds} rounds: the daemon is killed with -9 and started again while ${adopted} sandboxes of 128 MiB run. A start boots a throw-away guest to find out which engine works; the baseline is a start without sandboxes.`,
    head: ['step', 'median (min–max)'],
    rows: [
      ['start without sandboxes, until it serves', spread(times.emptyMs, 0, 'ms')],
      [`start with ${adopted} sandboxes, until it serves`, spread(times.startMs, 0, 'ms')],
      [`of that: adopting ${adopted} sandboxes, agents’ answers included`, spread(times.adoptMs, 0, 'ms')],
      [`start until a command ran in each of the ${adopted}`, spread(times.usableMs, 0, 'ms')],
    ],
  };
}

function loadSection({ alive, seconds }: RestartScale, rows: readonly string[][], smaps: string): Section {
  const mib = (field: string): string =>
    `${(Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(smaps)?.[1]) / 1024).toFixed(0)} MiB`;
  return {
    title: `Control plane with ${alive} sandboxes`,
    note: `${CONNECTIONS} connections for ${seconds} s each, client on the same machine, ${alive} idle sandboxes alive. Before that load the daemon has ${mib('Rss')} RSS, ${mib('Pss')} PSS, ${mib('Anonymous')} anonymous.`,
    head: ['request', 'a second', 'median', 'p99'],
    rows,
  };
}
