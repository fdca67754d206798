// The open requests of keys. Closes the connections of keys that have expired or were revoked.
import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type { KeyHolder } from '../keys/index.ts';

const CHECK_MS = 2000;

type Open = { readonly principal: KeyHolder; readonly socket: Duplex };

export class OpenRequests {
  readonly #isStillValid: (principal: KeyHolder) => boolean;
  readonly #checkMs: number;
  readonly #open = new Set<Open>();
  #timer: NodeJS.Timeout | undefined;

  constructor(isStillValid: (principal: KeyHolder) => boolean, checkMs = CHECK_MS) {
    this.#isStillValid = isStillValid;
    this.#checkMs = checkMs;
  }

  /** `lifetime` emits `close` at the end of the request. */
  add(principal: KeyHolder, socket: Duplex, lifetime: EventEmitter): void {
    const open = { principal, socket };
    this.#open.add(open);
    lifetime.once('close', () => this.#open.delete(open));
    this.#timer ??= setInterval(() => this.#check(), this.#checkMs).unref();
  }

  #check(): void {
    const known = new Map<string, boolean>();
    for (const { principal, socket } of this.#open) {
      const isValid = known.get(principal.id) ?? this.#isStillValid(principal);
      known.set(principal.id, isValid);
      if (!isValid) socket.destroy();
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
