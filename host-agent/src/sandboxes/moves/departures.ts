// Sandboxes that leave this host: each is paused, sent to the snapshot store and offered there, until another host has
// claimed it or this one takes it back.
//
//   depart ──▶ copied ──▶ paused ──▶ `sending` ──▶ all chunks are there ──▶ `offered` ──▶ manifest ──▶ another host
//            while it runs               │ taken back: nothing is offered       │ taken back:          has the claim
//                                        ▼                                      ▼ with the claim             ▼
//                                 this host's again                     this host's again              forgotten here
//
// From `offered` on, the claim alone says whose it is: it is written where there is none, and never removed, so that a
// manifest that a server writes late is of no use to any host.
import { randomBytes, randomUUID } from 'node:crypto';
import { AppError, firstLine, isAppError } from '../../lib/errors.ts';
import type { SentChunks } from '../../snapshot-store/index.ts';
import type { Table } from '../../store/store.ts';
import { movingSandbox } from '../record.ts';
import type { Sandbox } from '../sandbox.ts';
import type { Sleep } from '../sleep/sleep.ts';
import { Ahead, type MoveTimes } from './ahead.ts';
import type { CopyDeps } from './copy-ahead.ts';
import { assertStore, type DepartureRecord } from './departure-record.ts';
import { parkedId } from './parked.ts';
import { type ParkedUpload, uploadParked } from './upload-parked.ts';
import { WholeOffers } from './whole-offers.ts';

const POLL_MS = 3000;

export type DeparturesDeps = CopyDeps & {
  readonly records: Table<DepartureRecord>;
  readonly sleep: Pick<Sleep, 'pause' | 'endVm'>;
  readonly find: (id: string) => Sandbox | undefined;
  /** Removes it here, without ending it. `onGone`: nothing of it is left. */
  readonly forget: (sandbox: Sandbox, onGone: () => Promise<void>) => Promise<void>;
  readonly pollMs?: number | undefined;
  readonly aheadTimes?: MoveTimes | undefined;
};

type Sending = {
  readonly abort: AbortController;
  readonly done: Promise<void>;
  wasRunning: boolean;
  /** It runs, and what it has is sent first. */
  isCopying: boolean;
};

export class Departures {
  readonly #deps: DeparturesDeps;
  readonly #sending = new Map<string, Sending>();
  readonly #returns = new Map<string, Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #listeners = new Set<(id: string) => void>();
  /** Of those that run. */
  readonly ahead: Ahead;
  readonly #whole: WholeOffers;
  #timer: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;

