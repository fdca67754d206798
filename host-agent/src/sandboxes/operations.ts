// Operations in progress that add sandboxes or snapshots. A stopping daemon refuses new ones, cancels those in
// progress, and waits until they are undone.

export class Operations {
  /** Will add sandboxes. */
  readonly starts = new Set<Promise<unknown>>();
  readonly #saves = new Set<Promise<unknown>>();
  readonly #stopping = new AbortController();

  get isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Aborts when the client disconnects or the daemon stops. Throws the reason if that already happened. */
  signal(request?: AbortSignal): AbortSignal {
    const stopping = this.#stopping.signal;
    const signal = request === undefined ? stopping : AbortSignal.any([request, stopping]);
    signal.throwIfAborted();
    return signal;
  }

  trackStart<T>(work: Promise<T>): Promise<T> {
    return track(this.starts, work);
  }

  trackSave<T>(work: Promise<T>): Promise<T> {
    return track(this.#saves, work);
  }

  cancel(reason: Error): void {
    this.#stopping.abort(reason);
  }

  /** Resolves when all have ended. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.starts, ...this.#saves]);
  }
}

function track<T>(all: Set<Promise<unknown>>, work: Promise<T>): Promise<T> {
  all.add(work);
  return work.finally(() => all.delete(work));
}
