// Decides which failures of a create mean that its template is bad. Most do not: a busy host, or one without free
// memory or disk, fails good templates too, and making them again would add load.
import { causesOf, isAppError } from '../lib/errors.ts';
import type { SavedGuest } from './saved/saved-guest.ts';

/** A template without a successful copy is bad after this many timeouts. */
const MAX_TIMEOUTS = 3;
/** Stages of a start whose outcome depends on the saved state. */
const RESTORE_STAGES: readonly (string | undefined)[] = ['restore', 'agent'];

/** What to do after a copy failed to start. */
export type Verdict = {
  /** The template must not be used again. */
  readonly isBad: boolean;
  /** Whether a cold boot of the same create may succeed at once. */
  readonly isWorthBooting: boolean;
};

const NOT_AT_FAULT: Verdict = { isBad: false, isWorthBooting: false };

export class TemplateTrust {
  readonly #proven = new WeakSet<SavedGuest>();
  readonly #timeouts = new WeakMap<SavedGuest, number>();

  /** Marks the template as proven: a copy started, so its content is good while its files are unchanged. */
  copySucceeded(saved: SavedGuest): void {
    this.#proven.add(saved);
  }

  copyFailed(saved: SavedGuest, error: unknown): Verdict {
    if (!isAppError(error) || error.code === 'exhausted' || error.code === 'cancelled') return NOT_AT_FAULT;
    const { stage } = error.details;
    // Its files changed.
    if (stage === 'verify') return { isBad: true, isWorthBooting: true };
    // A cold boot shows whether the root file system or the generic template is at fault.
    if (stage === 'root' && !this.#proven.has(saved)) return { isBad: false, isWorthBooting: true };
    if (!RESTORE_STAGES.includes(stage) || this.#proven.has(saved)) return NOT_AT_FAULT;
    const isTimeout = causesOf(error).some((cause) => isAppError(cause) && cause.details.isTimeout === true);
    if (!isTimeout) return { isBad: true, isWorthBooting: true };
    const timeouts = (this.#timeouts.get(saved) ?? 0) + 1;
    this.#timeouts.set(saved, timeouts);
    return { isBad: timeouts >= MAX_TIMEOUTS, isWorthBooting: false };
  }
}
