// Choices that a seed repeats.

export type Random = (below: number) => number;

/** The same numbers for the same seed (mulberry32). */
export function makeRandom(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export function pick<T>(random: Random, all: readonly T[]): T | undefined {
  return all[random(Math.max(1, all.length))];
}
