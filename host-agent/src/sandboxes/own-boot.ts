// The template that a create makes of the guest that it boots. Concurrent creates of the same kind wait for it.
import type { BootedTemplate, StartContext } from './resources/resource.ts';
import type { SavedGuest } from './saved/saved-guest.ts';

export type OwnBootOptions = {
  /** Size of the guest's layer when it is saved. */
  readonly diskBytes: number;
  /** The signal of the create. */
  readonly signal: AbortSignal;
  /** Saves the guest; calls `onWritten` when it can be used. */
  readonly save: (start: StartContext, signal: AbortSignal, onWritten: () => void) => Promise<SavedGuest>;
};

export class OwnBoot implements BootedTemplate {
  readonly #options: OwnBootOptions;
  readonly #result = Promise.withResolvers<SavedGuest>();
  #hasBegun = false;
  /** The create must do without it, and may have to boot again. */
  hasFailed = false;

  constructor(options: OwnBootOptions) {
    this.#options = options;
    this.#result.promise.catch(() => {
      this.hasFailed = true;
    });
  }

  get diskBytes(): number {
    return this.#options.diskBytes;
  }

  /** Rejects if there will be none. */
  get made(): Promise<SavedGuest> {
    return this.#result.promise;
  }

  /** It failed because the create was cancelled, which says nothing about another create. */
  get isCancelled(): boolean {
    return this.#options.signal.aborted;
  }

  async save(start: StartContext, signal: AbortSignal): Promise<void> {
    this.#hasBegun = true;
    await new Promise<void>((resolve) => {
      this.#result.resolve(this.#options.save(start, signal, resolve));
      this.#result.promise.catch(() => resolve());
    });
  }

  /** The create has failed. What is being saved already may still become a template. */
  abandon(reason: unknown): void {
    if (!this.#hasBegun) this.#result.reject(reason);
  }
}
