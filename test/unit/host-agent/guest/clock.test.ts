// Correction of a guest's clock.
import { mock } from 'node:test';
import fc from 'fast-check';
import t from 'tap';
import { settle } from '../../../support/fake-clock.ts';
import { makeClock, untold } from '../support/slow-guest.ts';

const MINUTE_MS = 60_000;

t.test('a clock is right when it was settled, however the way there differs from that back', async (t) => {
  const trip = fc.tuple(fc.integer({ max: 45, min: 0 }), fc.integer({ max: 45, min: 0 }));
  const { guest, clock } = makeClock(t, 0, '0+0');
  await fc.assert(
    fc.asyncProperty(
      fc.array(trip, { minLength: 6, maxLength: 6 }),
      fc.constantFrom(-238_000, 3_000_000, -1e15),
      async (trips, offUs) => {
        Object.assign(guest, { trips, offUs, answers: 0 });
        guest.asked.length = 0;
        await clock.settle(untold);
        const { answers } = guest;
        // The last result is sent to the guest in the background.
        await settle();
        const shortest = Math.min(...trips.slice(0, answers).map(([there, back]) => there + back));
        if (Math.abs(guest.offUs) > Math.max(10_000, shortest * 500 + 2000))
          throw new Error(`${guest.offUs} µs`);
        return answers <= 6;
      },
    ),
    { numRuns: 50 },
  );
  t.pass();
});

t.test('it is moved to the middle of what is possible, until both ends of that are near', async (t) => {
  for (const [offUs, trips, asked] of [
    // The first answer leaves 48 to 52 ms, the second -2 to 2 ms.
    [50_000, '2+1', [0, -50_000]],
    [-50_000, '2+1', [0, 50_000]],
    // 8 to 12 ms.
    [10_000, '2+1', [0, -10_000]],
    // -10 to 10 ms is accurate, a microsecond more is not; a difference below the host clock's resolution causes no
    // shift.
    [0, '10+9', [0]],
    [1, '10+9 0+0', [0, 0]],
    [-1, '10+9 0+0', [0, 0]],
    [1000, '10+9 0+0', [0, 0]],
    [1001, '10+9 0+0', [0, -1001]],
    [-1001, '10+9 0+0', [0, 1001]],
    // The first leaves 9 to 50 ms; the second -20.5 to 20.5 ms of those, and by itself -20.5 to -19.5 ms.
    [10_000, '40+0 0+0', [0, -29_500, 20_000]],
    [0, '30+0 0+30 0+0', [0, -14_500, 15_000]],
  ] as const) {
    await t.test(`${offUs} µs off, over ${trips} ms`, async (t) => {
      const { guest, clock } = makeClock(t, offUs, trips);
      await clock.settle(untold);
      await settle();
      t.same(guest.asked, asked);
    });
  }
});

t.test('who waits for a guest waits for no more than two round trips once patience has ended', async (t) => {
  for (const [trips, waitedFor] of [
    // 19 ms leave 10 ms each way, never accurate.
    ['10+9', 6],
    ['50+50', 2],
    ['60+60', 2],
    ['25+25', 3],
    ['500+500', 2],
  ] as const) {
    await t.test(trips, async (t) => {
      const { guest, clock } = makeClock(t, 1, trips);
      await clock.settle(untold);
      t.equal(guest.answers, waitedFor);
      await settle();
      t.equal(guest.answers, waitedFor + 1, 'what the last one said is sent at once');
    });
  }
});

t.test('an answer that says the clock spares a round trip, all of them when it came soon', async (t) => {
  for (const [there, work, back, asked] of [
    [0, 0, 0, []],
    // The agent's own work lies between its first and last clock reading.
    [0, 150, 0, []],
    [0, 150, 9, []],
    [9, 0, 0, []],
    // 11 ms behind to 0.
    [10, 0, 0, [5500]],
    [20, 0, 20, [20_500]],
    // The time limit has passed: one round trip is waited for, and its result is sent at once.
    [150, 0, 10, [80_500, 70_000]],
  ] as const) {
    await t.test(`${there}, ${work} and ${back} ms`, async (t) => {
      const { guest, clock } = makeClock(t, 0, '0+0');
      await clock.settle(() => guest.set(there, work, back));
      t.equal(guest.answers, Math.min(1, asked.length));
      await settle();
      t.same(guest.asked, asked);
    });
  }
});

