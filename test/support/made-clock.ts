// A fake clock that a test advances.
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../host-agent/src/sandboxes/idle/idle-watch.ts';

export class MadeClock implements Clock {
  #now = 1_000_000;
  readonly #waiting = new Set<{ readonly at: number; readonly callback: () => void }>();

  now(): number {
    return this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const entry = { at: this.#now + ms, callback };
    this.#waiting.add(entry);
    return () => this.#waiting.delete(entry);
  }

  /** Fires the callbacks that are due by then, in order, and lets their immediate work finish. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      const [next] = [...this.#waiting].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#waiting.delete(next);
      this.#now = next.at;
      next.callback();
      for (let turns = 0; turns < 20; turns++) await setImmediate();
    }
    this.#now = end;
  }
}
