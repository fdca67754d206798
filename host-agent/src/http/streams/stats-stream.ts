// Readings of a sandbox, one a second, until it is gone or nobody reads: lines of JSON, or server-sent events.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Chunk, type PullStream, toChunk } from '../../lib/byte-queue.ts';

const EVERY_MS = 1000;

export type Reading = { readonly cpu_us: number; readonly read_at: string };

export class StatsStream<R extends Reading> implements PullStream {
  readonly #read: () => R;
  readonly #toText: (reading: R) => string;
  readonly #over = new AbortController();
  readonly #onEnd: () => void;
  #last: R | undefined;
  #nextAt = performance.now();

  /** `read` throws when there is nothing to read any more. Any of `signals` ends it. */
  constructor(
    read: () => R,
    toText: (reading: R) => string,
    signals: readonly (AbortSignal | undefined)[],
    onEnd: () => void,
  ) {
    this.#read = read;
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

  /** A reader that is slow gets fewer. */
  async next(): Promise<Chunk | undefined> {
    const waitMs = this.#nextAt - performance.now();
    if (waitMs > 0) await sleep(waitMs, undefined, { signal: this.#over.signal }).catch(() => undefined);
    if (this.#over.signal.aborted) return undefined;
    this.#nextAt = performance.now() + EVERY_MS;
    try {
      const reading = this.#read();
      const text = this.#toText({ ...reading, ...toPercent(reading, this.#last) });
      this.#last = reading;
      return toChunk(text);
    } catch {
      this.cancel();
      return undefined;
    }
  }
}

function toPercent(now: Reading, last: Reading | undefined): { cpu_percent?: number } {
  if (last === undefined) return {};
  const us = (Date.parse(now.read_at) - Date.parse(last.read_at)) * 1000;
  return us <= 0 ? {} : { cpu_percent: Math.round((1000 * Math.max(0, now.cpu_us - last.cpu_us)) / us) / 10 };
}
