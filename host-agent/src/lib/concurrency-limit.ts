// A concurrency limit for long-lived streams: one in total, and one per client.
import { AppError } from './errors.ts';

export type ConcurrencyLimitOptions = {
  /** Names the streams in the error message, in the plural. */
  readonly what: string;
  readonly max: number;
  /** Maximum for one tenant or key. */
  readonly maxPerClient: number;
};

export class ConcurrencyLimit {
  readonly #options: ConcurrencyLimitOptions;
  readonly #taken = new Map<string | undefined, number>();
  #count = 0;

  constructor(options: ConcurrencyLimitOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  /**
   * Occupies a slot until disposed (idempotent). Undefined: a client without an identity; only the total limit applies.
   * AppError exhausted.
   */
  acquire(who: string | undefined): Disposable {
    const { what, max: most, maxPerClient: mostOfEach } = this.#options;
    const own = this.#taken.get(who) ?? 0;
    const limit = who === undefined ? most : mostOfEach;
    if (this.#count >= most)
      throw new AppError('exhausted', `there are ${most} ${what} already; try again later`);
    if (own >= limit) throw new AppError('exhausted', `you have ${limit} ${what} already; close some`);
    this.#count += 1;
    this.#taken.set(who, own + 1);
    let isTaken = true;
    return {
      [Symbol.dispose]: () => {
        if (!isTaken) return;
        isTaken = false;
        this.#count -= 1;
        const left = (this.#taken.get(who) ?? 1) - 1;
        if (left === 0) this.#taken.delete(who);
        else this.#taken.set(who, left);
      },
    };
  }
}
