// Checks of a daemon that runs: what goes on behind an answer has its time.
import { setTimeout as sleep } from 'node:timers/promises';
import { scaled } from './time-scale.ts';

const SETTLE_MS = scaled(15_000);

/** What `find` finds, once it finds nothing or has been asked for long enough. */
export async function settled(find: () => Promise<string[]>): Promise<string[]> {
  const endAt = performance.now() + SETTLE_MS;
  for (;;) {
    const found = await find();
    if (found.length === 0 || performance.now() > endAt) return found;
    await sleep(50);
  }
}
