// Limits of concurrent work: of long-lived streams, in total and per client, and a queue whose waiting work can be
// cancelled.
import type PQueue from 'p-queue';
import { AppError } from './errors.ts';

type ConcurrencyLimitOptions = {
  /** Names the streams in the error message, in the plural. */
  readonly what: string;
  readonly max: number;
  /** Maximum for one tenant or key. */
  readonly maxPerClient: number;
};

export class ConcurrencyLimit {
  readonly #options: ConcurrencyLimitOptions;
  readonly #counts = new Map<string | undefined, number>();
  readonly #tenants = new Map<string, number>();
  #count = 0;

  constructor(options: ConcurrencyLimitOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  /**
   * Occupies a slot until disposed (idempotent). Undefined: a client without an identity; only the total limit applies.
   * `tenant`: of a client that is a key; all keys of one leave half for others. AppError exhausted.
   */
  acquire(client: string | undefined, tenant?: string): Disposable {
    const { what, max, maxPerClient } = this.#options;
    const own = this.#counts.get(client) ?? 0;
    const limit = client === undefined ? max : maxPerClient;
    if (this.#count >= max)
      throw new AppError('exhausted', `there are ${max} ${what} already; try again later`);
    if (own >= limit) throw new AppError('exhausted', `you have ${limit} ${what} already; close some`);
    const ofTenant = tenant === undefined ? 0 : (this.#tenants.get(tenant) ?? 0);
    if (ofTenant >= max / 2)
      throw new AppError('exhausted', `the keys of your tenant have ${ofTenant} ${what} already; close some`);
    this.#count += 1;
    this.#counts.set(client, own + 1);
    if (tenant !== undefined) this.#tenants.set(tenant, ofTenant + 1);
    let isActive = true;
    return {
      [Symbol.dispose]: () => {
        if (!isActive) return;
        isActive = false;
        this.#count -= 1;
        lower(this.#counts, client);
        if (tenant !== undefined) lower(this.#tenants, tenant);
      },
    };
  }
}

function lower<T>(counts: Map<T, number>, name: T): void {
  const left = (counts.get(name) ?? 1) - 1;
  if (left === 0) counts.delete(name);
  else counts.set(name, left);
}

/**
 * Runs `task` when the queue has capacity. `signal` aborts only the wait. The queue's own signal option would also
 * abandon a running task before it has rolled back.
 */
export function enqueue<T>(queue: PQueue, task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  const waiting = new AbortController();
  const onAbort = (): void => waiting.abort(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  const begin = (): Promise<T> => {
    signal?.removeEventListener('abort', onAbort);
    return task();
  };
  return queue.add(begin, { signal: waiting.signal });
}
