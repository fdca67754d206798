// Corrects the clock of a guest. Each round trip bounds the difference between the guest's clock and the host's. The
// clock is shifted by the middle of the remaining range until that is precise enough.
import { setTimeout as sleep } from 'node:timers/promises';
import type { RequestInput, Result } from '@sandboxd/proto';
import type { Logger } from 'pino';
import { toError } from '../lib/errors.ts';

/**
 * Microseconds since 1970, from the system clock: a clock relative to the process's start would miss steps of the
 * system clock.
 */
export function nowUs(): number {
  return Date.now() * 1000;
}

/** A deviation up to this is accepted. */
const TOLERANCE_US = 10_000;
/** Round trips per correction; the precision is half of the shortest one. */
const ROUNDS = 6;
/** After this time, a client waits for no more than two round trips, the call that sets the clock included. */
const MAX_WAIT_MS = 100;
/** Resolution of the host's clock. */
const RESOLUTION_US = 1000;
/** Assumed maximum drift between the two clocks. */
const DRIFT_US_PER_S = 500;
/** Intervals of clock checks: of a correct clock, and after a failed correction. Doubled each time. */
const CHECK_MS = 5 * 60_000;
const RETRY_MS = 2000;

/** Calls to the guest's agent. */
type ClockCalls = {
  readonly isReachable: () => boolean;
  readonly call: (request: RequestInput, signal?: AbortSignal) => Promise<Result>;
};

/** The guest's clock at the beginning and at the end of a call; `toUs` is 0 if unknown. */
export type ClockSpan = { readonly fromUs: number; readonly toUs: number };

/** Bounds of the guest's time minus the host's. */
type Range = { readonly lowUs: number; readonly highUs: number };
const ANYTHING: Range = { lowUs: Number.NEGATIVE_INFINITY, highUs: Number.POSITIVE_INFINITY };

export class GuestClock {
  readonly #calls: ClockCalls;
  readonly #log: Logger;
  /** As of `#knownAtMs`. */
  #known = ANYTHING;
  #knownAtMs = 0;
  /** Incremented by each event that invalidates earlier round trips. */
  #epoch = 0;
  /** Whether the guest may have been paused since its clock was last correct. */
  #needsCheck = false;
  #work: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #retryMs = RETRY_MS;
  #isClosed = false;

  constructor(calls: ClockCalls, log: Logger) {
    this.#calls = calls;
    this.#log = log;
  }

  /** The guest was or may have been paused: corrects its clock now, or as soon as `reached` is called. */
  distrust(): void {
    this.#forget();
    this.#needsCheck = true;
    this.reached();
  }

  /** The guest is reachable. */
  reached(): void {
    if (this.#needsCheck) this.#check();
  }

  /**
   * Makes a call that sets the clock, corrects the clock, and keeps it correct from then on. Rejects with the error of
   * any of these calls.
   */
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
    // Runs in the background, but the first message is sent before any other request to the guest.
    if (this.#calls.isReachable() && !this.#isAccurate) this.#check(1);
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

  #check(rounds = ROUNDS): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || this.#work !== undefined) return;
    if (!this.#calls.isReachable()) {
      this.#needsCheck = true;
      return;
    }
    const epoch = this.#epoch;
    this.#needsCheck = false;
    this.#work = this.#correct(rounds, Number.POSITIVE_INFINITY)
      .catch((err) => {
        // Retried over the next connection, in case this one failed.
        this.#needsCheck = true;
        this.#log.debug({ err: toError(err) }, 'cannot correct the clock of a guest, will retry');
      })
      .finally(() => {
        this.#work = undefined;
        if (epoch !== this.#epoch) this.#check();
        else this.#plan();
      });
  }

  #plan(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const isAccurate = this.#isAccurate;
    const waitMs = isAccurate ? CHECK_MS : Math.min(CHECK_MS, this.#retryMs);
    this.#retryMs = isAccurate ? RETRY_MS : this.#retryMs * 2;
    this.#timer = setTimeout(() => this.#check(), waitMs).unref();
  }

  get #isAccurate(): boolean {
    return maxErrorUs(this.#known) <= TOLERANCE_US;
  }

  async #setAndCorrect(set: () => Promise<ClockSpan>, signal?: AbortSignal): Promise<void> {
    const deadlineMs = performance.now() + MAX_WAIT_MS;
    await this.#measure(set, 0);
    if (!this.#isAccurate) await this.#correct(ROUNDS, deadlineMs, signal);
  }

  async #correct(rounds: number, deadlineMs: number, signal?: AbortSignal): Promise<void> {
    let trips = this.#known === ANYTHING ? 0 : 1;
    for (let round = 0; round < rounds; round++) {
      const shiftUs = this.#shiftUs();
      // Avoids two measurements in the same short stall of a busy host.
      if (round > 0 && shiftUs === 0) await sleep(1);
      await this.#measure(() => this.#shift(shiftUs, signal), shiftUs);
      trips += 1;
      if (this.#isClosed || this.#isAccurate) break;
      if (trips > 1 && performance.now() > deadlineMs) break;
    }
    this.#log.debug({ ...this.#known }, 'measured the clock of a guest');
  }

  /** The shift to the middle of the remaining range; 0 if it is below the resolution of the host's clock. */
  #shiftUs(): number {
    const middleUs = (this.#known.lowUs + this.#known.highUs) / 2;
    return Number.isFinite(middleUs) && Math.abs(middleUs) > RESOLUTION_US ? -Math.round(middleUs) : 0;
  }

  async #shift(shiftUs: number, signal?: AbortSignal): Promise<ClockSpan> {
    const { setClock } = await this.#calls.call({ setClock: { shiftUs } }, signal);
    const unixTimeUs = setClock?.unixTimeUs ?? 0;
    return { fromUs: unixTimeUs, toUs: unixTimeUs };
  }

  /** Makes one round trip and narrows `#known` by its result. */
  async #measure(call: () => Promise<ClockSpan>, shiftUs: number): Promise<void> {
    const epoch = this.#epoch;
    const sentUs = nowUs();
    const sentMs = performance.now();
    const { fromUs, toUs } = await call();
    const tripUs = (performance.now() - sentMs) * 1000;
    if (epoch !== this.#epoch || toUs === 0) return;
    // The guest read its clock between the two moments, each known to a millisecond.
    const found = { lowUs: toUs - sentUs - tripUs - RESOLUTION_US, highUs: fromUs - sentUs };
    const driftUs = ((sentMs - this.#knownAtMs) / 1000) * DRIFT_US_PER_S;
    const before = {
      lowUs: this.#known.lowUs + shiftUs - driftUs,
      highUs: this.#known.highUs + shiftUs + driftUs,
    };
    const both = {
      lowUs: Math.max(found.lowUs, before.lowUs),
      highUs: Math.min(found.highUs, before.highUs),
    };
    // A contradiction means that another program set one of the clocks.
    this.#known = both.lowUs <= both.highUs ? both : found;
    this.#knownAtMs = performance.now();
  }
}

function maxErrorUs({ lowUs, highUs }: Range): number {
  return Math.max(Math.abs(lowUs), Math.abs(highUs));
}
