// The cost of a network for a create and a fork: sandboxes with and without one, alternating; and its throughput.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { SandboxJson } from '../support/api.ts';
import type { Daemon } from '../support/daemon.ts';
import { settle } from './settled.ts';
import { median, type Section, spread } from './stats.ts';

const WITHOUT = {};
const WITH = { network: { enabled: true, allowlist: ['bench.example'] } };
const KINDS = [WITHOUT, WITH] as const;
/** Creates per round: a create is much cheaper than a fork with many copies. */
const PAIRS = 4;

async function timed<T>(work: () => Promise<T>): Promise<[ms: number, result: T]> {
  const startedAt = performance.now();
  const result = await work();
  return [performance.now() - startedAt, result];
}

/** Milliseconds per copy, for a request with `count` copies. */
async function forkOf(daemon: Daemon, snapshot: string, count: number): Promise<number> {
  const { api } = daemon;
  const [ms, { sandboxes }] = await timed(() =>
    api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${snapshot}/fork?count=${count}`),
  );
  for (const { id } of sandboxes) await api.delete(id);
  return ms / count;
}

/** Measured by a program in its own network namespace. */
export async function benchNetworkThroughput(rounds: number): Promise<Section> {
  const program = join(import.meta.dirname, 'network-throughput.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [program], {
    env: { ...process.env, BENCH_ARGUMENTS: String(rounds) },
  });
  return JSON.parse(stdout) as Section;
}

export async function benchNetwork(daemon: Daemon, copies: number, rounds: number): Promise<Section> {
  const { api } = daemon;
  const create: [number[], number[]] = [[], []];
  const fork: [number[], number[]] = [[], []];
  const snapshots: string[] = [];
  for (const kind of KINDS) {
    // Work in the background after a response would be measured too.
    await settle(daemon, kind);
    const { id } = await api.create(kind);
    snapshots.push((await api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`)).id);
    await api.delete(id);
  }
  for (let round = 0; round <= rounds; round++) {
    // Each is first equally often, because the clean-up after a delete slows the next request.
    const turn = <T>(list: readonly T[]): T[] => (round % 2 === 0 ? [...list] : list.toReversed());
    for (let pair = 0; pair < PAIRS; pair++)
      for (const [index, kind] of turn([...KINDS.entries()])) {
        const [ms, { id }] = await timed(() => api.create(kind));
        await api.delete(id);
        if (round > 0) create[index]?.push(ms);
      }
    for (const [index, id] of turn([...snapshots.entries()])) {
      const ms = await forkOf(daemon, id, copies);
      if (round > 0) fork[index]?.push(ms);
    }
  }
  for (const id of snapshots) await api.call('DELETE', `/snapshots/${id}`);
  const ratio = ([without, own]: [number[], number[]]): string =>
    median(own.map((ms, index) => ms / (without[index] ?? Number.NaN))).toFixed(2);
  return {
    title: 'Network',
    note: `${rounds} rounds after one warm-up, with a network and without in turn, the other way round each second time; ${PAIRS} creates of each kind a round. Ratios: medians of the pairs'; to reach: at most 1.25.`,
    head: ['', 'without', 'with a network', 'ratio'],
    rows: [
      ['create', spread(create[0], 0, 'ms'), spread(create[1], 0, 'ms'), `**${ratio(create)}**`],
      [
        `fork × ${copies}, for each copy`,
        spread(fork[0], 0, 'ms'),
        spread(fork[1], 0, 'ms'),
        `**${ratio(fork)}**`,
      ],
    ],
  };
}
