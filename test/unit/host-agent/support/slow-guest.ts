// A guest behind a slow channel, in a time that passes only on the way to it and back.
import type { RequestInput, Result } from '@sandboxd/proto';
import { pino } from 'pino';
import type { Test } from 'tap';
import { type ClockSpan, GuestClock } from '../../../../host-agent/src/guest/clock.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

type Trips = readonly (readonly [there: number, back: number])[];

/** A guest behind a slow channel, whose clock is `offUs` off. It notes by how much it was told to shift it. */
class SlowGuest {
  readonly time: FakeClock;
  offUs: number;
  /** Milliseconds there and back, by turns. */
  trips: Trips;
  isReachable = true;
  /** By how much somebody else moves its clock before each call is heard. */
  jumpUs = 0;
  readonly asked: number[] = [];
  answers = 0;
  /** Of the event loop, which pass before a call is answered. */
  turns = 1;
  /** Called in each call before that. */
  inCall: () => void | Promise<void> = () => undefined;

  constructor(time: FakeClock, offUs: number, trips: Trips) {
    this.time = time;
    this.offUs = offUs;
    this.trips = trips;
  }

  async call({ setClock }: RequestInput): Promise<Result> {
    const [there = 0, back = 0] = this.trips[this.asked.length % this.trips.length] ?? [];
    this.asked.push(setClock?.shiftUs ?? Number.NaN);
    this.time.nowMs += there;
    this.offUs += this.jumpUs;
    this.offUs += setClock?.shiftUs ?? 0;
    const unixTimeUs = this.time.nowMs * 1000 + this.offUs;
    this.time.nowMs += back;
    await this.inCall();
    for (let turn = 0; turn < this.turns; turn++) await new Promise(setImmediate);
    this.answers += 1;
    return { setClock: { unixTimeUs } } as Result;
  }

  /** What sets the clock to that of a host which asks at once, and works on for so long. */
  async set(there: number, work: number, back: number): Promise<ClockSpan> {
    const fromUs = this.time.nowMs * 1000;
    this.time.nowMs += there;
    this.offUs = fromUs - this.time.nowMs * 1000;
    this.time.nowMs += work;
    const toUs = this.time.nowMs * 1000 + this.offUs;
    this.time.nowMs += back;
    return { fromUs, toUs };
  }
}

/** What sets the clock is an agent that does not tell what it said. */
export const untold = async (): Promise<ClockSpan> => ({ fromUs: 0, toUs: 0 });

/** `trips` are milliseconds there and back, by turns: `2+1 0+0`. */
export function makeClock(t: Test, offUs: number, trips: string) {
  const guest = new SlowGuest(new FakeClock(t), offUs, toTrips(trips));
  const calls = {
    isReachable: () => guest.isReachable,
    call: (request: RequestInput) => guest.call(request),
  };
  const clock = new GuestClock(calls, pino({ level: 'silent' }));
  t.teardown(() => clock.close());
  return { guest, clock, time: guest.time };
}

function toTrips(text: string): Trips {
  return text.split(' ').map((trip) => {
    const [there = 0, back = 0] = trip.split('+').map(Number);
    return [there, back];
  });
}
