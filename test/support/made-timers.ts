// Fakes this process's timers and its monotonic clock, for code without an injected clock. A test advances them.
import type { Test } from 'tap';

class Timer {
  readonly #timers: Set<Timer>;
  readonly #now: () => number;
  readonly #ms: number;
  readonly callback: () => void;
  readonly isRepeated: boolean;
  isReferenced = true;
  at = 0;

  constructor(
    timers: Set<Timer>,
    now: () => number,
    ms: number,
    { callback, isRepeated }: Pick<Timer, 'callback' | 'isRepeated'>,
  ) {
    this.#timers = timers;
    this.#now = now;
    this.#ms = ms;
    this.callback = callback;
    this.isRepeated = isRepeated;
    this.start();
  }

  start(): void {
    this.at = this.#now() + this.#ms;
    this.#timers.add(this);
  }

  /** As in Node. */
  refresh(): this {
    this.start();
    return this;
  }

  ref(): this {
    this.isReferenced = true;
    return this;
  }

  unref(): this {
    this.isReferenced = false;
    return this;
  }
}

export class MadeTimers {
  readonly #waiting = new Set<Timer>();
  #nowMs: number;

  /** Installed until the test's end, or until `restore`. */
  constructor(t: Test) {
    const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;
    const now = performance.now.bind(performance);
    // Whole numbers, so that differences are exact.
    this.#nowMs = Math.ceil(now());
    const make =
      (isRepeated: boolean) =>
      (callback: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
        new Timer(this.#waiting, () => this.#nowMs, ms, { callback: () => callback(...args), isRepeated });
    const clear = (timer: unknown): void => {
      if (timer instanceof Timer) this.#waiting.delete(timer);
      else clearTimeout(timer as NodeJS.Timeout);
    };
    const made = {
      setTimeout: make(false),
      clearTimeout: clear,
      setInterval: make(true),
      clearInterval: clear,
    };
    Object.assign(globalThis, made);
    performance.now = () => this.#nowMs;
    this.restore = () => {
      Object.assign(globalThis, { setTimeout, clearTimeout, setInterval, clearInterval });
      Reflect.deleteProperty(performance, 'now');
    };
    t.teardown(this.restore);
  }

  readonly restore: () => void;

  /** Number of active timers. */
  get count(): number {
    return this.#waiting.size;
  }

  /** Number of active timers that keep the process alive. */
  get keeping(): number {
    return [...this.#waiting].filter(({ isReferenced }) => isReferenced).length;
  }

  /** Fires the timers that are due by then, in order, and lets their immediate work finish. */
  async pass(ms: number): Promise<void> {
    const end = this.#nowMs + ms;
    for (;;) {
      const [next] = [...this.#waiting].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.#nowMs = Math.max(this.#nowMs, next.at);
      if (next.isRepeated) next.start();
      else this.#waiting.delete(next);
      next.callback();
      await settle();
    }
    this.#nowMs = end;
    await settle();
  }
}

/** Waits until all pending immediate work has finished. */
export async function settle(): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await new Promise((resolve) => setImmediate(resolve));
}
