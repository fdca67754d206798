// How often the engine, or the snapshot store, is asked for single ids that the map does not know: by one client, by
// those of one tenant, and by all.
import { RateLimits } from '../../ingress/index.ts';
import { AppError } from '../../lib/errors.ts';
import { TokenBucket } from '../../lib/token-bucket.ts';

/** Bursts are ten times as many, as of all limits here. */
const CLIENT_PER_S = 5;
/** A tenant makes keys itself: all of its keys together leave half for others. */
const TENANT_PER_S = 25;
const ALL_PER_S = 50;

export class AskLimits {
  readonly #clients = new RateLimits({ clientPerS: CLIENT_PER_S, sandboxPerS: 0 });
  readonly #tenants = new RateLimits({ clientPerS: TENANT_PER_S, sandboxPerS: 0 });
  readonly #all = new TokenBucket(ALL_PER_S, ALL_PER_S * 10);

  /** Undefined: a client without a key, or without a tenant. AppError exhausted. */
  count(client: string | undefined, tenant?: string): void {
    if (client !== undefined) this.#clients.countClient(client, 'of this client for unknown sandboxes');
    if (tenant !== undefined) this.#tenants.countClient(tenant, 'of this tenant for unknown sandboxes');
    if (this.#all.take()) return;
    throw new AppError('exhausted', 'unknown sandboxes are looked up too often', { retryAfterS: 1 });
  }
}
