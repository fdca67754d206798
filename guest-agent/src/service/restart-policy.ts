// Whether and when a service that exited is restarted.

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 60_000;
/** A run of this length counts as healthy and resets the retry count. */
const HEALTHY_MS = 10_000;

export type RestartPolicy = {
  readonly policy: 'never' | 'on-failure' | 'always';
  /** 0: unlimited. */
  readonly maxRetries: number;
};

type Verdict = 'ended_well' | 'ended_badly' | 'ended_for_now';

/** Counts consecutive retries. */
export class RestartBudget {
  #retries = 0;

  /** Called when a client starts the service: earlier retries do not count. */
  reset(): void {
    this.#retries = 0;
  }

  /** Decides on an exit that no client requested. A result of `ended_for_now` has counted one retry. */
  judge({ policy, maxRetries }: RestartPolicy, isSuccess: boolean, livedMs: number): Verdict {
    if (livedMs >= HEALTHY_MS) this.reset();
    const isWanted = policy === 'always' || (policy === 'on-failure' && !isSuccess);
    if (!isWanted) return isSuccess ? 'ended_well' : 'ended_badly';
    if (policy === 'on-failure' && maxRetries > 0 && this.#retries >= maxRetries) return 'ended_badly';
    this.#retries += 1;
    return 'ended_for_now';
  }

  /** Pause before the retry that `judge` counted last. */
  get pauseMs(): number {
    return Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#retries - 1));
  }
}
