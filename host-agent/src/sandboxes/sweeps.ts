// What only takes time of deleted sandboxes goes on behind the answer, and is tried until nothing of them is left.
import type { Logger } from 'pino';
import type { Sandbox } from './sandbox.ts';

const RETRY_MS = 5000;

export class Sweeps {
  readonly #log: Logger;
  readonly #retryMs: number;
  /** Of each what its last try failed with. */
  readonly #left = new Map<Sandbox, unknown>();
  readonly #tries = new Set<Promise<void>>();
  readonly #retries = new Set<NodeJS.Timeout>();

  constructor(log: Logger, retryMs = RETRY_MS) {
    this.#log = log;
    this.#retryMs = retryMs;
  }

  /** Those of which something is left. */
  get sandboxes(): readonly Sandbox[] {
    return [...this.#left.keys()];
  }

  begin(sandbox: Sandbox): void {
    this.#left.set(sandbox, undefined);
    const work: Promise<void> = this.#try(sandbox).finally(() => this.#tries.delete(work));
    this.#tries.add(work);
  }

  /** Resolves when one that is under way succeeded or failed; undefined when there is none. */
  next(): Promise<void> | undefined {
    return this.#tries.size === 0 ? undefined : Promise.race(this.#tries);
  }

  /** Tries what failed a last time, and waits for all that is under way. Rejects when something is left. */
  async finish(): Promise<void> {
    for (const [sandbox, failure] of this.#left) if (failure !== undefined) this.begin(sandbox);
    await Promise.all(this.#tries);
    for (const retry of this.#retries) clearTimeout(retry);
    for (const failure of this.#left.values()) throw failure;
  }

  async #try(sandbox: Sandbox): Promise<void> {
    try {
      await sandbox.sweep();
      this.#left.delete(sandbox);
    } catch (err) {
      this.#left.set(sandbox, err);
      this.#log.error(
        { err, sandbox: sandbox.id },
        'cannot remove all of a deleted sandbox; it is tried again',
      );
      const retry = setTimeout(() => {
        this.#retries.delete(retry);
        if (this.#left.get(sandbox) !== undefined) this.begin(sandbox);
      }, this.#retryMs).unref();
      this.#retries.add(retry);
    }
  }
}
