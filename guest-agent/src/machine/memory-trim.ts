// Gives memory back that a burst of work has left free: the agent shares a small machine with what it runs.
import process from 'node:process';
import { addon } from '../native/addon.ts';

/** Without a call for so long, nobody waits for the agent. */
const IDLE_MS = 1000;
/** Worth the time, which is some milliseconds where the guest is emulated. */
const GROWTH_BYTES = 12 * 1024 * 1024;

export class MemoryTrim {
  #timer: NodeJS.Timeout | undefined;
  #trimmedBytes = 0;

  /** To be called for each call; costs next to nothing. */
  touch(): void {
    if (this.#timer === undefined) this.#timer = setTimeout(() => this.check(), IDLE_MS);
    else this.#timer.refresh();
  }

  /** At once: what a start has left is so gone before the guest is saved, and not in each copy of it. */
  check(): void {
    if (process.memoryUsage.rss() - this.#trimmedBytes < GROWTH_BYTES) return;
    addon.trimMemory();
    this.#trimmedBytes = process.memoryUsage.rss();
  }
}
