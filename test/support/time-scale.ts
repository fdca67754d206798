// Factor for timeouts on slow hosts; the lab with emulated CPUs sets it.

export const TIME_SCALE = Math.max(1, Number(process.env.SANDBOXD_TEST_TIME_SCALE ?? 1));

/** Scales a timeout, in the same unit. Not for durations that are the subject of a test. */
export function scaled(limit: number): number {
  return limit * TIME_SCALE;
}
