// Keeps the clock of a guest right. How far it is off is measured over round trips, each of which says between which two
// values the difference lies; the clock is moved by the middle of what all of them leave, until that is near enough.
import { setTimeout as sleep } from 'node:timers/promises';
import type { RequestInput, Result } from '@sandboxd/proto';
import type { Logger } from 'pino';
import { toError } from '../lib/errors.ts';

/** Microseconds since 1970. By the clock that a user of the host sees: one that counts from this process's start misses its steps. */
export function nowUs(): number {
  return Date.now() * 1000;
}

/** What is near enough, and is left alone. */
const NEAR_US = 10_000;
/** Round trips in a row; half of the shortest is as near as they can come. */
const ROUNDS = 6;
/** Who waits for a guest waits for no more than two of them after this time, the call that set the clock included. */
const PATIENCE_MS = 100;
/** The host's clock has milliseconds. */
const GRAIN_US = 1000;
/** Two clocks may drift apart so fast. */
const DRIFT_US_PER_S = 500;
/** Looks at a clock that is right, and at one that could not be made so: then again, each time after twice as long. */
const LOOK_MS = 5 * 60_000;
const RETRY_MS = 2000;

/** The way to the guest's agent. */
export type ClockCalls = {
  /** Undefined while it cannot be reached; false for an agent that only takes the time as it is told. */
  readonly canShift: () => boolean | undefined;
  readonly call: (request: RequestInput, signal?: AbortSignal) => Promise<Result>;
};

/** What a guest's clock said at the beginning and at the end of a call; `toUs` is 0 when nobody knows. */
export type ClockSpan = { readonly fromUs: number; readonly toUs: number };

/** Guest's time less the host's is between these. */
type Range = { readonly lowUs: number; readonly highUs: number };
const ANYTHING: Range = { lowUs: Number.NEGATIVE_INFINITY, highUs: Number.POSITIVE_INFINITY };

export class GuestClock {
  readonly #calls: ClockCalls;
  readonly #log: Logger;
  /** As of `#knownAtMs`. */
  #known = ANYTHING;
  #knownAtMs = 0;
  /** Counts what makes earlier round trips worthless. */
  #epoch = 0;
  /** Whether the guest may have stood still since its clock was last right. */
  #isDistrusted = false;
  #work: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #retryMs = RETRY_MS;
  #isClosed = false;

  constructor(calls: ClockCalls, log: Logger) {
    this.#calls = calls;
    this.#log = log;
  }

  /** The guest stood still, or may have: its clock is put right now, or as soon as `reached` is called. */
  distrust(): void {
    this.#forget();
    this.#isDistrusted = true;
    this.reached();
  }