  constructor(deps: DeparturesDeps) {
    this.#deps = deps;
    this.#whole = new WholeOffers({ ...deps, afterMs: deps.aheadTimes?.wholeMs });
    this.ahead = new Ahead({ ...deps, onChange: (id) => this.#changed(id), times: deps.aheadTimes });
  }

  /** Continues what an earlier daemon began; its sandboxes are registered. */
  start(): void {
    const { records, find, pollMs = POLL_MS } = this.#deps;
    for (const { id } of records.all()) {
      const sandbox = find(id);
      if (sandbox !== undefined) sandbox.isDeparting = true;
      // Its files are gone: another host has it.
      else void records.remove(id);
    }
    this.#timer = setInterval(() => this.poll(), pollMs).unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    await Promise.allSettled([...this.#sending.values()].map(({ done }) => done));
    await this.#polling;
    await this.#whole.stop();
  }

  get(id: string): DepartureRecord | undefined {
    return this.#deps.records.get(id);
  }

  /** The departure of one that other hosts can take. */
  offered(id: string): string | undefined {
    const record = this.#sending.has(id) ? undefined : this.#deps.records.get(id);
    return record?.phase === 'offered' ? record.departure : undefined;
  }

  /** `listener` gets the id of each that can be fetched or taken now, or cannot any more. */
  subscribe(listener: (id: string) => void): void {
    this.#listeners.add(listener);
  }

  get isAny(): boolean {
    return this.#deps.records.all().length > 0;
  }

  /** Ids of those that wait for another host, or are on their way to it. */
  ids(): string[] {
    return [...new Set([...this.#sending.keys(), ...this.#deps.records.all().map(({ id }) => id)])];
  }

  /** Whether it runs while it is sent for the first time. */
  isCopying(id: string): boolean {
    return this.#sending.get(id)?.isCopying === true;
  }

  /** Whether one of those ran before. */
  wasRunning(id: string): boolean {
    return (this.#deps.records.get(id) ?? this.#sending.get(id))?.wasRunning === true;
  }

  /** Resolves when another host can take it. AppError; it is this host's and as before then, unless it is offered. */
  async depart(sandbox: Sandbox): Promise<void> {
    const { store, records } = this.#deps;
    const { id } = sandbox;
    await store.parked.assertExclusive(this.#stopping.signal);
    const before = records.get(id);
    if (before?.phase === 'offered') {
      assertStore(before, store.name, id);
      if ((await store.read(parkedId(id, before.departure), this.#stopping.signal)) !== undefined) return;
      // The answer about its manifest was lost, and so was the manifest, or another host has it by now.
      await this.takeBack(sandbox);
    }
    if (this.#sending.has(id)) throw movingSandbox(id);
    const abort = new AbortController();
    const { promise: done, resolve: finish } = Promise.withResolvers<void>();
    const sending: Sending = { abort, done, wasRunning: false, isCopying: sandbox.state === 'running' };
    this.#sending.set(id, sending);
    const departure = randomBytes(16).toString('hex');
    try {
      const signal = AbortSignal.any([abort.signal, this.#stopping.signal, sandbox.leaving]);
      // Who listens finds places.
      if (sending.isCopying) await this.ahead.send(sandbox, departure, this.#listeners.size > 0, signal);
      using _paused = await this.#deps.rightOfWay.take(signal);
      sending.isCopying = false;
      sending.wasRunning = before?.wasRunning ?? ['running', 'resuming'].includes(sandbox.state);
      sandbox.isDeparting = true;
      const pausedAt = performance.now();
      await this.#pause(sandbox, signal);
      const pauseMs = Math.round(performance.now() - pausedAt);
      // What has changed is sent meanwhile; no other host gets it before its VMM has ended.
      const ended = this.#deps.sleep.endVm(sandbox);
      ended.catch(() => undefined);
      this.#deps.context.faults.reach('move.paused');
      const about = { departure, wasRunning: sending.wasRunning, ended };
      const send = (stop: AbortSignal) => this.#send(sandbox, about, AbortSignal.any([signal, stop]));
      const { sentBytes } = await this.#deps.track((stop) => sandbox.snapshotQueue.add(() => send(stop)));
      const inPages = this.#deps.records.get(id)?.hasChanges === true;
      const durationMs = Math.round(performance.now() - pausedAt);
      const sent = { sandbox: id, sentBytes, inPages, pauseMs, durationMs };
      this.#deps.log.info(sent, 'a paused sandbox is offered to other hosts');
    } finally {
      this.#sending.delete(id);
      if (records.get(id) === undefined) sandbox.isDeparting = false;
      finish();
      const ended = this.ahead.end(id);
      this.#changed(id);
      await ended;
    }
  }

  /** What is kept of the copy may take the disk space that this needs. */
  async #pause(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    const pause = () => {
      const since = this.ahead.sinceOf(sandbox.id);
      const request = { hasMemory: true, reason: 'request', leaves: true, since, signal } as const;
      return this.#deps.sleep.pause(sandbox, request);
    };
    await pause().catch(async (error: unknown) => {
      const isFull = isAppError(error) && error.code === 'exhausted';
      if (!isFull || !(await this.ahead.dropCopy(sandbox.id))) throw error;
      await pause();
    });
  }

  async #send(
    sandbox: Sandbox,
    { departure, wasRunning, ended }: Pick<ParkedUpload, 'departure' | 'wasRunning' | 'ended'>,
    signal: AbortSignal,
  ): Promise<SentChunks> {
    const { store, records, context } = this.#deps;
    const { id } = sandbox;
    sandbox.assertNotEnded();
    if (sandbox.state !== 'paused')
      throw new AppError('conflict', `sandbox ${id} is ${sandbox.state}, not paused`);
    signal.throwIfAborted();
    const bases = this.ahead.basesOf(id);
    const record: DepartureRecord = {
      ...{ departure, token: randomUUID(), wasRunning, atMs: Date.now(), store: store.name },
      phase: 'sending',
    };
    // Changes that were made before are in what is sent; later ones are refused.
    await sandbox.changes.add(() => records.put(id, record));
    context.faults.reach('move.recorded');
    const beforeManifest = async (): Promise<void> => {
      await ended;
      signal.throwIfAborted();
      context.faults.reach('move.sent');
      await records.put(id, {
        ...record,
        phase: 'offered',
        ...(bases !== undefined && { hasChanges: true }),
      });
      // Also a host that loses its power must know.
      await records.flush();
      context.faults.reach('move.offered');
    };
    const upload = { sandbox, departure, wasRunning, bases, ended, beforeManifest };
    const uploaded = await uploadParked(upload, this.#deps, signal);
    context.faults.reach('move.published');
    return uploaded;
  }

  /**
   * It is this host's again, paused. Does nothing if it does not leave. AppError exhausted when another host has it,
   * `upstream` while the store does not say.
   */
  async takeBack(sandbox: Sandbox): Promise<void> {
    const { id } = sandbox;
    let work = this.#returns.get(id);
    if (work === undefined) {
      work = this.#takeBack(sandbox).finally(() => this.#returns.delete(id));
      this.#returns.set(id, work);
    }
    await work;
  }

  async #takeBack(sandbox: Sandbox): Promise<void> {
    const { store, records, context, log } = this.#deps;
    const { id } = sandbox;
    const sending = this.#sending.get(id);
    sending?.abort.abort(new AppError('cancelled', `sandbox ${id} stays on this host`));
    await sending?.done;
    await this.#whole.end(id);
    const record = records.get(id);
    if (record?.phase === 'offered') {
      assertStore(record, store.name, id);
      const parked = parkedId(id, record.departure);
      if (!(await store.parked.claimBack(parked, record.token))) {
        await this.#moved(sandbox);
        throw movingSandbox(id);
      }
      context.faults.reach('move.taken-back');
      await store
        .removeManifest(parked)
        .catch((err) => log.warn({ err, sandbox: id }, 'a paused sandbox stays in the store'));
    }
    // It is this host's from here on; until the record goes, the next daemon takes it back again.
    sandbox.isDeparting = false;
    try {
      if (record?.wasRunning === true) await sandbox.changes.add(() => markToResume(sandbox));
      await records.remove(id);
    } catch (error) {
      sandbox.isDeparting = true;
      throw error;
    }
    context.faults.reach('move.returned');
    this.#changed(id);
  }

  /**
   * For a delete: no host can own it by a claim that cannot be read, and while its manifest is there none has it whole.
   * AppError conflict when the manifest is gone.
   */
  async abandon(sandbox: Sandbox): Promise<void> {
    const { store, records, log } = this.#deps;
    const { id } = sandbox;
    const record = records.get(id);
    if (record === undefined) return;
    const parked = parkedId(id, record.departure);
    await this.#whole.end(id);
    const object = `claims/${parked} in ${store.name}`;
    if ((await store.read(parked)) === undefined)
      throw new AppError(
        'conflict',
        `who has sandbox ${id} is not known, as the object ${object} is damaged; ` +
          'if no other host has the sandbox, remove that object and delete the sandbox again',
      );
    await store.removeManifest(parked);
    await store.parked.removeClaim(parked);
    log.warn({ sandbox: id, object }, 'a claim was damaged, and is removed with its sandbox');
    await records.remove(id);
    sandbox.isDeparting = false;
  }

  #changed(id: string): void {
    for (const listener of this.#listeners) listener(id);
  }

  /** Looks which of the offered ones other hosts have by now. Never rejects. */
  poll(): Promise<void> {
    this.#polling ??= this.#poll().finally(() => {
      this.#polling = undefined;
    });
    return this.#polling;
  }

  async #poll(): Promise<void> {
    const { store, records, find, log } = this.#deps;
    for (const { id, record } of records.all()) {
      const sandbox = find(id);
      if (record.phase !== 'offered' || sandbox === undefined || sandbox.isGone) continue;
      if (this.#stopping.signal.aborted || this.#returns.has(id)) continue;
      if (record.store !== undefined && record.store !== store.name) continue;
      try {
        const holder = await store.parked.readClaim(
          parkedId(id, record.departure),
          AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(10_000)]),
        );
        if (records.get(id)?.departure !== record.departure) continue;
        if (holder === undefined) {
          this.#whole.look(sandbox, record);
          continue;
        }
        // Its own claim: a return was cut off.
        if (store.parked.isBack(holder, record.token)) await this.takeBack(sandbox);
        else await this.#moved(sandbox);
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        log.warn({ sandbox: id, reason: firstLine(error) }, 'cannot look whether a sandbox has left');
      }
    }
  }

  /** Its files in the store are for the other host to remove: it may need them again after a crash. */
  async #moved(sandbox: Sandbox): Promise<void> {
    const { records, forget } = this.#deps;
    await this.#whole.end(sandbox.id);
    if (!sandbox.isGone) await forget(sandbox, () => records.remove(sandbox.id));
  }
}

async function markToResume(sandbox: Sandbox): Promise<void> {
  const { record } = sandbox;
  if (record.paused === undefined) return;
  await sandbox.replaceRecord({ ...record, paused: { ...record.paused, isToResume: true } });
}
