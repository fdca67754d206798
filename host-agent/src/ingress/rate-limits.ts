// Rate limits of requests: of one client, and to one sandbox, so that neither takes the daemon from the others.
import { AppError } from '../lib/errors.ts';
import { TokenBucket } from '../lib/token-bucket.ts';

/** A page with its modules is a burst of hundreds. */
const BURST_S = 10;
const RETRY_AFTER_S = 1;
/** Full buckets are dropped when there are more. */
const MAX_FULL = 1000;

type RateLimitsOptions = {
  /** Requests a second; 0: any number. */
  readonly clientPerS: number;
  readonly sandboxPerS: number;
};

export class RateLimits {
  readonly #clients: Buckets;
  readonly #sandboxes: Buckets;

  constructor({ clientPerS, sandboxPerS }: RateLimitsOptions) {
    this.#clients = new Buckets(clientPerS);
    this.#sandboxes = new Buckets(sandboxPerS);
  }

  /** Before anything is looked up for the request. AppError exhausted. */
  countClient(address: string, which = 'from this address'): void {
    if (!this.#clients.take(address)) throw excess(which);
  }

  /** Only requests that are allowed count. AppError exhausted. */
  countSandbox(id: string): void {
    if (!this.#sandboxes.take(id)) throw excess('to this sandbox');
  }
}

class Buckets {
  readonly #perS: number;
  readonly #buckets = new Map<string, TokenBucket>();
  #limit = MAX_FULL;

  constructor(perS: number) {
    this.#perS = perS;
  }

  take(key: string): boolean {
    if (this.#perS === 0) return true;
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      if (this.#buckets.size >= this.#limit) this.#sweep();
      bucket = new TokenBucket(this.#perS, this.#perS * BURST_S);
      this.#buckets.set(key, bucket);
    }
    return bucket.take();
  }

  /** A full bucket is like a new one. */
  #sweep(): void {
    for (const [key, bucket] of this.#buckets) if (bucket.isFull) this.#buckets.delete(key);
    this.#limit = Math.max(MAX_FULL, this.#buckets.size * 2);
  }
}

function excess(which: string): AppError {
  return new AppError('exhausted', `there are too many requests ${which}; try again in a second`, {
    stage: 'request',
    retryAfterS: RETRY_AFTER_S,
  });
}
