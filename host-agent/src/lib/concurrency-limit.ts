// Streams that go on for ever have places: so many at once, and so many of each who asks.
import { AppError } from './errors.ts';

export type ConcurrencyLimitOptions = {
  /** What one is, in the plural. */
  readonly what: string;
  readonly max: number;
  /** Of one tenant or key. */
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

  /** Until disposed, which may be done again. Nobody in particular has no share of their own. AppError exhausted. */
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
