// Uses of a sandbox through the daemon: when the last one was, and the idle watch that they keep from firing.
import type { IdleWatch } from './idle-watch.ts';

type OpenUse = { end: (() => void) | undefined };

export class SandboxUse {
  #lastUsedAtMs: number;
  #watch: IdleWatch | undefined;
  readonly #open = new Set<OpenUse>();

  constructor(lastUsedAtMs: number) {
    this.#lastUsedAtMs = lastUsedAtMs;
  }

  /** Now while a use is open. */
  get lastUsedAtMs(): number {
    if (this.#open.size > 0) this.#lastUsedAtMs = Date.now();
    return this.#lastUsedAtMs;
  }

  /** Begins a use; returns the function that ends it, which may be called more than once. */
  beginUse(): () => void {
    this.#lastUsedAtMs = Date.now();
    const use: OpenUse = { end: this.#watch?.beginUse() };
    this.#open.add(use);
    return () => {
      if (!this.#open.delete(use)) return;
      this.#lastUsedAtMs = Date.now();
      use.end?.();
    };
  }

  touch(): void {
    this.#lastUsedAtMs = Date.now();
    this.#watch?.touch();
  }

  /** Activity of the guest, such as output: it is not idle, but no client used it. */
  noteActivity(): void {
    this.#watch?.touch();
  }

  /** Replaces the idle watch. A new one starts with a whole idle time, and knows the uses that are open. */
  watch(start: (() => IdleWatch) | undefined): void {
    this.#watch?.stop(true);
    this.#watch = start?.();
    for (const use of this.#open) use.end = this.#watch?.beginUse();
  }

  /** `isGone`: the stored state is removed. */
  stop(isGone: boolean): void {
    this.#watch?.stop(isGone);
  }
}
