// Which failure of a create says that its template is bad. Most do not: a host that is too busy, or whose memory or disk is
// used up, fails good templates, and to make them anew would keep it busy.
import { causesOf, isAppError } from '../lib/errors.ts';
import type { SavedGuest } from './saved/saved-guest.ts';

/** A template that never gave a copy gets so many tries that come to nothing in time. */
const TRIES = 3;
/** Steps of a start that what was saved decides about. */
const OWN_STAGES: readonly (string | undefined)[] = ['restore', 'agent'];

/** What to do after a copy could not be made. */
export type Verdict = {
  /** It is bad: nobody is to use it again. */
  readonly isBad: boolean;
  /** Whether a boot in its place may succeed at once. */
  readonly isWorthBooting: boolean;
};

const INNOCENT: Verdict = { isBad: false, isWorthBooting: false };

export class TemplateTrust {
  readonly #proven = new WeakSet<SavedGuest>();
  readonly #tries = new WeakMap<SavedGuest, number>();

  /** A copy of it was made: what it holds is good for as long as its files are what they were. */
  worked(saved: SavedGuest): void {
    this.#proven.add(saved);
  }

  failed(saved: SavedGuest, error: unknown): Verdict {
    if (!isAppError(error) || error.code === 'exhausted' || error.code === 'cancelled') return INNOCENT;
    const { stage } = error.details;
    // Its files are not what they were.
    if (stage === 'verify') return { isBad: true, isWorthBooting: true };
    // Whether the root or the guest without one is at fault shows in whether a boot of it succeeds.
    if (stage === 'root' && !this.#proven.has(saved)) return { isBad: false, isWorthBooting: true };
    if (!OWN_STAGES.includes(stage) || this.#proven.has(saved)) return INNOCENT;
    const isLate = causesOf(error).some((cause) => isAppError(cause) && cause.details.isTimeout === true);
    if (!isLate) return { isBad: true, isWorthBooting: true };
    const tries = (this.#tries.get(saved) ?? 0) + 1;
    this.#tries.set(saved, tries);
    return { isBad: tries >= TRIES, isWorthBooting: false };
  }
}
