// Wall clocks of parts that share this process: what a part does follows its own clock, also after waits, since its
// callbacks keep the context in which it was started. Import this before anything that keeps `Date.now`.
import { AsyncLocalStorage } from 'node:async_hooks';

export type Clock = {
  /** By how much it is ahead. */
  offsetMs: number;
};

const clocks = new AsyncLocalStorage<Clock>();
const RealDate = Date;
const now = (): number => RealDate.now() + (clocks.getStore()?.offsetMs ?? 0);

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, made) => Reflect.construct(target, args.length === 0 ? [now()] : args, made),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
});

/** What begins in `run` reads this clock. */
export function withClock<T>(clock: Clock, run: () => T): T {
  return clocks.run(clock, run);
}
