// The time of this process and its timers, which stand still but for what a test lets pass.
import { syncBuiltinESMExports } from 'node:module';
import { mock } from 'node:test';
import type { Test } from 'tap';

export class StoppedTime {
  nowMs = 1_700_000_000_000;

  /** `isWhole`: also the timers that are waited for as promises. */
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

  /** Has the timers fire that are due by then, without any time having passed, and lets each do what it does at once. */
  async fire(ms: number): Promise<void> {
    mock.timers.tick(ms);
    await turns();
  }

  async pass(ms: number): Promise<void> {
    this.nowMs += ms;
    await this.fire(ms);
  }
}

/** What is done at once is done after so many turns of the event loop. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 40; turn++) await new Promise(setImmediate);
}
