// Waits for a condition that a test expects, also while a FakeClock is installed.
import { setTimeout as sleep } from 'node:timers/promises';
import { scaled } from './time-scale.ts';

/** Far above any regular wait on a busy machine; only a fault takes this long. */
const LIMIT_MS = 20_000;

const now = performance.now.bind(performance);

/** Resolves once `isTrue`; rejects after the limit and names the condition. */
export async function until(isTrue: () => boolean, what = String(isTrue), limitMs = LIMIT_MS): Promise<void> {
  const deadline = now() + scaled(limitMs);
  while (!isTrue()) {
    if (now() > deadline) throw new Error(`timed out waiting for ${what}`);
    await sleep(2);
  }
}
