// The metrics of the daemon, which are text for Prometheus, as figures for people.

export type Sample = { readonly labels: Readonly<Record<string, string>>; readonly value: number };
export type Samples = ReadonlyMap<string, readonly Sample[]>;

const LINE = /^([a-z_]\w*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** Samples by name. Lines that it does not know are left out. */
export function parseMetrics(text: string): Samples {
  const samples = new Map<string, Sample[]>();
  for (const line of text.split('\n')) {
    const [, name = '', labels = '', value = ''] = LINE.exec(line) ?? [];
    if (name === '' || Number.isNaN(Number(value.replace('+Inf', 'Infinity')))) continue;
    const pairs = [...labels.matchAll(LABEL)].map(([, key = '', raw = '']) => [key, raw] as const);
    const sample = { labels: Object.fromEntries(pairs), value: Number(value.replace('+Inf', 'Infinity')) };
    const known = samples.get(name);
    if (known === undefined) samples.set(name, [sample]);
    else known.push(sample);
  }
  return samples;
}

/** The sum of the samples that have these labels; undefined if there are none. */
export function sumOf(samples: Samples, name: string, wanted: Sample['labels'] = {}): number | undefined {
  const found = select(samples, name, wanted);
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
}

/** Sums by one label, the largest first, without those that are 0. */
export function sumsBy(
  samples: Samples,
  name: string,
  label: string,
): readonly (readonly [string, number])[] {
  const sums = new Map<string, number>();
  for (const { labels, value } of samples.get(name) ?? []) {
    const of = labels[label] ?? '';
    sums.set(of, (sums.get(of) ?? 0) + value);
  }
  return [...sums].filter(([, value]) => value > 0).sort(([, a], [, b]) => b - a);
}

/** The value below which a share of a histogram is, as exact as its buckets; undefined if it is empty. */
export function quantileOf(
  samples: Samples,
  name: string,
  share: number,
  wanted: Sample['labels'] = {},
): number | undefined {
  const counts = new Map<number, number>();
  for (const { labels, value } of select(samples, `${name}_bucket`, wanted)) {
    const bound = Number((labels.le ?? '').replace('+Inf', 'Infinity'));
    counts.set(bound, (counts.get(bound) ?? 0) + value);
  }
  const buckets = [...counts].sort(([a], [b]) => a - b);
  const rank = share * (buckets.at(-1)?.[1] ?? 0);
  if (rank === 0) return undefined;
  const at = buckets.findIndex(([, below]) => below >= rank);
  const [lower, before] = buckets[at - 1] ?? [0, 0];
  const [upper, below] = buckets[at] ?? [lower, before];
  // Of the last bucket only its lower bound is known.
  if (!Number.isFinite(upper)) return lower;
  return lower + ((upper - lower) * (rank - before)) / (below - before);
}

function select(samples: Samples, name: string, wanted: Sample['labels']): readonly Sample[] {
  const isWanted = ({ labels }: Sample): boolean =>
    Object.entries(wanted).every(([key, value]) => labels[key] === value);
  return samples.get(name)?.filter(isWanted) ?? [];
}
