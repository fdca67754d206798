// Exponential backoff.

export type BackOff = {
  readonly firstMs: number;
  readonly mostMs?: number;
  /** 0.25: anything from three quarters to five quarters of it, so that not all who wait come back at once. */
  readonly jitter?: number;
};

/** Beyond this power of two the bound says all there is to say. */
const MAX_POWER = 20;

/** The wait after so many failures: twice as long with each, none after none. */
export function backOffMs(
  failures: number,
  { firstMs, mostMs = Number.POSITIVE_INFINITY, jitter = 0 }: BackOff,
): number {
  if (failures < 1) return 0;
  const waitMs = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, MAX_POWER));
  return waitMs * (1 + jitter * (2 * Math.random() - 1));
}
