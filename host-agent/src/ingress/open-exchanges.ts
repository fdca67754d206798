// Requests and tunnels that are open. Ends those that lost what allows them: a revoked key, a deleted link, a closed
// port, a deleted sandbox.
import type { EventEmitter } from 'node:events';
import type { Grant } from './access.ts';

const CHECK_MS = 1000;

type Open = { readonly grant: Grant; readonly end: () => void };

export class OpenExchanges {
  readonly #checkMs: number;
  readonly #open = new Set<Open>();
  #timer: NodeJS.Timeout | undefined;
  #onIdle: () => void = () => undefined;

  constructor(checkMs = CHECK_MS) {
    this.#checkMs = checkMs;
  }

  get count(): number {
    return this.#open.size;
  }

  /** `lifetime` emits `close` at the end; `end` ends it early. */
  add(grant: Grant, lifetime: EventEmitter, end: () => void): void {
    const open = { grant, end };
    this.#open.add(open);
    lifetime.once('close', () => {
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

  #check(): void {
    for (const { grant, end } of this.#open) if (!grant.isValid()) end();
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
