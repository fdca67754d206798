// Whether a service that ended by itself is started again, and when.

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 60_000;
/** A life this long shows that the service works: counting begins again. */
const HEALTHY_MS = 10_000;

export type RestartPolicy = {
  readonly policy: 'never' | 'on-failure' | 'always';
  /** 0 is unlimited. */
  readonly maxRetries: number;
};

export type Verdict = 'ended_well' | 'ended_badly' | 'ended_for_now';

/** Counts the retries in a row. */
export class RestartBudget {
  #retries = 0;

  /** Somebody started it: what was before does not count. */
  reset(): void {
    this.#retries = 0;
  }

  /** Judges an end that nobody asked for. `ended_for_now` has counted a retry. */
  judge({ policy, maxRetries }: RestartPolicy, isSuccess: boolean, livedMs: number): Verdict {
    if (livedMs >= HEALTHY_MS) this.reset();
    const isWanted = policy === 'always' || (policy === 'on-failure' && !isSuccess);
    if (!isWanted) return isSuccess ? 'ended_well' : 'ended_badly';
    if (policy === 'on-failure' && maxRetries > 0 && this.#retries >= maxRetries) return 'ended_badly';
    this.#retries += 1;
    return 'ended_for_now';
  }

  /** Before the retry that `judge` counted last. */
  get pauseMs(): number {
    return Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#retries - 1));
  }
}
