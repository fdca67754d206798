// A stream of resource usage samples of a sandbox, one each second, until it is deleted or the client disconnects.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Chunk, type PullStream, toChunk } from '../lib/byte-queue.ts';

const INTERVAL_MS = 1000;

export type Sample = { readonly cpu_us: number; readonly read_at: string };

export class StatsStream<R extends Sample> implements PullStream {
  readonly #takeSample: () => R;
  readonly #toText: (sample: R) => string;
  readonly #over = new AbortController();
  readonly #onEnd: () => void;
  #last: R | undefined;
  #nextAt = performance.now();

  /** `takeSample` throws when the sandbox is deleted. Each of `signals` cancels the stream. */
  constructor(
    takeSample: () => R,
    toText: (sample: R) => string,
    signals: readonly (AbortSignal | undefined)[],
    onEnd: () => void,
  ) {
    this.#takeSample = takeSample;
    this.#toText = toText;
    this.#onEnd = onEnd;
    for (const signal of signals) {
      if (signal?.aborted) this.cancel();
      signal?.addEventListener('abort', () => this.cancel(), { once: true, signal: this.#over.signal });
    }
  }

  cancel(): void {
    this.#over.abort();
    this.#onEnd();
  }

  /** A slow client gets fewer samples. */
  async next(): Promise<Chunk | undefined> {
    const waitMs = this.#nextAt - performance.now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: this.#over.signal }).catch(() => undefined);
    if (this.#over.signal.aborted) return undefined;
    this.#nextAt = performance.now() + INTERVAL_MS;
    try {
      const sample = this.#takeSample();
      const text = this.#toText({ ...sample, ...toPercent(sample, this.#last) });
      this.#last = sample;
      return toChunk(text);
    } catch {
      this.cancel();
      return undefined;
    }
  }
}

function toPercent(now: Sample, last: Sample | undefined): { cpu_percent?: number } {
  if (last === undefined) return {};
  const us = (Date.parse(now.read_at) - Date.parse(last.read_at)) * 1000;
  return us <= 0 ? {} : { cpu_percent: Math.round((1000 * Math.max(0, now.cpu_us - last.cpu_us)) / us) / 10 };
}
