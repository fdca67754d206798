// Whether a line of samples grows, for samples of which some are far off: the median of the slopes between all pairs
// (Theil and Sen), and how many more pairs rise than fall (Kendall's tau).
import { median } from '../bench/stats.ts';

export type Trend = {
  /** From the first sample to the last, by the median slope. */
  readonly growth: number;
  /** 1: of each two samples the later one is greater; 0: as many are less; -1: all are. */
  readonly agreement: number;
};

/** Chance alone has this agreement once in hundreds of runs with eight samples, and more rarely with more. */
const MIN_AGREEMENT = 0.6;
export const MIN_SAMPLES = 8;

export function trendOf(values: readonly number[]): Trend {
  const slopes: number[] = [];
  let agreement = 0;
  for (const [at, value] of values.entries())
    for (const [behind, later] of values.slice(at + 1).entries()) {
      slopes.push((later - value) / (behind + 1));
      agreement += Math.sign(later - value);
    }
  if (slopes.length === 0) return { growth: 0, agreement: 0 };
  return { growth: median(slopes) * (values.length - 1), agreement: agreement / slopes.length };
}

/** `allowed`: growth that is no leak, in the unit of the samples. */
export function isGrowing({ growth, agreement }: Trend, allowed: number): boolean {
  return growth > allowed && agreement >= MIN_AGREEMENT;
}
