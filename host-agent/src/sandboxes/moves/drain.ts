// Empties this host: it takes nothing new, and each of its sandboxes is paused and offered to other hosts, a few at a
// time. A daemon that starts again goes on with it.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { AppError, firstLine } from '../../lib/errors.ts';
import type { Table } from '../../store/store.ts';
import type { LifecycleEvents } from '../lifecycle-events.ts';
import type { Sandbox } from '../sandbox.ts';
import { RetryQueue } from '../stored/retry-queue.ts';
import type { Departures } from './departures.ts';

/** Each writes the memory of a guest to the disk, and sends it. */
const CONCURRENCY = 2;
const RETRY_AFTER_S = 30;
/** Key of the only record. */
const DRAIN = 'drain';

export type DrainRecord = { readonly sinceMs: number };

export type DrainDeps = {
  readonly records: Table<DrainRecord>;
  readonly sandboxes: () => Iterable<Sandbox>;
  readonly find: (id: string) => Sandbox | undefined;
  readonly departures: Departures | undefined;
  readonly resume: (sandbox: Sandbox) => Promise<void>;
  readonly events: Pick<LifecycleEvents, 'subscribe'>;
  readonly log: Logger;
};

/** `offered`: in the snapshot store, and no other host has it yet. */
export type DrainingState = 'waiting' | 'pausing' | 'sending' | 'offered' | 'stays';

export type DrainProgress = {
  readonly state: 'off' | 'draining' | 'drained';
  readonly since?: Date;
  /** That other hosts have by now, since this daemon started. */
  readonly moved: number;
  /** Seconds until the others are offered, by the pace until now. */
  readonly secondsLeft?: number;
  readonly sandboxes: readonly {
    readonly id: string;
    readonly state: DrainingState;
    readonly reason?: string;
  }[];
};

export class Drain {
  readonly #deps: DrainDeps;
  readonly #problems = new Map<string, string>();
  readonly #active = new Set<string>();
  readonly #queue: RetryQueue;
  #startedAt = performance.now();
  #done = 0;
  #moved = 0;
  #ending: Promise<void> | undefined;
  #unsubscribe: () => void = () => undefined;

  constructor(deps: DrainDeps) {
    this.#deps = deps;
    this.#queue = new RetryQueue({
      concurrency: CONCURRENCY,
      work: (id) => this.#depart(id),
      onFailure: (sandbox, error) => {
        this.#problems.set(sandbox, firstLine(error));
        deps.log.warn(
          { sandbox, reason: firstLine(error) },
          'a sandbox cannot leave this host yet; trying again',
        );
      },
    });
  }

  get isOn(): boolean {
    return this.#deps.records.get(DRAIN) !== undefined;
  }

  /** Goes on with what an earlier daemon began, or ends what it could not end. */
  start(): void {
    this.#unsubscribe = this.#deps.events.subscribe((event) => {
      if (event.kind === 'moved') this.#moved += 1;
    });
    if (this.isOn) this.#enqueueAll();
    else if (this.#deps.departures?.isAny === true) this.#ending = this.#return();
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    await this.#queue.stop();
    await this.#ending;
  }

  /** AppError exhausted: this host takes no new sandboxes. */
  assertOpen(): void {
    if (!this.isOn) return;
    const message = 'this host is being drained and takes no new sandboxes';
    throw new AppError('exhausted', message, { retryAfterS: RETRY_AFTER_S });
  }

  /** Resolves when it has begun. AppError unsupported without a snapshot store. */
  async begin(): Promise<void> {
    const { departures, records } = this.#deps;
    if (departures === undefined)
      throw new AppError(
        'unsupported',
        'sandboxes can leave this host only with a snapshot store (--snapshot-store)',
      );
    await this.#ending;
    if (!this.isOn) {
      await records.put(DRAIN, { sinceMs: Date.now() });
      this.#startedAt = performance.now();
      this.#done = 0;
      this.#moved = 0;
    }
    this.#enqueueAll();
  }

  /**
   * Sandboxes that no other host has are this host's again, and those that ran run. Resolves when that has begun; the
   * host takes new ones from now on.
   */
  async cancel(): Promise<void> {
    await this.#deps.records.remove(DRAIN);
    for (const { id } of this.#deps.sandboxes()) this.#queue.forget(id);
    this.#problems.clear();
    this.#ending ??= this.#return().finally(() => {
      this.#ending = undefined;
    });
  }

  /** A sandbox came while it is on, such as one whose create had begun before. */
  noteNew(id: string): void {
    if (this.isOn) this.#queue.add(id);
  }

  progress(): DrainProgress {
    const since = this.#deps.records.get(DRAIN)?.sinceMs;
    const sandboxes = [...this.#deps.sandboxes()].flatMap((sandbox) =>
      sandbox.isGone || (since === undefined && !sandbox.isDeparting) ? [] : [this.#show(sandbox)],
    );
    const left = sandboxes.filter(({ state }) => state !== 'offered' && state !== 'stays').length;
    const spentS = (performance.now() - this.#startedAt) / 1000;
    return {
      state: since === undefined ? 'off' : left > 0 ? 'draining' : 'drained',
      ...(since !== undefined && { since: new Date(since) }),
      moved: this.#moved,
      ...(left > 0 && this.#done > 0 && { secondsLeft: Math.ceil((spentS / this.#done) * left) }),
      sandboxes,
    };
  }

  #show(sandbox: Sandbox): DrainProgress['sandboxes'][number] {
    const { id } = sandbox;
    const phase = this.#deps.departures?.get(id)?.phase;
    // Until its manifest is there, others do not find it.
    if (phase === 'offered' && !this.#active.has(id)) return { id, state: 'offered' };
    if (sandbox.state === 'failed') return { id, state: 'stays', reason: 'its VM has ended' };
    const problem = this.#problems.get(id);
    const step = phase === undefined ? 'pausing' : 'sending';
    return {
      id,
      state: this.#active.has(id) ? step : 'waiting',
      ...(problem !== undefined && { reason: problem }),
    };
  }

  #enqueueAll(): void {
    for (const { id } of this.#deps.sandboxes()) this.#queue.add(id);
  }

  async #depart(id: string): Promise<void> {
    const { find, departures } = this.#deps;
    const sandbox = find(id);
    if (!this.isOn || sandbox === undefined || sandbox.isGone || sandbox.state === 'failed') return;
    this.#active.add(id);
    try {
      await departures?.depart(sandbox);
      this.#done += 1;
      this.#problems.delete(id);
    } catch (error) {
      if (!sandbox.isGone && this.isOn) throw error;
    } finally {
      this.#active.delete(id);
    }
  }

  /** Never rejects: what the store does not give back now is asked for again. */
  async #return(): Promise<void> {
    const { departures, find, log } = this.#deps;
    if (departures === undefined) return;
    const queue = new PQueue({ concurrency: CONCURRENCY });
    const returnOne = async (id: string): Promise<void> => {
      const sandbox = find(id);
      if (sandbox === undefined || sandbox.isGone) return;
      try {
        const wasRunning = departures.get(id)?.wasRunning === true;
        await departures.takeBack(sandbox);
        if (wasRunning) await this.#deps.resume(sandbox);
      } catch (error) {
        log.warn(
          { sandbox: id, reason: firstLine(error) },
          'a sandbox that was to leave is not as before yet',
        );
      }
    };
    await queue.addAll(departures.ids().map((id) => () => returnOne(id)));
  }
}
