// The page of a soak, and its picture.
import { cpus } from 'node:os';
import { markdownTable, median, wrap } from '../bench/stats.ts';
import { findInvalid } from './cpu-share.ts';
import { drawLines } from './plot.ts';
import { LINES, type LineName, type Sample } from './sample.ts';
import { isGrowing, MIN_SAMPLES, trendOf } from './trend.ts';

/** The first samples are of a daemon that fills its caches. */
const WARM_UP = 2;
/** One fault may have the same consequence many times. */
const MAX_FAILURES = 100;

export type Soak = {
  /** Of the CPU time of the machine, in each round. */
  readonly shares: readonly number[];
  readonly samples: readonly { readonly minute: number; readonly round: number; readonly sample: Sample }[];
  /** From this sample on, no daemon was killed. */
  readonly lastLife: number;
  /** Samples before which the daemon was killed. */
  readonly kills: readonly number[];
  readonly done: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly failures: readonly string[];
};

export type Report = {
  readonly page: string;
  readonly picture: string;
  readonly growing: readonly LineName[];
};

const percent = (share: number): string => `${Math.round(share * 100)} %`;

export function writeReport(soak: Soak): Report {
  const { shares, samples, lastLife, kills, done, faults, failures } = soak;
  const invalid = findInvalid(shares);
  const all = (Object.keys(LINES) as LineName[]).map((name) => {
    const { unit, allowed, isOfDaemon } = LINES[name];
    const values = samples.map(({ sample }) => sample[name]);
    const counted = values.slice(isOfDaemon ? Math.max(WARM_UP, lastLife + WARM_UP) : WARM_UP);
    const trend = trendOf(counted);
    return {
      name,
      unit,
      allowed,
      values,
      counted,
      trend,
      isGrowing: counted.length >= MIN_SAMPLES && isGrowing(trend, allowed),
    };
  });
  const show = (value: number | undefined): string => (value === undefined ? '' : String(+value.toFixed(1)));
  const rows = all.map(({ name, unit, allowed, counted, trend, isGrowing: grows }) => [
    unit === '' ? name : `${name}, ${unit}`,
    show(counted[0]),
    show(counted.at(-1)),
    show(trend.growth),
    show(allowed),
    grows ? '**grows**' : counted.length < MIN_SAMPLES ? 'too few samples' : 'ok',
  ]);
  const minutes = samples.map(({ minute }) => minute);
  const counts = (record: Readonly<Record<string, number>>): string =>
    Object.entries(record)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ');
  const page = [
    '# Soak\n',
    wrap(
      `${(minutes.at(-1) ?? 0).toFixed(0)} minutes on ${cpus().length} cores, ${samples.length} rounds: a load of up ` +
        'to four clients, faults meanwhile, and then a sample after everything was deleted. Growth is the median of the slopes ' +
        'between all pairs of samples, from the third sample on; for what begins again with each daemon, of the last ' +
        'one. Grey lines in the plots are kills of the daemon.',
    ),
    '',
    ...(invalid === undefined ? [] : [`${wrap(`**Not valid**: ${invalid}.`)}\n`]),
    `- CPU time: ${percent(shares.length === 0 ? 0 : median(shares))} of that of all cores, at least ` +
      `${percent(Math.min(1, ...shares))} in a round`,
    `- Operations: ${counts(done)}`,
    `- Faults: ${counts(faults)}`,
    `- Failures: ${failures.length}\n`,
    markdownTable(['line', 'first', 'last', 'growth', 'allowed', 'result'], rows),
    ...(failures.length === 0 ? [] : ['', '```', ...failures.slice(0, MAX_FAILURES), '```']),
    '\n![lines](soak.svg)\n',
  ].join('\n');
  return {
    page,
    picture: drawLines(all, minutes, kills),
    growing: all.filter(({ isGrowing: grows }) => grows).map(({ name }) => name),
  };
}
