// The end of sandboxes on this host, whose clean-up is retried until nothing is left, and operations that add sandboxes
// or snapshots. A stopping daemon waits for both.
import type { Logger } from 'pino';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { LifecycleEvent, LifecycleEvents } from './lifecycle-events.ts';
import type { Sandbox } from './sandbox.ts';
import type { Snapshots } from './snapshots.ts';

const RETRY_MS = 5000;
/** A stopping daemon waits this long. */
const LAST_DELETES_MS = 10_000;

/** Background clean-up of deleted sandboxes. */
export class Sweeps {
  readonly #log: Logger;
  readonly #retryMs: number;
  /** The error of the last failed attempt, by sandbox. */
  readonly #remaining = new Map<Sandbox, unknown>();
  readonly #attempts = new Set<Promise<void>>();
  readonly #retries = new Set<NodeJS.Timeout>();

  constructor(log: Logger, retryMs = RETRY_MS) {
    this.#log = log;
    this.#retryMs = retryMs;
  }

  /** Sandboxes that are not completely removed. */
  get sandboxes(): readonly Sandbox[] {
    return [...this.#remaining.keys()];
  }

  /** `onSwept`: called when an attempt has ended. */
  start(sandbox: Sandbox, onSwept?: () => Promise<void>): void {
    this.#remaining.set(sandbox, undefined);
    const work: Promise<void> = this.#attempt(sandbox)
      .then(onSwept)
      .finally(() => this.#attempts.delete(work));
    this.#attempts.add(work);
  }

  /** Resolves when one attempt in progress succeeded or failed; undefined when there are none. */
  next(): Promise<void> | undefined {
    return this.#attempts.size === 0 ? undefined : Promise.race(this.#attempts);
  }

  /** Retries failed clean-ups once, and waits for all attempts. Rejects when something is left. */
  async finish(): Promise<void> {
    for (const [sandbox, failure] of this.#remaining) if (failure !== undefined) this.start(sandbox);
    await Promise.all(this.#attempts);
    for (const retry of this.#retries) clearTimeout(retry);
    for (const failure of this.#remaining.values()) throw failure;
  }

  /**
   * Waits a limited time for deletes in progress and their clean-up, which continues after the response. The next
   * daemon finishes the rest.
   */
  async finishSoon(deletes: readonly Promise<unknown>[]): Promise<void> {
    using limit = deadline(LAST_DELETES_MS, () => new Error('deletes take too long'));
    const finished = Promise.allSettled(deletes).then(() => this.finish());
    await raceSignal(finished, limit.signal).catch(() => undefined);
  }

  async #attempt(sandbox: Sandbox): Promise<void> {
    try {
      await sandbox.sweep();
      this.#remaining.delete(sandbox);
    } catch (err) {
      this.#remaining.set(sandbox, err);
      this.#log.error({ err, sandbox: sandbox.id }, 'cannot remove all of a deleted sandbox; retrying');
      const retry = setTimeout(() => {
        this.#retries.delete(retry);
        if (this.#remaining.get(sandbox) !== undefined) this.start(sandbox);
      }, this.#retryMs).unref();
      this.#retries.add(retry);
    }
  }
}

/**
 * Operations in progress that add sandboxes or snapshots. A stopping daemon refuses new ones, cancels those in
 * progress, and waits until they are undone.
 */
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

type RemovalDeps = {
  readonly sandboxes: Map<string, Sandbox>;
  readonly events: Pick<LifecycleEvents, 'notify'>;
  readonly sweeps: Sweeps;
  readonly snapshots: Pick<Snapshots, 'forgetUnused'>;
};

export type Removal = {
  /** See `Sandbox.leave`. */
  readonly reason?: string | undefined;
  readonly events?: readonly LifecycleEvent[] | undefined;
  /** Another host has it; called when nothing of it is left here. */
  readonly onGone?: (() => Promise<void>) | undefined;
};

/** Hidden first, then cleaned up in the background. */
export async function removeSandbox(
  sandbox: Sandbox,
  { sandboxes, events, sweeps, snapshots }: RemovalDeps,
  { reason, events: persisted, onGone }: Removal,
): Promise<void> {
  const isMoved = onGone !== undefined;
  await sandbox.leave(reason, persisted, isMoved);
  if (!sandboxes.delete(sandbox.id)) return;
  events.notify({ kind: isMoved ? 'moved' : 'deleted', sandbox: sandbox.id });
  sweeps.start(sandbox, async () => {
    if (sandbox.state === 'deleted') await onGone?.();
    await snapshots.forgetUnused();
  });
}
