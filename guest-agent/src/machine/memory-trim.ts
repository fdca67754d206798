// Returns memory to the kernel after a burst of work: the agent shares a small machine with the commands.
import { addon, NO_DIRECTORY } from '../native/addon.ts';

/** After this time without a call, no client waits for the agent. */
const IDLE_MS = 1000;
/** Minimum growth that justifies a trim, which takes some milliseconds in an emulated guest. */
const GROWTH_PAGES = (12 * 1024 * 1024) / 4096;

export class MemoryTrim {
  #timer: NodeJS.Timeout | undefined;
  #trimmedPages = 0;

  /** To be called for each call; the cost is negligible. */
  touch(): void {
    if (this.#timer === undefined) this.#timer = setTimeout(() => this.check(), IDLE_MS);
    else this.#timer.refresh();
  }

  /** Trims at once: memory left by the start is released before the guest is snapshotted, instead of in each copy. */
  check(): void {
    if (ownPages() - this.#trimmedPages < GROWTH_PAGES) return;
    addon.trimMemory();
    this.#trimmedPages = ownPages();
  }

  /**
   * To be called in a copy: memory that its source left free is shared with that source, and a trim would unshare it.
   */
  resetBaseline(): void {
    this.#trimmedPages = ownPages();
  }
}

/**
 * Resident pages without a file behind them. Code that returns from the page cache does not count as growth: evicting
 * it again would gain no memory, and would cost each copy of this guest the pages of the kernel's bookkeeping.
 */
function ownPages(): number {
  const [, resident = 0, shared = 0] = addon
    .readText(NO_DIRECTORY, '/proc/self/statm')
    .split(' ')
    .map(Number);
  return resident - shared;
}
