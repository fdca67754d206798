// Calls the handler of each descriptor that is ready.
import { addon } from './addon.ts';

export const POLL = { in: 0x1, out: 0x4, error: 0x8, hangUp: 0x10, edge: 0x8000_0000 } as const;

export type Watch = {
  readonly id: number;
  /** Changes the awaited events. An event that is ready already is reported again. */
  update(mask: number): void;
  /** To be called before the descriptor is closed. */
  close(): void;
};

const BATCH = 64;

export class Poller {
  readonly #handlers = new Map<number, (mask: number) => void>();
  readonly #events = new Uint32Array(2 * BATCH);
  readonly #onError: (error: unknown) => void;
  #lastId = 0;
  #wokeMs = 0;

  /** `onError` gets errors that a handler threw; the other handlers are still called. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** `performance.now()` at the wake-up for the events that are being handled. */
  get wokeMs(): number {
    return this.#wokeMs;
  }

  start(): void {
    addon.startPolling(this.#events, (count) => this.#dispatch(count));
  }

  stop(): void {
    addon.stopPolling();
    this.#handlers.clear();
  }

  /** Calls `handler` with the ready mask whenever `fd` is ready (with POLL.edge: whenever it becomes ready). */
  watch(fd: number, mask: number, handler: (mask: number) => void): Watch {
    this.#lastId = (this.#lastId + 1) >>> 0;
    const id = this.#lastId;
    addon.watch(fd, id, mask);
    this.#handlers.set(id, handler);
    return {
      id,
      update: (next) => addon.rewatch(fd, id, next),
      close: () => {
        if (this.#handlers.delete(id)) addon.unwatch(fd);
      },
    };
  }

  #dispatch(count: number): void {
    this.#wokeMs = performance.now();
    for (let i = 0; i < count; i++) {
      // An earlier handler of this batch may have closed this watch.
      const handler = this.#handlers.get(this.#events[2 * i] ?? 0);
      if (handler === undefined) continue;
      try {
        handler(this.#events[2 * i + 1] ?? 0);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
