// Whether pods of others are ready, by probes of their guests: one answer is enough, and several failures in turn
// end it.
import type { Readiness } from '../kubernetes/pod-wish.ts';

export class PodReadiness {
  /** Failures in turn of those that were ready. */
  readonly #failures = new Map<string, number>();

  isReady(id: string, { failureThreshold }: Readiness, isAnswered: boolean): boolean {
    const failures = isAnswered ? 0 : (this.#failures.get(id) ?? failureThreshold) + 1;
    if (failures < failureThreshold) this.#failures.set(id, failures);
    else this.#failures.delete(id);
    return failures < failureThreshold;
  }

  /** It does not run, so that a probe has to succeed again. */
  forget(id: string): void {
    this.#failures.delete(id);
  }
}
