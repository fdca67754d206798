// While a sandbox is paused between two hosts, what is sent and fetched ahead of others waits: the disk, the network
// and the CPUs of both hosts are for that one. Each wait is short, so that nothing waits for good.
import { setTimeout as sleep } from 'node:timers/promises';

const MAX_WAIT_MS = 5000;

export class RightOfWay {
  readonly #maxWaitMs: number;
  #paused = 0;
  #over = Promise.withResolvers<void>();

  constructor(maxWaitMs = MAX_WAIT_MS) {
    this.#maxWaitMs = maxWaitMs;
  }

  /** A sandbox is paused until this is disposed. */
  begin(): Disposable {
    this.#paused += 1;
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        if (isOver) return;
        isOver = true;
        this.#paused -= 1;
        if (this.#paused > 0) return;
        this.#over.resolve();
        this.#over = Promise.withResolvers();
      },
    };
  }

  /** Resolves when none is paused, or after a while. */
  async give(): Promise<void> {
    if (this.#paused === 0) return;
    const limit = new AbortController();
    const late = sleep(this.#maxWaitMs, undefined, { signal: limit.signal }).catch(() => undefined);
    await Promise.race([this.#over.promise, late]);
    limit.abort();
  }
}
