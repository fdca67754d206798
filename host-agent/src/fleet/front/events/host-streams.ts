// How many streams of hosts are open for clients. Each has buffers of some 64 KiB, and one client has as many as there
// are hosts.
import { AppError } from '../../../lib/errors.ts';

const MAX_STREAMS = 16_384;
const MAX_STREAMS_OF_EACH = 4096;

export class HostStreams {
  readonly #counts = new Map<string | undefined, number>();
  #count = 0;

  /** Undefined: a client without a key; only the limit for all applies. AppError exhausted. */
  acquire(client: string | undefined, count: number): Disposable {
    const own = (this.#counts.get(client) ?? 0) + count;
    if (this.#count + count > MAX_STREAMS || (client !== undefined && own > MAX_STREAMS_OF_EACH))
      throw new AppError(
        'exhausted',
        `streams of events over ${count} hosts take too much with those that are open; close some`,
      );
    this.#change(client, count);
    let isOpen = true;
    return {
      [Symbol.dispose]: () => {
        if (isOpen) this.#change(client, -count);
        isOpen = false;
      },
    };
  }

  #change(client: string | undefined, count: number): void {
    this.#count += count;
    const left = (this.#counts.get(client) ?? 0) + count;
    if (left === 0) this.#counts.delete(client);
    else this.#counts.set(client, left);
  }
}
