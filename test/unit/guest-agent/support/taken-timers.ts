// Timers that the test fires.
import type { Test } from 'tap';

/** Captures every setTimeout until the test ends; the test fires the first of them. */
export function takeTimers(t: Test) {
  const { setTimeout, clearTimeout } = globalThis;
  const waiting = new Map<number, { readonly callback: () => void; readonly ms: number }>();
  let last = 0;
  Object.assign(globalThis, {
    setTimeout: (callback: () => void, ms: number) => {
      waiting.set(++last, { callback, ms });
      return last;
    },
    clearTimeout: (timer: number) => void waiting.delete(timer),
  });
  t.teardown(() => Object.assign(globalThis, { setTimeout, clearTimeout }));
  return {
    waiting: () => [...waiting.values()].map(({ ms }) => ms),
    goOff: () => {
      const [first] = waiting;
      if (first === undefined) throw new Error('no timer waits');
      waiting.delete(first[0]);
      first[1].callback();
    },
  };
}
