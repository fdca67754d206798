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
/** How often the registry is read, where `sandboxd drain` writes what it wants. */
const POLL_MS = 1000;
/** Keys of the two records. */
const [DRAIN, PROGRESS] = ['drain', 'progress'];

/** `sinceMs` of DRAIN: it is wanted from then on. `progress` of PROGRESS: as this daemon last wrote it. */
export type DrainRecord = { readonly sinceMs: number; readonly progress?: DrainProgress };

export type DrainDeps = {
  readonly records: Table<DrainRecord>;
  readonly sandboxes: () => Iterable<Sandbox>;
  readonly find: (id: string) => Sandbox | undefined;
  /** It has no other place than this host. */
  readonly isBound: (id: string) => boolean;
  readonly departures: Departures | undefined;
  readonly resume: (sandbox: Sandbox) => Promise<void>;
  readonly events: Pick<LifecycleEvents, 'subscribe'>;
  readonly log: Logger;
  readonly pollMs?: number | undefined;
};

/** `offered`: in the snapshot store, and no other host has it yet. */
export type DrainingState = 'waiting' | 'copying' | 'pausing' | 'sending' | 'offered' | 'stays';

export type DrainProgress = {
  readonly state: 'off' | 'draining' | 'drained';
  readonly since?: string;
  /** Why the last drain could not begin. */
  readonly refusal?: string;
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

/** For `sandboxd drain`, beside the daemon that has the registry. */
export const wantDrain = async (records: Table<DrainRecord>): Promise<void> => {
  if (records.latest(DRAIN) === undefined) await records.put(DRAIN, { sinceMs: Date.now() });
};

export const wantNoDrain = (records: Table<DrainRecord>): Promise<void> => records.remove(DRAIN);

export const readDrain = (records: Table<DrainRecord>) => ({
  isWanted: records.latest(DRAIN) !== undefined,
  progress: records.latest(PROGRESS)?.progress,
});

export class Drain {
  readonly #deps: DrainDeps;
  readonly #problems = new Map<string, string>();
  /** Of those that are to be this host's again. */
  readonly #returnProblems = new Map<string, string>();
  /** They ran, and run again when they are. */
  readonly #toResume = new Set<string>();
  readonly #active = new Set<string>();
  readonly #queue: RetryQueue;
  #startedAt = performance.now();
  #done = 0;
  #moved = 0;
  #ending: Promise<void> | undefined;
  #unsubscribe: () => void = () => undefined;
  /** What this daemon does; the registry says what is wanted. */
  #isOn = false;
  #timer: NodeJS.Timeout | undefined;
  #reported = '';
  #refusal: string | undefined;

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
    return this.#isOn;
  }

  /** Also before it has begun. */
  get isWanted(): boolean {
    return this.#deps.records.latest(DRAIN) !== undefined;
  }

  /** Goes on with what an earlier daemon began, or ends what it could not end. */
  start(): void {
    this.#unsubscribe = this.#deps.events.subscribe((event) => {
      if (event.kind === 'moved') this.#moved += 1;
    });
    this.#isOn = this.#deps.records.get(DRAIN) !== undefined;
    this.#reported = this.#deps.records.get(PROGRESS) === undefined ? '' : 'of an earlier daemon';
    if (this.#isOn) this.#enqueueAll();
    else if (this.#deps.departures?.isAny === true) this.#startReturn();
    this.#timer = setInterval(() => void this.#follow(), this.#deps.pollMs ?? POLL_MS).unref();
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    clearInterval(this.#timer);
    await this.#queue.stop();
    await this.#ending;
  }

  /** AppError exhausted: this host takes no new sandboxes. */
  assertOpen(): void {
    if (!this.isOn) return;
    const message = 'this host is being drained and takes no new sandboxes';
    throw new AppError('exhausted', message, { retryAfterS: RETRY_AFTER_S });
  }

  /** AppError unsupported without a snapshot store. */
  assertPossible(): void {
    if (this.#deps.departures !== undefined) return;
    const message = 'sandboxes can leave this host only with a snapshot store (--snapshot-store)';
    throw new AppError('unsupported', message);
  }

  /** It begins at once, or when what was cancelled before is undone. AppError as of `begin`. */
  async want(): Promise<void> {
    this.assertPossible();
    await wantDrain(this.#deps.records);
    void this.#follow();
  }

  /** Resolves when it has begun, or was cancelled before that. AppError unsupported without a snapshot store. */
  async begin(): Promise<void> {
    const { records } = this.#deps;
    this.assertPossible();
    // First what is wanted, then what is done: in between it is not undone.
    await wantDrain(records);
    await this.#ending;
    if (this.#isOn || records.latest(DRAIN) === undefined) return;
    this.#isOn = true;
    this.#refusal = undefined;
    this.#startedAt = performance.now();
    this.#done = 0;
    this.#moved = 0;
    this.#enqueueAll();
  }

  /**
   * Sandboxes that no other host has are this host's again, and those that ran run. Resolves when that has begun; the
   * host takes new ones from now on.
   */
  async cancel(): Promise<void> {
    await this.#deps.records.remove(DRAIN);
    if (!this.#isOn) return;
    this.#isOn = false;
    for (const { id } of this.#deps.sandboxes()) this.#queue.forget(id);
    this.#problems.clear();
    this.#startReturn();
  }

  #startReturn(): void {
    this.#ending ??= this.#return().finally(() => {
      this.#ending = undefined;
    });
  }

  /** Does what `sandboxd drain` has written, and writes what it shows. Never rejects. */
  async #follow(): Promise<void> {
    const { records, log } = this.#deps;
    try {
      const isWanted = records.latest(DRAIN) !== undefined;
      if (isWanted && !this.#isOn && this.#ending === undefined) await this.begin();
      if (!isWanted && this.#isOn) await this.cancel();
      if (!isWanted && (this.#toResume.size > 0 || this.#deps.departures?.isAny === true))
        this.#startReturn();
    } catch (error) {
      await records.remove(DRAIN).catch(() => undefined);
      log.error({ reason: firstLine(error) }, 'this host cannot be drained');
      this.#refusal = firstLine(error);
    }
    const progress = this.progress();
    const isOver =
      progress.state === 'off' && progress.sandboxes.length === 0 && progress.refusal === undefined;
    const text = isOver ? '' : JSON.stringify(progress);
    if (text === this.#reported) return;
    this.#reported = text;
    const write = isOver
      ? records.remove(PROGRESS)
      : records.put(PROGRESS, { sinceMs: Date.now(), progress });
    await write.catch(() => undefined);
  }

  /** A sandbox came while it is on, such as one whose create had begun before. */
  noteNew(id: string): void {
    if (this.isOn && !this.#deps.isBound(id)) this.#queue.add(id);
  }

  progress(): DrainProgress {
    const since = this.#isOn ? this.#deps.records.get(DRAIN)?.sinceMs : undefined;
    const sandboxes = [...this.#deps.sandboxes()].flatMap((sandbox) =>
      sandbox.isGone || (since === undefined && !sandbox.isDeparting) ? [] : [this.#show(sandbox)],
    );
    const left = sandboxes.filter(({ state }) => state !== 'offered' && state !== 'stays').length;
    const spentS = (performance.now() - this.#startedAt) / 1000;
    return {
      state: since === undefined ? 'off' : left > 0 ? 'draining' : 'drained',
      ...(since !== undefined && { since: new Date(since).toISOString() }),
      ...(this.#refusal !== undefined && { refusal: this.#refusal }),
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
    if (this.#deps.isBound(id))
      return { id, state: 'stays', reason: 'it is a pod of others, and ends with it' };
    const problem = this.#problems.get(id);
    const isCopying = this.#deps.departures?.isCopying(id) === true;
    const step = isCopying ? 'copying' : phase === undefined ? 'pausing' : 'sending';
    return {
      id,
      state: this.#active.has(id) ? step : 'waiting',
      ...(problem !== undefined && { reason: problem }),
    };
  }

  #enqueueAll(): void {
    for (const { id } of this.#deps.sandboxes()) this.noteNew(id);
  }

  async #depart(id: string): Promise<void> {
    const { find, departures } = this.#deps;
    const sandbox = find(id);
    if (!this.isOn || sandbox === undefined || sandbox.isGone || sandbox.state === 'failed') return;
    if (this.#deps.isBound(id)) return;
    this.#active.add(id);
    try {
      await departures?.depart(sandbox);
      // Cancelled before its departure was known.
      if (!this.isOn) return await this.#returnOne(id);
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
    const queue = new PQueue({ concurrency: CONCURRENCY });
    const ids = new Set([...(this.#deps.departures?.ids() ?? []), ...this.#toResume]);
    await queue.addAll([...ids].map((id) => () => this.#returnOne(id)));
  }

  async #returnOne(id: string): Promise<void> {
    const { departures, find, log, resume } = this.#deps;
    const sandbox = find(id);
    if (departures === undefined || sandbox === undefined || sandbox.isGone) {
      this.#toResume.delete(id);
      return;
    }
    try {
      if (departures.wasRunning(id)) this.#toResume.add(id);
      await departures.takeBack(sandbox);
      if (this.#toResume.has(id)) await resume(sandbox);
      this.#toResume.delete(id);
      this.#returnProblems.delete(id);
    } catch (error) {
      const reason = firstLine(error);
      if (this.#returnProblems.get(id) !== reason)
        log.warn({ sandbox: id, reason }, 'a sandbox that was to leave is not as before yet; trying again');
      this.#returnProblems.set(id, reason);
    }
  }
}
