// Requests and tunnels that are open. Ends those that lost what allows them: a revoked key, a deleted link, a closed
// port, a deleted sandbox.
import type { EventEmitter } from 'node:events';
import { MAX_PORT_CONNECTIONS } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import type { Grant } from './access.ts';

const CHECK_MS = 1000;
/** One untrusted client cannot take all connections to the ports of a sandbox. */
const MAX_OF_ADDRESS = MAX_PORT_CONNECTIONS * 0.75;

type Open = { readonly grant: Grant; readonly end: () => void };

export class OpenExchanges {
  readonly #checkMs: number;
  readonly #open = new Set<Open>();
  /** Those to public ports, by sandbox and client's address. */
  readonly #byAddress = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #onIdle: () => void = () => undefined;

  constructor(checkMs = CHECK_MS) {
    this.#checkMs = checkMs;
  }

  get count(): number {
    return this.#open.size;
  }

  /** `lifetime` emits `close` at the end; `end` ends it early. AppError exhausted. */
  add(grant: Grant, address: string, lifetime: EventEmitter, end: () => void): void {
    const visitor = grant.by === 'public' ? `${grant.sandbox.id} ${address}` : undefined;
    this.#count(visitor, 1);
    const open = { grant, end };
    this.#open.add(open);
    lifetime.once('close', () => {
      this.#count(visitor, -1);
      this.#open.delete(open);
      if (this.#open.size === 0) this.#onIdle();
    });
    this.#timer ??= setInterval(() => this.#check(), this.#checkMs).unref();
  }

  /** Resolves when none is open. */
  idle(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onIdle = resolve;
    });
  }

  endAll(): void {
    for (const { end } of this.#open) end();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #count(visitor: string | undefined, by: 1 | -1): void {
    if (visitor === undefined) return;
    const count = (this.#byAddress.get(visitor) ?? 0) + by;
    if (count > MAX_OF_ADDRESS)
      throw new AppError(
        'exhausted',
        `this address has ${MAX_OF_ADDRESS} requests to this sandbox; end some`,
        {
          stage: 'request',
          retryAfterS: 1,
        },
      );
    if (count === 0) this.#byAddress.delete(visitor);
    else this.#byAddress.set(visitor, count);
  }

  #check(): void {
    for (const { grant, end } of this.#open) if (!grant.isValid()) end();
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