t.test('what was known holds on, as far as two clocks may have drifted apart since', async (t) => {
  for (const [trip, moves, asked] of [
    // -3 to 5 ms was known, and is -3.5 to 5.5 ms a second later.
    ['5+2', [6000], [0, 0, -5250]],
    ['5+2', [6500], [0, 0, -5500]],
    ['5+2', [6501], [0, 0, -6001]],
    ['5+2', [-3000], [0, 0, 3250]],
    ['5+2', [-3500], [0, 0, 3500]],
    ['5+2', [-3501], [0, 0, 4001]],
    // Known bounds are moved by each shift and widened by the drift since then.
    ['5+0', [6000], [0, -2000, -3250]],
    ['5+0', [-500], [0, -2000, 3000]],
    ['5+2', [6000, 1250], [0, 0, -5250, -1500]],
  ] as const) {
    await t.test(`${moves} µs in a second each, after ${trip} ms`, async (t) => {
      const { guest, clock, time } = makeClock(t, 0, `${trip} 0+0 0+0 0+0`);
      await clock.settle(untold);
      for (const movedUs of [...moves, 0]) {
        time.nowMs += 1000;
        guest.offUs += movedUs;
        await time.fire(5 * MINUTE_MS);
      }
      t.same(guest.asked, asked);
    });
  }
});

t.test('a clock that is right is looked at seldom, another soon and then after ever longer', async (t) => {
  const { guest, clock, time } = makeClock(t, 0, '0+0');
  await clock.settle(untold);
  t.equal(guest.asked.length, 1);
  await time.fire(5 * MINUTE_MS - 1);
  t.equal(guest.asked.length, 1);
  await time.fire(1);
  t.equal(guest.asked.length, 2);
  guest.jumpUs = 50_000;
  const waits = Array.from({ length: 8 }, (_, times) => 2000 * 2 ** times);
  for (const waitMs of [5 * MINUTE_MS, ...waits, 5 * MINUTE_MS, 5 * MINUTE_MS]) {
    const { length } = guest.asked;
    await time.fire(waitMs - 1);
    t.equal(guest.asked.length, length, `${waitMs} ms`);
    await time.fire(1);
    t.equal(guest.asked.length, length + 6, 'with so many round trips at most');
  }
  guest.jumpUs = 0;
  await time.fire(5 * MINUTE_MS);
  guest.jumpUs = 50_000;
  await time.fire(5 * MINUTE_MS);
  const { length } = guest.asked;
  await time.fire(2000);
  t.equal(guest.asked.length, length + 6, 'one that was right in between is asked soon again');
  clock.close();
  await time.fire(60 * MINUTE_MS);
  t.equal(guest.asked.length, length + 6, 'and nobody when it is closed');
  clock.distrust();
  await settle();
  t.equal(guest.asked.length, length + 6);
});

t.test('between two questions that change nothing is a moment', async (t) => {
  for (const [trips, waits] of [
    ['10+9.5 0+0', [false, true]],
    ['40+0 0+0', [false, false, false]],
  ] as const) {
    await t.test(trips, async (t) => {
      const seen: boolean[] = [];
      let hasWaited = false;
      const { guest, clock } = makeClock(t, 0, trips);
      mock.timers.reset();
      guest.inCall = () => {
        seen.push(hasWaited);
        hasWaited = false;
        // Due before other timers of the same delay, and corrected afterwards.
        setTimeout(() => {
          hasWaited = true;
        }, 1);
        guest.turns = 0;
      };
      await clock.settle(async () => {
        await guest.inCall();
        return untold();
      });
      t.same(seen.slice(1), waits);
    });
  }
});

