// Stops this process's clock and timers; a test fires them.
import { syncBuiltinESMExports } from 'node:module';
import { mock } from 'node:test';
import type { Test } from 'tap';

export class StoppedTime {
  nowMs = 1_700_000_000_000;

  /** `isWhole`: also the promise-based timers. */
  constructor(t: Test, isWhole: boolean) {
    mock.method(Date, 'now', () => Math.floor(this.nowMs));
    mock.method(performance, 'now', () => this.nowMs - 1_690_000_000_000);
    mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    if (isWhole) syncBuiltinESMExports();
    t.teardown(() => {
      mock.restoreAll();
      mock.timers.reset();
      if (isWhole) syncBuiltinESMExports();
    });
  }

  /** Fires the timers that are due by then without advancing the clock, and lets their immediate work finish. */
  async fire(ms: number): Promise<void> {
    mock.timers.tick(ms);
    await turns();
  }

  async pass(ms: number): Promise<void> {
    this.nowMs += ms;
    await this.fire(ms);
  }
}

/** Waits some turns of the event loop, so that immediate work finishes. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 40; turn++) await new Promise(setImmediate);
}
