// Gives memory back that a burst of work has left free: the agent shares a small machine with what it runs.
import { addon, NO_DIRECTORY } from '../native/addon.ts';

/** Without a call for so long, nobody waits for the agent. */
const IDLE_MS = 1000;
/** Worth the time, which is some milliseconds where the guest is emulated. */
const GROWTH_PAGES = (12 * 1024 * 1024) / 4096;

export class MemoryTrim {
  #timer: NodeJS.Timeout | undefined;
  #trimmedPages = 0;

  /** To be called for each call; costs next to nothing. */
  touch(): void {
    if (this.#timer === undefined) this.#timer = setTimeout(() => this.check(), IDLE_MS);
    else this.#timer.refresh();
  }

  /** At once: what a start has left is so gone before the guest is saved, and not in each copy of it. */
  check(): void {
    if (ownPages() - this.#trimmedPages < GROWTH_PAGES) return;
    addon.trimMemory();
    this.#trimmedPages = ownPages();
  }

  /** To be called in a copy: what its source had left free is shared with that, and costs nothing until it is given back. */
  startAnew(): void {
    this.#trimmedPages = ownPages();
  }
}

/**
 * What is resident with no file behind it. Code that comes back from the page cache is no growth: to take it away again and again
 * gives nobody anything, and costs each copy of this guest the pages in which its kernel writes that down.
 */
function ownPages(): number {
  const [, resident = 0, shared = 0] = addon
    .readText(NO_DIRECTORY, '/proc/self/statm')
    .split(' ')
    .map(Number);
  return resident - shared;
}