t.test(
  'the clock of a guest that was paused is corrected at once, or as soon as it is reachable',
  async (t) => {
    const { guest, clock, time } = makeClock(t, 0, '0+0');
    clock.reached();
    await settle();
    t.same(guest.asked, [], 'there was nothing to put right');
    await clock.settle(untold);
    guest.offUs = -5_000_000;
    clock.distrust();
    await settle();
    t.same(guest.asked, [0, 0, 5_000_500], 'what was known before is worth nothing');
    clock.reached();
    await settle();
    t.equal(guest.asked.length, 3);

    guest.isReachable = false;
    guest.offUs = -5_000_000;
    clock.distrust();
    await settle();
    await time.fire(5 * MINUTE_MS);
    t.equal(guest.asked.length, 3, 'nobody is asked who cannot hear');
    guest.isReachable = true;
    clock.reached();
    await settle();
    t.same(guest.asked.slice(3), [0, 5_000_500]);
    await time.fire(5 * MINUTE_MS);
    t.equal(guest.asked.length, 6, 'and looked after from then on');

    guest.isReachable = false;
    await time.fire(5 * MINUTE_MS);
    guest.isReachable = true;
    clock.reached();
    await settle();
    t.equal(guest.asked.length, 7, 'one that could not be asked when it was its time is asked then');
  },
);

t.test('a guest that is paused during a measurement is measured again', async (t) => {
  const { guest, clock } = makeClock(t, 0, '0+0');
  guest.inCall = async () => {
    await new Promise(setImmediate);
    if (guest.asked.length !== 1) return;
    guest.offUs = 70_000;
    clock.distrust();
  };
  clock.distrust();
  while (guest.asked.length < 3) await settle();
  await settle();
  t.same(guest.asked, [0, 0, -69_500, 0]);
});

t.test('a question that fails is asked again over the next connection, or later', async (t) => {
  const { guest, clock, time } = makeClock(t, 0, '0+0');
  const fail = () => Promise.reject(new Error('broken pipe'));
  await t.rejects(clock.settle(fail), { message: 'broken pipe' });
  guest.inCall = fail;
  clock.distrust();
  await settle();
  clock.reached();
  await settle();
  t.equal(guest.asked.length, 2);
  await time.fire(2000);
  t.equal(guest.asked.length, 2, 'later each time');
  await time.fire(2000);
  t.equal(guest.asked.length, 3);
  guest.inCall = () => undefined;
  await time.fire(8000);
  clock.reached();
  await settle();
  t.equal(guest.asked.length, 4, 'until it was answered');
});

t.test('settling waits for the correction in progress, and for no other', async (t) => {
  const { guest, clock } = makeClock(t, 0, '0+0');
  const order: string[] = [];
  guest.inCall = () => void order.push('asked');
  guest.turns = 5;
  const set = (name: string) => async () => {
    order.push(name);
    await new Promise(setImmediate);
    return untold();
  };
  clock.distrust();
  const first = clock.settle(set('first'));
  const second = clock.settle(set('second'));
  clock.reached();
  await Promise.all([first, second]);
  t.same(order, ['asked', 'first', 'asked', 'second', 'asked']);
  await t.rejects(
    clock.settle(() => Promise.reject(new Error('no'))),
    { message: 'no' },
  );
  await clock.settle(set('third'));
  t.same(order.slice(5), ['third', 'asked'], 'also when another failed');
});

t.test('what was known of a clock before it was set is worth nothing', async (t) => {
  const { guest, clock } = makeClock(t, 0, '0+0');
  clock.distrust();
  await clock.settle(() => guest.set(150, 0, 0));
  await settle();
  t.same(guest.asked, [0, 75_500, 75_000]);
});

t.test('when the clock is closed nothing more is asked', async (t) => {
  const { guest, clock } = makeClock(t, 0, '0+0');
  guest.jumpUs = 50_000;
  guest.inCall = () => {
    if (guest.asked.length === 2) clock.close();
  };
  await clock.settle(untold);
  await settle();
  t.equal(guest.asked.length, 2);
});
