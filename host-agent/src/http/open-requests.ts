// Requests that are not answered to their end: those of a key that is no good any more lose their connection.
import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type { Principal } from '../keys/index.ts';

const LOOK_MS = 2000;

type Open = { readonly principal: Principal; readonly socket: Duplex };

export class OpenRequests {
  readonly #isStillValid: (principal: Principal) => boolean;
  readonly #lookMs: number;
  readonly #open = new Set<Open>();
  #timer: NodeJS.Timeout | undefined;

  constructor(isStillValid: (principal: Principal) => boolean, lookMs = LOOK_MS) {
    this.#isStillValid = isStillValid;
    this.#lookMs = lookMs;
  }

  /** `whole` closes when the request is over. */
  add(principal: Principal, socket: Duplex, whole: EventEmitter): void {
    const open = { principal, socket };
    this.#open.add(open);
    whole.once('close', () => this.#open.delete(open));
    this.#timer ??= setInterval(() => this.#look(), this.#lookMs).unref();
  }

  #look(): void {
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