  /** The guest can be reached. */
  reached(): void {
    if (this.#isDistrusted) this.#look();
  }

  /** Makes a call that sets the clock, puts it right and sees to it from here on. Rejects as the call, or another, does. */
  async settle(set: () => Promise<ClockSpan>, signal?: AbortSignal): Promise<void> {
    while (this.#work !== undefined) await this.#work;
    this.#forget();
    const work = this.#setAndCorrect(set, signal);
    this.#work = work.catch(() => undefined);
    try {
      await work;
    } finally {
      this.#work = undefined;
    }
    // Nobody waits for it, but it is sent before whatever else the guest is asked to do.
    if (this.#calls.canShift() === true && !this.#isNear) this.#look(1);
    else this.#plan();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #forget(): void {
    this.#epoch += 1;
    this.#known = ANYTHING;
    this.#retryMs = RETRY_MS;
  }

  #look(rounds = ROUNDS): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || this.#work !== undefined) return;
    if (this.#calls.canShift() === undefined) {
      this.#isDistrusted = true;
      return;
    }
    const epoch = this.#epoch;
    this.#isDistrusted = false;
    this.#work = this.#correct(rounds, Number.POSITIVE_INFINITY)
      .catch((err) => {
        // Over the next connection, if that is what failed.
        this.#isDistrusted = true;
        this.#log.debug({ err: toError(err) }, 'cannot correct the clock of a guest now');
      })
      .finally(() => {
        this.#work = undefined;
        if (epoch !== this.#epoch) this.#look();
        else this.#plan();
      });
  }

  #plan(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || this.#calls.canShift() === false) return;
    const isNear = this.#isNear;
    const waitMs = isNear ? LOOK_MS : Math.min(LOOK_MS, this.#retryMs);
    this.#retryMs = isNear ? RETRY_MS : this.#retryMs * 2;
    this.#timer = setTimeout(() => this.#look(), waitMs).unref();
  }

  get #isNear(): boolean {
    return farthestUs(this.#known) <= NEAR_US;
  }

  async #setAndCorrect(set: () => Promise<ClockSpan>, signal?: AbortSignal): Promise<void> {
    const patientUntilMs = performance.now() + PATIENCE_MS;
    await this.#measure(set, 0);
    if (!this.#isNear) await this.#correct(ROUNDS, patientUntilMs, signal);
  }

  async #correct(rounds: number, patientUntilMs: number, signal?: AbortSignal): Promise<void> {
    if (this.#calls.canShift() !== true) {
      await this.#set(patientUntilMs, signal);
      return;
    }
    let trips = this.#known === ANYTHING ? 0 : 1;
    for (let round = 0; round < rounds; round++) {
      const shiftUs = this.#shiftUs();
      // Not in the same moment of a busy host.
      if (round > 0 && shiftUs === 0) await sleep(1);
      await this.#measure(() => this.#shift(shiftUs, signal), shiftUs);
      trips += 1;
      if (this.#isClosed || this.#isNear) break;
      if (trips > 1 && performance.now() > patientUntilMs) break;
    }
    this.#log.debug({ ...this.#known }, 'the clock of a guest');
  }

  /** What brings the clock to the middle of what is left. What the host's clock cannot tell is no reason to move the guest's. */
  #shiftUs(): number {
    const middleUs = (this.#known.lowUs + this.#known.highUs) / 2;
    return Number.isFinite(middleUs) && Math.abs(middleUs) > GRAIN_US ? -Math.round(middleUs) : 0;
  }

  async #shift(shiftUs: number, signal?: AbortSignal): Promise<ClockSpan> {
    const { setClock } = await this.#calls.call({ setClock: { shiftUs } }, signal);
    const unixTimeUs = setClock?.unixTimeUs ?? 0;
    return { fromUs: unixTimeUs, toUs: unixTimeUs };
  }

  /** One round trip, after which `#known` holds what it and those before it say. */
  async #measure(call: () => Promise<ClockSpan>, shiftUs: number): Promise<void> {
    const epoch = this.#epoch;
    const sentUs = nowUs();
    const sentMs = performance.now();
    const { fromUs, toUs } = await call();
    const tripUs = (performance.now() - sentMs) * 1000;
    if (epoch !== this.#epoch || toUs === 0) return;
    // The guest read its clock between the two moments, each known to a millisecond.
    const found = { lowUs: toUs - sentUs - tripUs - GRAIN_US, highUs: fromUs - sentUs };
    const driftUs = ((sentMs - this.#knownAtMs) / 1000) * DRIFT_US_PER_S;
    const before = {
      lowUs: this.#known.lowUs + shiftUs - driftUs,
      highUs: this.#known.highUs + shiftUs + driftUs,
    };
    const both = {
      lowUs: Math.max(found.lowUs, before.lowUs),
      highUs: Math.min(found.highUs, before.highUs),
    };
    // When they contradict each other, somebody else set one of the clocks.
    this.#known = both.lowUs <= both.highUs ? both : found;
    this.#knownAtMs = performance.now();
  }

  /** For an agent that cannot say what it has: the time at which the message is likely to arrive. */
  async #set(patientUntilMs: number, signal?: AbortSignal): Promise<void> {
    let halfUs = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const sentMs = performance.now();
      await this.#calls.call({ setClock: { unixTimeUs: nowUs() + Math.round(halfUs) } }, signal);
      const tripUs = (performance.now() - sentMs) * 1000;
      const errorUs = Math.max(halfUs, tripUs - halfUs);
      if (errorUs <= NEAR_US || (round > 0 && errorUs <= tripUs * 0.6)) return;
      if (round > 0 && performance.now() > patientUntilMs) return;
      halfUs = tripUs / 2;
    }
  }
}

function farthestUs({ lowUs, highUs }: Range): number {
  return Math.max(Math.abs(lowUs), Math.abs(highUs));
}
