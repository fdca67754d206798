// What a soak takes for growth, and the picture that it draws.
import t from 'tap';
import { findInvalid, measureShare, workersFor } from '../../soak/cpu-share.ts';
import { drawLines } from '../../soak/plot.ts';
import { writeReport } from '../../soak/report.ts';
import { LINES, type Sample } from '../../soak/sample.ts';
import { isGrowing, trendOf } from '../../soak/trend.ts';

/** Without randomness: a sequence that is as irregular. */
const noise = (at: number): number => ((at * 7919) % 13) - 6;
const samples = (count: number, value: (at: number) => number): number[] =>
  Array.from({ length: count }, (_, at) => value(at));

t.test('what grows is found among noise, and nothing else', (t) => {
  const grows = (values: readonly number[]) => isGrowing(trendOf(values), 4);
  t.notOk(grows(samples(30, (at) => 100 + noise(at))), 'noise');
  t.ok(grows(samples(30, (at) => 100 + noise(at) + at)), 'one for each sample');
  t.notOk(grows(samples(30, (at) => (at === 29 ? 10_000 : 100))), 'one point that is far off, also the last');
  t.notOk(grows(samples(30, (at) => 100 - at)), 'what falls');
  t.notOk(grows(samples(30, (at) => 100 + at / 10)), 'less than is allowed');
  t.notOk(grows(samples(30, (at) => (at < 3 ? at * 20 : 60))), 'a cache that fills at first');
  t.ok(grows(samples(30, (at) => (at < 15 ? 0 : at - 14))), 'what begins in the middle');
  t.same([[], [7]].map(trendOf), [
    { growth: 0, agreement: 0 },
    { growth: 0, agreement: 0 },
  ]);
  t.same(trendOf([1, 2, 3, 4]), { growth: 3, agreement: 1 });
  t.end();
});

const zero = Object.fromEntries(Object.keys(LINES).map((name) => [name, 1])) as Sample;
const soakOf = (change: (at: number) => Partial<Sample>, lastLife = 0) => ({
  shares: [0.9, 0.7, 1],
  samples: samples(20, (at) => at).map((at) => ({
    ...{ minute: at, round: at },
    sample: { ...zero, ...change(at) },
  })),
  ...{ lastLife, kills: [3], done: { create: 5 }, faults: { vmm: 2 }, failures: [] },
});

t.test('the page names what grows; lines of a daemon count from the last one on', (t) => {
  const mounts = writeReport(soakOf((at) => ({ mounts: at })));
  t.same(mounts.growing, ['mounts']);
  t.match(mounts.page, /\| mounts \| 2 \| 19 \| 17 \| 0\.5 \| \*\*grows\*\* \|/);
  const fds = (at: number): Partial<Sample> => ({ descriptors: at < 8 ? 10 * at : 5 });
  t.same(writeReport(soakOf(fds, 8)).growing, []);
  t.same(writeReport(soakOf((at) => ({ descriptors: at }), 8)).growing, ['descriptors']);
  const few = writeReport(soakOf((at) => ({ descriptors: at }), 12));
  t.same(few.growing, []);
  t.match(few.page, /\| descriptors .*\| too few samples \|/);
  const { page } = writeReport({ ...soakOf(() => ({})), failures: ['round 3: a sandbox was lost'] });
  t.match(page, /Failures: 1[\s\S]*round 3: a sandbox was lost/);
  t.end();
});

t.test('the picture has each line, with its name as text', (t) => {
  const picture = drawLines(
    [
      { name: 'a < b & c', unit: '', values: [0, 5, 10], isGrowing: true },
      { name: 'flat', unit: 'MiB', values: [2, 2, 2], isGrowing: false },
    ],
    [0, 1, 2],
    [1],
  );
  t.match(picture, /^<svg [\s\S]*<\/svg>\n$/);
  t.match(picture, />a &lt; b &amp; c</);
  t.match(picture, />flat, MiB</);
  t.match(picture, /points="58\.0,108\.0 213\.0,67\.0 368\.0,26\.0"[^>]*#c00/);
  t.notMatch(picture, /NaN/);
  t.equal(picture.match(/<polyline/g)?.length, 2);
  t.end();
});

t.test('a machine that gave too little of its time has proved nothing', async (t) => {
  const ample = writeReport(soakOf(() => ({})));
  t.match(ample.page, 'CPU time: 90 % of that of all cores, at least 70 % in a round');
  t.notMatch(ample.page, 'Not valid');
  const scarce = writeReport({ ...soakOf(() => ({})), shares: [0.2, 0.3, 0.9] });
  t.match(scarce.page, /\*\*Not valid\*\*: this machine gave 30 % of its \d+ cores/);
  t.match(findInvalid([], 2), /gave 0 % of its 2 cores/);
  t.same(
    [0, 0.1, 0.5, 0.9, 1].map((share) => workersFor(share, 4)),
    [1, 1, 2, 4, 4],
  );
  const share = await measureShare(1);
  t.ok(share > 0 && share <= 1, `${share}`);
});
