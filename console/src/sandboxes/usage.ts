// Samples of CPU and memory of the sandboxes on the screen: one at a time each, and none while the page is hidden.
import type { Client, SandboxStats } from '@sandboxd/client';
import { Store } from '../live/store.ts';
import { pause, whileVisible } from '../live/visibility.ts';

export type Usage = {
  /** Percent of one CPU, oldest first. */
  readonly cpu: readonly number[];
  readonly ownBytes: number;
  /** Of memory that other sandboxes use too. */
  readonly sharedBytes: number;
  readonly limitBytes: number;
};

const ROUND_MS = 2000;
const MAX_SAMPLES = 30;
/** Sandboxes whose samples are kept, the last seen. */
const MAX_KEPT = 200;
/** A browser has six connections to a daemon; the events and the user's own requests need some. */
const PARALLEL = 2;

export class UsageSampler {
  readonly usage = new Store<ReadonlyMap<string, Usage>>(new Map());
  readonly #client: Client;
  readonly #last = new Map<string, SandboxStats>();
  #watched: readonly string[] = [];

  constructor(client: Client) {
    this.#client = client;
  }

  /** The running sandboxes that are on the screen now. */
  watch(ids: readonly string[]): void {
    this.#watched = ids;
  }

  open(): () => void {
    return whileVisible(async (signal) => {
      for (;;) {
        await this.#round(signal);
        await pause(ROUND_MS, signal);
      }
    });
  }

  async #round(signal: AbortSignal): Promise<void> {
    const queue = [...this.#watched];
    const taken = new Map<string, SandboxStats>();
    const work = async (): Promise<void> => {
      for (let id = queue.shift(); id !== undefined && !signal.aborted; id = queue.shift()) {
        // A sandbox that was deleted meanwhile, or a lost connection, which the events report.
        const stats = await this.#client.sandboxes
          .get(id)
          .stats({ signal })
          .catch(() => undefined);
        if (stats !== undefined) taken.set(id, stats);
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, work));
    if (taken.size === 0) return;
    const next = new Map(this.usage.value);
    for (const [id, stats] of taken) {
      const usage = toUsage(stats, this.#last.get(id), next.get(id));
      next.delete(id);
      next.set(id, usage);
      this.#last.set(id, stats);
    }
    for (const id of [...next.keys()].slice(0, -MAX_KEPT)) {
      next.delete(id);
      this.#last.delete(id);
    }
    this.usage.set(next);
  }
}

export function toUsage(stats: SandboxStats, last?: SandboxStats, before?: Usage): Usage {
  const percent = stats.cpu_percent ?? toPercent(stats, last);
  return {
    cpu: [...(before?.cpu ?? []), ...(percent === undefined ? [] : [percent])].slice(-MAX_SAMPLES),
    ownBytes: stats.private_bytes,
    sharedBytes: Math.max(0, stats.resident_bytes - stats.private_bytes),
    limitBytes: stats.memory_limit_bytes,
  };
}

function toPercent(now: SandboxStats, last: SandboxStats | undefined): number | undefined {
  if (last === undefined) return undefined;
  const us = 1000 * (Date.parse(now.read_at) - Date.parse(last.read_at));
  return us <= 0 ? undefined : (100 * Math.max(0, now.cpu_us - last.cpu_us)) / us;
}
