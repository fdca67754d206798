// What a daemon does with thousands of sandboxes, with an engine in memory that takes 20 ms for a start: creates,
// lists, events, metrics, a restart, deletes, and the delay of the event loop meanwhile. The client is a process of its
// own. usage: [COUNT=5000] [CONCURRENCY=64] node test/bench/wide.ts
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import type { Test } from 'tap';
import { Metrics } from '../../host-agent/src/metrics/metrics.ts';
import { measureSandboxes } from '../../host-agent/src/sandboxes/metrics.ts';
import { serve } from '../http/support.ts';
import { type Home, makeHome, startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { markdownTable, quantile } from './stats.ts';
import type { Timed } from './wide-client.ts';

const COUNT = Number(process.env.COUNT ?? 5000);
const START_MS = 20;
const TIB = 2 ** 40;
/** What one start may still be doing when the next begins; a daemon has the same limit. */
const STARTS = Number(process.env.STARTS ?? 64);

class Remote {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  constructor(url: string) {
    this.#child = spawn(process.execPath, [join(import.meta.dirname, 'wide-client.ts'), url], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    if (this.#child.stdout === null) throw new Error('no output');
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async order(name: string, count: number): Promise<Timed> {
    this.#child.stdin?.write(`${name} ${count}\n`);
    const { value } = await this.#answers.next();
    return JSON.parse(value) as Timed;
  }

  end(): void {
    this.#child.stdin?.end();
  }
}

/** In place of a test's: node-tap follows every promise of its process, which a daemon does not. */
const ends: (() => unknown)[] = [];
const t = {
  teardown: (end: () => unknown) => void ends.push(end),
  setTimeout: () => undefined,
} as unknown as Test;

const rows: string[][] = [];
const ms = (value: number): string => value.toFixed(value < 10 ? 1 : 0);

/** One line of the table: what was asked, and the delay of the daemon's loop meanwhile. */
async function record(remote: Remote, title: string, order: string, count: number): Promise<Timed> {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const before = process.cpuUsage();
  const result = await remote.order(order, count);
  const { user, system } = process.cpuUsage(before);
  delay.disable();
  const [p50, p99] = [0.5, 0.99].map((each) => ms(quantile(result.times, each)));
  rows.push([
    title,
    `${Math.round((count / result.ms) * 1000)}/s`,
    ms((user + system) / 1000 / count),
    p50 ?? '',
    p99 ?? '',
    ms(delay.percentile(99) / 1e6),
    ms(delay.max / 1e6),
  ]);
  console.error(rows.at(-1)?.join(' | '));
  return result;
}

async function open(home: Home) {
  const startedAt = performance.now();
  const before = process.cpuUsage();
  const readCapacity = async () => ({
    memoryTotalBytes: 4 * TIB,
    memoryAvailableBytes: 4 * TIB,
    diskFreeBytes: 64 * TIB,
  });
  const daemon = await startMemoryDaemon(t, {
    bootTimeoutMs: 600_000,
    home,
    limits: { vcpus: 64, memoryMib: 65_536, diskBytes: TIB, sandboxes: 2 * COUNT, fork: 64 },
    logLevel: 'info',
    maxConcurrentStarts: STARTS,
    readCapacity,
  });
  const startMs = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(before);
  const startCpuMs = (user + system) / 1000;
  const metrics = new Metrics();
  measureSandboxes(metrics, { source: daemon.manager.metricsSource, top: 20, readCapacity });
  const { url, server } = await serve(t, {
    ...{ sandboxes: daemon.manager, events: daemon.journal, metrics },
    log: pino({ level: 'silent' }),
    areAnswersChecked: false,
  });
  return { ...daemon, url, server, startMs, startCpuMs };
}

async function measure(): Promise<void> {
  const home = await makeHome(t);
  home.host.onBoot = () => sleep(START_MS);
  home.host.onRestore = () => sleep(START_MS);
  const first = await open(home);
  const remote = new Remote(first.url);
  const step = Math.max(1, Math.floor(COUNT / 5));
  await remote.order('create', 1);
  await remote.order('mark', 0);
  for (let made = 0; made < COUNT; made += step)
    await record(remote, `create, ${made} are there`, 'create', Math.min(step, COUNT - made));
  await record(remote, 'get one', 'get', 2000);
  await record(remote, 'list all, page by page', 'list', 20);
  await record(remote, 'list 10 of a label', 'filter', 200);
  await record(remote, 'metrics', 'metrics', 20);
  await record(remote, 'events of all creates', 'events', COUNT);
  remote.end();
  await first.server.close();
  await first.crash();
  const second = await open(home);
  const adopted = second.manager.list().length;
  if (adopted !== COUNT + 1)
    throw new Error(`${adopted} of ${COUNT + 1} sandboxes are there after the start`);
  console.error(`start with ${COUNT + 1} sandboxes: ${second.startMs.toFixed(0)} ms`);
  rows.push([
    'start, and adoption of all',
    `${ms(second.startMs)} ms`,
    ms(second.startCpuMs / COUNT),
    '',
    '',
    '',
    '',
  ]);
  const again = new Remote(second.url);
  await again.order('adopt', 0);
  await record(again, 'delete', 'delete', COUNT);
  again.end();
  const head = ['what', 'rate', 'CPU ms each', 'p50 ms', 'p99 ms', 'loop p99 ms', 'loop most ms'];
  console.log(markdownTable(head, rows));
}

try {
  await measure();
} finally {
  for (const end of ends.toReversed()) await end();
}
