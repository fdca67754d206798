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

  /** As `begin`, once none is paused, or after a while: two at once would be paused for as long as both take. */
  async take(signal: AbortSignal): Promise<Disposable> {
    const untilMs = performance.now() + this.#maxWaitMs;
    while (this.#paused > 0 && performance.now() < untilMs && !signal.aborted) await this.give(signal);
    signal.throwIfAborted();
    return this.begin();
  }

  /** Resolves when none is paused, after a while, or when it is aborted: one that is paused may wait for that. */
  async give(outer: AbortSignal): Promise<void> {
    if (this.#paused === 0) return;
    const limit = new AbortController();
    const signal = AbortSignal.any([limit.signal, outer]);
    const late = sleep(this.#maxWaitMs, undefined, { signal }).catch(() => undefined);
    await Promise.race([this.#over.promise, late]);
    limit.abort();
  }
}
