// How many streams of hosts are open for clients. Each has buffers of some 64 KiB, and one client has as many as there
// are hosts.
import { AppError } from '../../../lib/errors.ts';
import type { Caller } from '../callers.ts';
import { Shares } from '../shares.ts';

const MAX_STREAMS = 16_384;
const MAX_STREAMS_OF_EACH = 4096;

export class HostStreams {
  readonly #shares = new Shares(MAX_STREAMS, MAX_STREAMS_OF_EACH);

  /** AppError exhausted. */
  acquire(caller: Caller, count: number): Disposable {
    if (!this.#shares.take(caller, count))
      throw new AppError(
        'exhausted',
        `streams of events over ${count} hosts take too much with those that are open; close some`,
      );
    let isOpen = true;
    return {
      [Symbol.dispose]: () => {
        if (isOpen) this.#shares.giveBack(caller, count);
        isOpen = false;
      },
    };
  }
}
