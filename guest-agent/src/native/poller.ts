// Who is called when a descriptor is ready.
import { addon } from './addon.ts';

export const POLL = { in: 0x1, out: 0x4, error: 0x8, hangUp: 0x10, edge: 0x8000_0000 } as const;

export type Watch = {
  readonly id: number;
  /** Changes what is waited for; something that is ready already is reported again. */
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

  /** `onError` gets what a handler threw; the others are called all the same. */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** When the events came that are being dealt with, by `performance.now()`. */
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

  /** Calls `handler` with the mask of what `fd` is ready for, whenever it is (or becomes, with POLL.edge). */
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
      // A handler of this batch may have closed the watch of a later one.
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
