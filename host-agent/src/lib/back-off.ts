// Exponential backoff.

type BackOff = {
  readonly firstMs: number;
  readonly mostMs?: number;
  /** 0.25 varies the wait by ±25 %, so that waiting clients do not all retry at once. */
  readonly jitter?: number;
};

/** Limits the exponent; the maximum wait applies long before this. */
const MAX_POWER = 20;

/** The wait after a number of failures: doubled with each, 0 after none. */
export function backOffMs(
  failures: number,
  { firstMs, mostMs = Number.POSITIVE_INFINITY, jitter = 0 }: BackOff,
): number {
  if (failures < 1) return 0;
  const waitMs = Math.min(mostMs, firstMs * 2 ** Math.min(failures - 1, MAX_POWER));
  return waitMs * (1 + jitter * (2 * Math.random() - 1));
}
