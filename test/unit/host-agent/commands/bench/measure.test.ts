// The rounds of `sandboxd bench` with tiers in memory, and its pages.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseInput } from '../../../../../api/src/command-line.ts';
import { assertLocal, bench, readResult } from '../../../../../host-agent/src/commands/bench/index.ts';
import {
  measure,
  NotMeasured,
  type Operation,
  type Tier,
} from '../../../../../host-agent/src/commands/bench/measure.ts';
import { parseOptions } from '../../../../../host-agent/src/commands/bench/options.ts';
import { renderComparison, renderPage } from '../../../../../host-agent/src/commands/bench/page.ts';
import {
  type BenchResult,
  type Cell,
  FORMAT,
  percentile,
  toPercentiles,
} from '../../../../../host-agent/src/commands/bench/result.ts';
import { findPageFaults } from '../../../../../scripts/page-rules.ts';

class Clock {
  time = 0;
  readonly now = (): number => this.time;
}

type Call = { readonly count: number };

/** Each operation takes `ms` of the clock. */
function makeTier(clock: Clock, name: string, ms: number, run: () => Promise<void> = async () => undefined) {
  const calls: Call[] = [];
  let after = 0;
  const operation: Operation = {
    async run() {
      clock.time += ms;
      await run();
    },
    async after() {
      after++;
    },
  };
  const tier: Tier = {
    name,
    async prepare(count) {
      calls.push({ count });
      return Array.from({ length: count }, () => operation);
    },
  };
  return { tier, calls, after: () => after };
}

const plan = (clock: Clock, more: object = {}) => ({
  ...{ levels: [1, 3], rounds: 2, timeMs: 1000, signal: new AbortController().signal, now: clock.now },
  ...more,
});

t.test('rounds of all levels; what follows an operation is not timed', async (t) => {
  const clock = new Clock();
  const { tier, calls, after } = makeTier(clock, 'a', 10);
  const seen: Cell[] = [];
  const cells = await measure([tier], plan(clock, { onCell: (cell: Cell) => seen.push(cell) }));
  t.same(calls, [{ count: 1 }, { count: 1 }, { count: 3 }, { count: 3 }]);
  t.match(cells, [
    { tier: 'a', concurrency: 1, operations: 2, failures: { count: 0 }, is_cut: false, ms: { p50: 10 } },
    { tier: 'a', concurrency: 3, operations: 6, ms: { min: 10, max: 30 } },
  ]);
  t.same(seen, cells);
  t.equal(after(), 8);
});

t.test('time is divided among what is left, and each level has a round of its own', async (t) => {
  const clock = new Clock();
  const slow = makeTier(clock, 'slow', 300);
  const quick = makeTier(clock, 'quick', 1);
  const cells = await measure(
    [slow.tier, quick.tier],
    plan(clock, { levels: [1, 2], rounds: 100, timeMs: 800 }),
  );
  t.match(cells, [
    { tier: 'slow', concurrency: 1, operations: 1, is_cut: true },
    { tier: 'slow', concurrency: 2, operations: 2, is_cut: true },
    { not_measured: 'the time was up' },
    { not_measured: 'the time was up' },
  ]);
});

t.test('failures are counted by their code, and a level that mostly fails is the last', async (t) => {
  const clock = new Clock();
  let calls = 0;
  const { tier } = makeTier(clock, 'a', 1, async () => {
    if (++calls % 3 !== 0) throw Object.assign(new Error('full\nof it'), { code: 'no_capacity' });
  });
  const cells = await measure([tier], plan(clock, { levels: [3, 6], rounds: 1 }));
  t.match(cells, [
    { operations: 1, failures: { count: 2, codes: { no_capacity: 2 }, example: 'full' } },
    { concurrency: 6, not_measured: 'most operations failed with 3 at once: no_capacity' },
  ]);
});

t.test('what cannot be prepared is not measured, and neither are higher levels', async (t) => {
  const clock = new Clock();
  const tier: Tier = {
    name: 'a',
    async prepare() {
      throw new NotMeasured('only 2 copies fit');
    },
  };
  const broken: Tier = { name: 'b', prepare: () => Promise.reject(new Error('the daemon is gone')) };
  t.match(await measure([tier, broken], plan(clock)), [
    { not_measured: 'only 2 copies fit' },
    { not_measured: 'only 2 copies fit' },
    { not_measured: 'cannot be prepared: the daemon is gone' },
    { not_measured: 'cannot be prepared: the daemon is gone' },
  ]);
});

t.test('a stop ends it, and waits for what is in work', async (t) => {
  const clock = new Clock();
  const stop = new AbortController();
  let ended = 0;
  const { tier } = makeTier(clock, 'a', 1, async () => {
    stop.abort();
    await new Promise((resolve) => setTimeout(resolve, 20));
    ended++;
    stop.signal.throwIfAborted();
  });
  await t.rejects(measure([tier], plan(clock, { levels: [3], signal: stop.signal })), { name: 'AbortError' });
  t.equal(ended, 3);
});

t.test('percentiles by nearest rank', async (t) => {
  t.match(toPercentiles([4, 1, 3, 2]), { min: 1, p25: 1, p50: 2, p75: 3, p95: 4, p99: 4, max: 4 });
  const hundred = Array.from({ length: 100 }, (_, at) => at + 1);
  t.same(
    [50, 95, 99].map((each) => percentile(hundred, each)),
    [50, 95, 99],
  );
  t.equal(toPercentiles([]), undefined);
});

