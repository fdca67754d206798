// How much longer everything may take here than on a developer's machine; the lab says so, where CPUs are emulated.

export const TIME_SCALE = Math.max(1, Number(process.env.SANDBOXD_TEST_TIME_SCALE ?? 1));

/** A limit on waiting, in the same unit. Never for a time that is itself what a test is about. */
export function scaled(limit: number): number {
  return limit * TIME_SCALE;
}
