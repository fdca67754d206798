// How the clock of a guest is put right: over round trips that take their time, each way another.
import { mock } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RequestInput, Result } from '@sandboxd/proto';
import { pino } from 'pino';
import t from 'tap';
import { GuestClock } from '../../../../host-agent/src/guest/clock.ts';
import { until } from '../../../support/until.ts';

const log = pino({ level: 'silent' });

/** A guest behind a slow channel, whose clock is `offUs` off. */
class SlowGuest {
  offUs: number;
  canShift: boolean | undefined = true;
  calls = 0;
  answers = 0;
  longestUs = 0;
  /** What all calls that were answered should have taken. */
  tripsMs = 0;
  /** Milliseconds there and back, by turns. */
  readonly #trips: readonly (readonly [number, number])[];

  constructor(offUs: number, trips: readonly (readonly [number, number])[]) {
    this.offUs = offUs;
    this.#trips = trips;
  }

  async call({ setClock }: RequestInput): Promise<Result> {
    const startedMs = performance.now();
    const [there = 0, back = 0] = this.#trips[this.calls++ % this.#trips.length] ?? [];
    if (there > 0) await sleep(there);
    if (setClock?.unixTimeUs) this.offUs = setClock.unixTimeUs - Date.now() * 1000;
    else this.offUs += setClock?.shiftUs ?? 0;
    const unixTimeUs = Date.now() * 1000 + this.offUs;
    if (back > 0) await sleep(back);
    this.longestUs = Math.max(this.longestUs, (performance.now() - startedMs) * 1000);
    this.answers += 1;
    this.tripsMs += there + back;
    return { setClock: { unixTimeUs } } as Result;
  }

  /** How near it had to be brought, whatever this machine did meanwhile; the clocks of this test tell milliseconds. */
  get limitUs(): number {
    return Math.max(10_000, this.longestUs / 2) + 2000;
  }
}

function makeClock(guest: SlowGuest): GuestClock {
  return new GuestClock({ canShift: () => guest.canShift, call: (request) => guest.call(request) }, log);
}

/** What sets the clock is an agent that does not tell what it said. */
const untold = async () => ({ fromUs: 0, toUs: 0 });

t.test('a clock is right when it was settled, however the way there differs from that back', async (t) => {
  for (const trips of [
    [[0, 0]],
    [[40, 0]],
    [[0, 40]],
    [
      [90, 0],
      [0, 90],
      [3, 1],
    ],
  ] as const) {
    for (const offUs of [-238_000, 3_000_000, -1e15]) {
      const guest = new SlowGuest(offUs, trips);
      const clock = makeClock(guest);
      const startedMs = performance.now();
      await clock.settle(untold);
      clock.close();
      // What this process lost between two lines counts for nobody.
      const lostUs = (performance.now() - startedMs - guest.tripsMs) * 1000;
      const limitUs = guest.limitUs + lostUs;
      t.ok(Math.abs(guest.offUs) <= limitUs, `${guest.offUs} µs off, after ${JSON.stringify(trips)}`);
    }
  }
});

/** Sets the clock of a guest on whom the message arrives and who works and answers for so many milliseconds. */
async function set(guest: SlowGuest, there: number, work: number, back: number) {
  const fromUs = Date.now() * 1000;
  await sleep(there);
  guest.offUs = fromUs - Date.now() * 1000;
  await sleep(work);
  const toUs = Date.now() * 1000 + guest.offUs;
  await sleep(back);
  return { fromUs, toUs };
}

t.test('an answer that says the clock spares a round trip, all of them when it came soon', async (t) => {
  for (const [there, work, back, calls] of [
    [0, 0, 0, 0],
    [0, 150, 0, 0],
    [20, 0, 20, 1],
  ] as const) {
    const guest = new SlowGuest(0, [[0, 0]]);
    const clock = makeClock(guest);
    const startedMs = performance.now();
    await clock.settle(() => set(guest, there, work, back));
    clock.close();
    // Behind what this process lost between two lines the answer came late.
    const lostMs = performance.now() - startedMs - there - work - back - guest.tripsMs;
    t.ok(guest.calls <= calls + (lostMs < 5 ? 0 : 2), `${guest.calls} more after ${there}, ${work}, ${back}`);
    t.ok(Math.abs(guest.offUs) <= 12_000 + lostMs * 1000, `${guest.offUs} µs off`);
  }
});

t.test('behind a slow answer one round trip is waited for, and what it says is sent at once', async (t) => {
  const guest = new SlowGuest(0, [[20, 40]]);
  const clock = makeClock(guest);
  await clock.settle(() => set(guest, 150, 0, 10));
  t.same([guest.answers, guest.calls], [1, 2]);
  await until(() => Math.abs(guest.offUs) <= guest.limitUs);
  clock.close();
});

t.test('one that is right already is asked once and left alone', async (t) => {
  const guest = new SlowGuest(4000, [[0, 0]]);
  const clock = makeClock(guest);
  await clock.settle(untold);
  clock.close();
  t.same([guest.calls, guest.offUs], [1, 4000]);
});

t.test('who waits for a slow guest waits for two round trips; the rest is done later', async (t) => {
  const slow = [150, 10] as const;
  const guest = new SlowGuest(-3_000_000, [slow, slow, [1, 1]]);
  const clock = makeClock(guest);
  await clock.settle(untold);
  t.equal(guest.answers, 2);
  t.ok(Math.abs(guest.offUs) <= guest.limitUs);
  await until(() => guest.answers > 2 && Math.abs(guest.offUs) <= 12_000);
  clock.close();
});

t.test('a guest that stood still is put right at once, or when it can be reached again', async (t) => {
  const guest = new SlowGuest(0, [[1, 1]]);
  const clock = makeClock(guest);
  await clock.settle(untold);
  guest.offUs -= 5_000_000;
  clock.distrust();
  await until(() => Math.abs(guest.offUs) <= 12_000);
  // What it began is done.
  await clock.settle(untold);

  guest.canShift = undefined;
  guest.offUs -= 5_000_000;
  clock.distrust();
  const { calls } = guest;
  await sleep(50);
  t.equal(guest.calls, calls, 'nobody is asked who cannot hear');
  guest.canShift = true;
  clock.reached();
  await until(() => Math.abs(guest.offUs) <= 12_000);
  clock.close();
});

t.test('a clock is looked after for as long as the guest lives, and no longer', async (t) => {
  const guest = new SlowGuest(0, [[0, 0]]);
  const clock = makeClock(guest);
  // Before its timer is set; the guest of this test waits by others.
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  await clock.settle(untold);
  guest.offUs = 40_000;
  const { calls } = guest;
  mock.timers.tick(5 * 60_000 - 1);
  t.equal(guest.calls, calls);
  mock.timers.tick(1);
  t.equal(guest.calls, calls + 1);
  clock.close();
  mock.timers.tick(3_600_000);
  t.equal(guest.calls, calls + 1);
});

t.test('an agent that cannot tell its time is told the time at which it will hear it', async (t) => {
  const guest = new SlowGuest(-1e9, [[40, 40]]);
  guest.canShift = false;
  const clock = makeClock(guest);
  await clock.settle(untold);
  t.ok(Math.abs(guest.offUs) <= guest.limitUs, `${guest.offUs} µs off`);
  clock.close();
});
