// Fakes this process's timers and clocks with Node's own mocks; a test advances them.
import { syncBuiltinESMExports } from 'node:module';
import { mock } from 'node:test';
import type { Test } from 'tap';

/** What Node's mocked timers cannot: be counted, refreshed or unreferenced. */
class FakeTimer {
  readonly #clock: FakeClock;
  readonly ms: number;
  readonly #fire: () => void;
  #mocked: NodeJS.Timeout | undefined;
  isReferenced = true;
  at = 0;

  constructor(clock: FakeClock, ms: number, fire: () => void) {
    this.#clock = clock;
    this.ms = ms;
    this.#fire = fire;
    this.refresh();
  }

  refresh(): this {
    this.clear();
    this.at = this.#clock.passedMs + this.ms;
    this.#mocked = this.#clock.mocked.setTimeout(() => {
      this.clear();
      this.#fire();
    }, this.ms);
    this.#clock.timers.add(this);
    return this;
  }

  clear(): void {
    this.#clock.timers.delete(this);
    this.#clock.mocked.clearTimeout(this.#mocked);
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

type FakeClockOptions = {
  /** Also the promise-based timers. */
  readonly withPromises?: boolean;
};

export class FakeClock {
  /** Of all faked clocks, wall clock and monotonic; a test may advance it without firing timers. */
  nowMs = Date.now();
  /** Milliseconds that the timers were advanced by. */
  passedMs = 0;
  readonly timers = new Set<FakeTimer>();
  readonly mocked: Pick<typeof globalThis, 'setTimeout' | 'clearTimeout'>;
  readonly restore: () => void;

  /** Installed until the test's end, or until `restore`. */
  constructor(t: Test, { withPromises = false }: FakeClockOptions = {}) {
    const { setTimeout, clearTimeout, setInterval, clearInterval } = globalThis;
    // Whole numbers, so that differences are exact.
    const startedAtMs = this.nowMs - Math.ceil(performance.now());
    const bootedAtMs = this.nowMs - Number(process.hrtime.bigint() / 1_000_000n);
    const clocks = [
      mock.method(Date, 'now', () => Math.floor(this.nowMs)),
      mock.method(performance, 'now', () => this.nowMs - startedAtMs),
      mock.method(process.hrtime, 'bigint', () => BigInt(Math.floor((this.nowMs - bootedAtMs) * 1e6))),
    ];
    mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    if (withPromises) syncBuiltinESMExports();
    this.mocked = { setTimeout: globalThis.setTimeout, clearTimeout: globalThis.clearTimeout };
    const clear = (timer: unknown): void => {
      if (timer instanceof FakeTimer) timer.clear();
      else clearTimeout(timer as NodeJS.Timeout);
    };
    type Callback = (...args: unknown[]) => void;
    Object.assign(globalThis, {
      setTimeout: (callback: Callback, ms = 0, ...args: unknown[]) =>
        new FakeTimer(this, ms, () => callback(...args)),
      setInterval: (callback: Callback, ms = 0, ...args: unknown[]) => {
        const timer: FakeTimer = new FakeTimer(this, ms, () => {
          timer.refresh();
          callback(...args);
        });
        return timer;
      },
      clearTimeout: clear,
      clearInterval: clear,
    });
    this.restore = () => {
      mock.timers.reset();
      Object.assign(globalThis, { setTimeout, clearTimeout, setInterval, clearInterval });
      for (const clock of clocks) clock.mock.restore();
      if (withPromises) syncBuiltinESMExports();
    };
    t.teardown(this.restore);
  }

  /** Number of active timers. */
  get count(): number {
    return this.timers.size;
  }

  /** Number of active timers that keep the process alive. */
  get keeping(): number {
    return [...this.timers].filter(({ isReferenced }) => isReferenced).length;
  }

  /** Delays of the active timers. */
  get delays(): number[] {
    return [...this.timers].map(({ ms }) => ms);
  }

  /** Fires the timers that are due by then, in order. */
  tick(ms: number): void {
    for (const _ of this.#advance(ms, true));
  }

  /** Fires the timers that are due by then, in order, and lets the immediate work of each finish. */
  async pass(ms: number): Promise<void> {
    for (const _ of this.#advance(ms, true)) await settle();
  }

  /** The same without advancing the clocks. */
  async fire(ms: number): Promise<void> {
    for (const _ of this.#advance(ms, false)) await settle();
  }

  *#advance(ms: number, withClocks: boolean): Generator<void> {
    const step = (stepMs: number): void => {
      this.passedMs += stepMs;
      if (withClocks) this.nowMs += stepMs;
      mock.timers.tick(stepMs);
    };
    const end = this.passedMs + ms;
    for (let isFirst = true; ; isFirst = false) {
      const next = Math.min(...[...this.timers].map(({ at }) => at));
      if (next > end && this.passedMs === end && !isFirst) return;
      step(Math.max(0, Math.min(next, end) - this.passedMs));
      yield;
    }
  }
}

/** Waits until all pending immediate work has finished. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 40; turn++) await new Promise((resolve) => setImmediate(resolve));
}
