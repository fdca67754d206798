// Requests that are not answered to their end: those of a key that is no good any more lose their connection.
import type { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import type { Caller } from '../keys/index.ts';

const LOOK_MS = 2000;

type Open = { readonly caller: Caller; readonly socket: Duplex };

export class OpenRequests {
  readonly #isStillValid: (caller: Caller) => boolean;
  readonly #lookMs: number;
  readonly #open = new Set<Open>();
  #timer: NodeJS.Timeout | undefined;

  constructor(isStillValid: (caller: Caller) => boolean, lookMs = LOOK_MS) {
    this.#isStillValid = isStillValid;
    this.#lookMs = lookMs;
  }

  /** `whole` closes when the request is over. */
  add(caller: Caller, socket: Duplex, whole: EventEmitter): void {
    const open = { caller, socket };
    this.#open.add(open);
    whole.once('close', () => this.#open.delete(open));
    this.#timer ??= setInterval(() => this.#look(), this.#lookMs).unref();
  }

  #look(): void {
    const known = new Map<string, boolean>();
    for (const { caller, socket } of this.#open) {
      const isValid = known.get(caller.id) ?? this.#isStillValid(caller);
      known.set(caller.id, isValid);
      if (!isValid) socket.destroy();
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
