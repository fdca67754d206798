// Windows of pulls and pushes that are larger than other streams', as long as there are few: what the reader does not take
// is held in memory, and what is under way is what a command's answer waits behind, but each frame of credit costs both ends
// CPU (docs/architecture.md).
import { DEFAULT_WINDOW_BYTES } from '@sandboxd/proto';

const WINDOW_BYTES = 2 * 1024 * 1024;
/** Most bytes that all of them together are larger than others: all pulls of the daemon, the pushes to one guest. */
const PULLS_BYTES = 32 * 1024 * 1024;
const PUSHES_BYTES = 5 * 1024 * 1024;

export type LentWindow = {
  readonly bytes: number;
  /** Once is enough; more often does nothing. */
  readonly giveBack: () => void;
};

export class WindowBudget {
  readonly #windowBytes: number;
  #leftBytes: number;

  constructor(windowBytes: number, budgetBytes: number) {
    this.#windowBytes = windowBytes;
    this.#leftBytes = budgetBytes;
  }

  /** Undefined when too many have one. */
  lend(): LentWindow | undefined {
    const extra = this.#windowBytes - DEFAULT_WINDOW_BYTES;
    if (extra > this.#leftBytes) return undefined;
    this.#leftBytes -= extra;
    let isLent = true;
    return {
      bytes: this.#windowBytes,
      giveBack: () => {
        if (isLent) this.#leftBytes += extra;
        isLent = false;
      },
    };
  }
}

/** Of the whole daemon, which holds what clients do not take. */
export const pullWindows = new WindowBudget(WINDOW_BYTES, PULLS_BYTES);

/** Of one guest, which holds what it cannot write yet. */
export function createPushWindows(): WindowBudget {
  return new WindowBudget(WINDOW_BYTES, PUSHES_BYTES);
}
