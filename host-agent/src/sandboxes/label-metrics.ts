// Metrics by labels of sandboxes, of the keys that the operator chose. Clients choose the values, so the number of series
// is bounded.
import type { Labels } from '@sandboxd/api';
import { toMetricLabel } from '../lib/labels.ts';
import type { Metrics } from '../metrics/metrics.ts';

/** Combinations of values that have series of their own; the others are one. */
export const MAX_COMBINATIONS = 100;
/** In place of their values. No label has it, because values begin with a letter or digit. */
export const OTHER = '_other';

export type LabelledSandbox = { readonly id: string; readonly state: string; readonly labels: Labels };

export type LabelMetricsOptions = {
  readonly keys: readonly string[];
  readonly sandboxes: () => Iterable<LabelledSandbox>;
  /** Ids of the sandboxes that have series of their own. */
  readonly top: () => Iterable<string>;
};

/** Without keys there are no such metrics. */
export function measureLabels(metrics: Metrics, { keys, sandboxes, top }: LabelMetricsOptions): void {
  if (keys.length === 0) return;
  const names = keys.map(toMetricLabel);
  const combinations = new Combinations();
  const valuesOf = (labels: Labels): string[] =>
    keys.map((key) => (Object.hasOwn(labels, key) ? (labels[key] ?? '') : ''));
  const toLabels = (values: readonly string[]): Record<string, string> =>
    Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']));

  metrics.series(
    'gauge',
    'sandboxd_sandboxes_by_label',
    'Sandboxes that there are, by state and chosen labels',
    ['state', ...names],
    () => {
      const all = [...sandboxes()].map(({ state, labels }) => ({ state, values: valuesOf(labels) }));
      combinations.choose(all.map(({ values }) => values));
      const counts = new Map<string, { readonly labels: Record<string, string>; value: number }>();
      for (const { state, values } of all) {
        const labels = { state, ...toLabels(combinations.show(values)) };
        const id = JSON.stringify(labels);
        const count = counts.get(id) ?? { labels, value: 0 };
        counts.set(id, count);
        count.value += 1;
      }
      return counts.values();
    },
  );
  metrics.series(
    'gauge',
    'sandboxd_vm_labels',
    'Chosen labels of the sandboxes that have series of their own, to join them; always 1',
    ['sandbox', ...names],
    () => {
      const labelsOf = new Map([...sandboxes()].map(({ id, labels }) => [id, labels]));
      return [...top()].flatMap((sandbox) => {
        const labels = labelsOf.get(sandbox);
        return labels === undefined ? [] : [{ labels: { sandbox, ...toLabels(valuesOf(labels)) }, value: 1 }];
      });
    },
  );
}

/** Chooses which combinations of values are shown: the most frequent, and among equals those that were shown before. */
class Combinations {
  #shown = new Set<string>();

  choose(all: Iterable<readonly string[]>): void {
    const counts = new Map<string, number>();
    for (const values of all) {
      const id = JSON.stringify(values);
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    const before = (id: string): number => (this.#shown.has(id) ? 1 : 0);
    const ranked = [...counts].sort(
      ([a, countA], [b, countB]) => countB - countA || before(b) - before(a) || (a < b ? -1 : 1),
    );
    this.#shown = new Set(ranked.slice(0, MAX_COMBINATIONS).map(([id]) => id));
  }

  show(values: readonly string[]): readonly string[] {
    return this.#shown.has(JSON.stringify(values)) ? values : values.map(() => OTHER);
  }
}
