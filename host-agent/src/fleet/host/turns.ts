// Work on places: one at a time for each, a few at once, and again later where it failed.
import { backOffMs } from '../../lib/back-off.ts';

const MAX_AT_ONCE = 16;
const BACK_OFF = { firstMs: 500, mostMs: 30_000, jitter: 0.25 };

export type TurnShares = {
  /** Of all. */
  readonly atOnce: number;
  /** Of each group. */
  readonly share: number;
  readonly groupOf: (id: string) => string;
};

const ONE_GROUP: TurnShares = { atOnce: MAX_AT_ONCE, share: MAX_AT_ONCE, groupOf: () => '' };

export class Turns {
  readonly #work: (id: string) => Promise<void>;
  readonly #onFailure: (id: string, error: unknown) => void;
  /** By group; of those that wait, the one whose turn was last comes last. */
  readonly #queue = new Map<string, Set<string>>();
  /** The group in which each waits. */
  readonly #queued = new Map<string, string>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #shares: TurnShares;
  /** How many of each group run. */
  readonly #groups = new Map<string, number>();
  readonly #failures = new Map<string, number>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  #isStopped = false;

  constructor(
    work: (id: string) => Promise<void>,
    onFailure: (id: string, error: unknown) => void,
    shares: TurnShares = ONE_GROUP,
  ) {
    this.#shares = shares;
    this.#work = work;
    this.#onFailure = onFailure;
  }

  enqueue(id: string): void {
    if (this.#isStopped) return;
    if (!this.#queued.has(id)) {
      const group = this.#shares.groupOf(id);
      const ids = this.#queue.get(group) ?? new Set();
      this.#queue.set(group, ids.add(id));
      this.#queued.set(id, group);
    }
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.#next();
  }

  later(id: string, waitMs: number): void {
    clearTimeout(this.#timers.get(id));
    if (this.#isStopped) return;
    this.#timers.set(id, setTimeout(() => this.enqueue(id), waitMs).unref());
  }

  isRunning(id: string): boolean {
    return this.#running.has(id);
  }

  /** Nothing begins any more. */
  stop(): void {
    this.#isStopped = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#queue.clear();
    this.#queued.clear();
  }

  /** Resolves when nothing runs. */
  async idle(): Promise<void> {
    await Promise.all(this.#running.values());
  }

  /** It reads no list of all that wait: a group may have many, and each change comes here. */
  #next(): void {
    const { atOnce, share } = this.#shares;
    for (let isAny = true; isAny; ) {
      isAny = false;
      for (const [group, ids] of [...this.#queue]) {
        if (this.#running.size >= atOnce) return;
        if ((this.#groups.get(group) ?? 0) >= share) continue;
        const id = ids.values().find((each) => !this.#running.has(each));
        if (id === undefined) continue;
        isAny = true;
        ids.delete(id);
        this.#queued.delete(id);
        this.#queue.delete(group);
        if (ids.size > 0) this.#queue.set(group, ids);
        this.#begin(id, group);
      }
    }
  }

  #begin(id: string, group: string): void {
    this.#groups.set(group, (this.#groups.get(group) ?? 0) + 1);
    // Not before it is known to run: work may enqueue its own id.
    const begun = Promise.resolve().then(() => this.#try(id));
    const done = begun.finally(() => {
      this.#running.delete(id);
      const left = (this.#groups.get(group) ?? 0) - 1;
      if (left > 0) this.#groups.set(group, left);
      else this.#groups.delete(group);
      this.#next();
    });
    this.#running.set(id, done);
  }

  async #try(id: string): Promise<void> {
    try {
      await this.#work(id);
      this.#failures.delete(id);
    } catch (error) {
      const failures = (this.#failures.get(id) ?? 0) + 1;
      this.#failures.set(id, failures);
      this.#onFailure(id, error);
      this.later(id, backOffMs(failures, BACK_OFF));
    }
  }
}
