// Repeats checks of a running daemon until its background work after a response has finished.
import { setTimeout as sleep } from 'node:timers/promises';
import { scaled } from './time-scale.ts';

/** A template may be in the making, at idle priority. */
const SETTLE_MS = scaled(60_000);

/** Calls `find` until it finds nothing or the time is up; returns the last result. */
export async function settled(find: () => Promise<string[]>): Promise<string[]> {
  const endAt = performance.now() + SETTLE_MS;
  for (;;) {
    const found = await find();
    if (found.length === 0 || performance.now() > endAt) return found;
    await sleep(50);
  }
}