const RESULT: BenchResult = {
  format: FORMAT,
  made_at: '2026-01-02T03:04:05.000Z',
  duration_s: 12,
  note: `a | b <b> ${'long '.repeat(40)}`,
  versions: { sandboxd: '0.1.0', command: '0.1.0', interface: '0.1.0' },
  environment: {
    ...{ cpu: 'one', cpus: 2, memory_bytes: 2 ** 34, architecture: 'x64', kernel: '6', system: 'Debian' },
    ...{ file_system: 'XFS', is_virtual_machine: true, load_before: 0, load_after: 1 },
    engine: { name: 'memory', version: '1', accelerator: 'tcg', is_jailed: true },
  },
  settings: {
    ...{ profile: 'base', memory_mib: 512, vcpus: 1, concurrency: [1], rounds: 1, time_s: 1 },
    beside_others: false,
  },
  tiers: [
    {
      ...{ tier: 'exec', concurrency: 1, operations: 4, is_cut: false, failures: { count: 0, codes: {} } },
      ms: { min: 9, p25: 9.5, p50: 10, p75: 10.5, p95: 11, p99: 11, max: 11 },
    },
    { tier: 'egress', concurrency: 1, not_measured: 'no address' },
  ],
  idle_copies: { not_measured: 'none fit' },
};

t.test('a page, and two results side by side', async (t) => {
  const page = renderPage(RESULT);
  t.match(page, /Software emulation/);
  t.match(page, '| exec | 1 | 10.0 | 11.0 | 11.0 | 4 | 0 |');
  t.match(page, 'a \\| b \\<b> long');
  t.same(findPageFaults('page', page), []);
  const [exec] = RESULT.tiers;
  const faster = { ...exec, ms: { min: 4, p25: 4.5, p50: 5, p75: 5.5, p95: 6, p99: 6, max: 6 } } as Cell;
  const environment = { ...RESULT.environment, kernel: '7' };
  const text = renderComparison(RESULT, { ...RESULT, environment, tiers: [faster] });
  t.match(text, '| system | Debian, Linux 6, x64 | Debian, Linux 7, x64 |');
  t.match(text, '| exec | 1 | 10.0 | 5.00 | 0.50 | faster | 0, 0 |');
  t.match(text, 'Only in one of them: egress (1).');
  t.match(renderComparison(RESULT, RESULT), /environments are alike[\s\S]*alike \| 0, 0/);
});

t.test('what is no result is refused with a reason', async (t) => {
  const dir = t.testdir({ 'a.json': '{', 'b.json': '{"format":"other"}' });
  await t.rejects(readResult(join(dir, 'a.json')), { message: /not JSON/ });
  await t.rejects(readResult(join(dir, 'b.json')), { message: /not a result of sandboxd-bench\/1: format/ });
  await t.rejects(readResult(join(dir, 'c.json')), { code: 'ENOENT' });
  writeFileSync(join(dir, 'd.json'), ' '.repeat(2 ** 20 + 1));
  await t.rejects(readResult(join(dir, 'd.json')), { message: /too long/ });
  writeFileSync(join(dir, 'e.json'), JSON.stringify(RESULT));
  t.same(await readResult(join(dir, 'e.json')), RESULT);
  t.ok(readFileSync(join(dir, 'e.json')));
});

t.test('the daemon must be of this machine', async (t) => {
  for (const host of [
    undefined,
    '',
    'unix:/run/a.sock',
    'http://127.0.0.1:1',
    'https://localhost',
    'http://[::1]:2',
    // The client refuses it, and says what it takes.
    '127.0.0.1:1',
  ])
    t.doesNotThrow(() => assertLocal(host), `${host}`);
  for (const host of ['http://10.0.0.1', 'https://127.example.com', 'https://localhost.example.com'])
    t.throws(() => assertLocal(host), { message: /run it on the host/ }, host);
});

t.test('an address that is none is a wrong use of the command', async (t) => {
  const before = process.env.SANDBOXD_HOST;
  t.teardown(() => {
    if (before === undefined) delete process.env.SANDBOXD_HOST;
    else process.env.SANDBOXD_HOST = before;
  });
  process.env.SANDBOXD_HOST = '127.0.0.1:7700';
  const { signal } = new AbortController();
  await t.rejects(async () => await bench.run(parseInput('sandboxd bench', bench, []), signal), {
    name: 'UsageError',
    message: /host must be http/,
  });
});

t.test('flags are bounded', async (t) => {
  const parse = (...args: string[]) => parseOptions(parseInput('sandboxd bench', bench, args));
  t.match(parse(), {
    levels: [1, 8, 32, 64],
    rounds: 10,
    timeMs: 900_000,
    memoryMib: 512,
    isBesideOthers: false,
  });
  t.same(parse('--concurrency', '8,1,8').levels, [1, 8]);
  for (const [args, problem] of [
    [['--concurrency', '0'], /from 1 to 256/],
    [['--concurrency', '1,2,3,4,5,6,7,8,9'], /at most 8/],
    [['--concurrency', '1,'], /whole number/],
    [['--time', '86401'], /from 1 to 86400/],
    [['--rounds', '-1'], /rounds/],
    [['--tier', 'all'], /there is no tier "all"/],
    [['--egress', 'https://a.org'], /http:/],
    [['--egress', 'file:///etc/passwd'], /http:/],
    [['--until-full', 'x'], /whole number/],
    [['--note', 'x'.repeat(501)], /500/],
  ] as const)
    t.throws(() => parse(...args), { message: problem }, args.join(' '));
});
