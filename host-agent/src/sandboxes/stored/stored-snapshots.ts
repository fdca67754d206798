// Snapshots of this host in the snapshot store, and those of other hosts here: uploads continue in the background after
// the response, deletes reach the store, and what is only there is listed, and fetched when it is first used.
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { AppError, firstLine, isAppError } from '../../lib/errors.ts';
import { raceSignal } from '../../lib/wait.ts';
import type { StoredLimit } from '../../snapshot-store/index.ts';
import type { LifecycleEvents } from '../lifecycle-events.ts';
import { type Entry, noSnapshot, type SnapshotRecord } from '../snapshot-record.ts';
import type { SnapshotInfo, SnapshotStorage } from '../types.ts';
import { type Description, describeSnapshot, partsOf, toRemoteInfo } from './description.ts';
import { type FetchDeps, fetchSnapshot } from './fetch-snapshot.ts';
import { RemoteIndex } from './remote-index.ts';
import { RetryQueue } from './retry-queue.ts';
import type { ResolvedImport, SharedDeps } from './shared.ts';
import { isExpired, StoredExpiry } from './stored-expiry.ts';

const CONCURRENT_UPLOADS = 2;
const CONCURRENT_FETCHES = 2;
/** A list of clients is at most this old. */
const MAX_LIST_AGE_MS = 2000;
/** What other hosts deleted is deleted here after this time at the latest. */
const POLL_MS = 60_000;
/** Requests wait at most this long for the store. */
const LIST_WAIT_MS = 5000;
/** After a failure they do not wait for this time. */
const OUTAGE_MS = 10_000;

export type StoredDeps = SharedDeps & {
  readonly dataDir: string;
  readonly events: Pick<LifecycleEvents, 'emit'>;
  readonly log: Logger;
  readonly local: LocalSnapshots;
};

/** The snapshots that this host has. */
export type LocalSnapshots = FetchDeps['local'] & {
  readonly find: (id: string) => Entry | undefined;
  readonly ids: () => Iterable<string>;
  readonly remove: (id: string, reason: 'store') => Promise<void>;
};

export class StoredSnapshots {
  readonly #deps: StoredDeps;
  readonly #index: RemoteIndex;
  readonly #expiry: StoredExpiry;
  readonly #uploads: RetryQueue;
  readonly #removals: RetryQueue;
  readonly #fetchQueue = new PQueue({ concurrency: CONCURRENT_FETCHES });
  readonly #fetches = new Map<string, Promise<void>>();
  /** Why the last upload of each failed. */
  readonly #problems = new Map<string, string>();
  readonly #stopping = new AbortController();
  readonly counts = { sentBytes: 0, fetchedBytes: 0, failures: 0 };
  #poll: NodeJS.Timeout | undefined;
  #outage: { readonly problem: string; readonly atMs: number } | undefined;

  constructor(deps: StoredDeps) {
    this.#deps = deps;
    this.#index = new RemoteIndex(deps.store, deps.log);
    this.#expiry = new StoredExpiry({ ...deps, forget: (id) => this.#index.forget(id) });
    const { log } = deps;
    const fail = (what: string) => (snapshot: string, error: unknown, retryMs: number) => {
      this.counts.failures += 1;
      this.#problems.set(snapshot, firstLine(error));
      log.warn({ err: error, snapshot, retryMs: Math.round(retryMs) }, what);
    };
    this.#uploads = new RetryQueue({
      concurrency: CONCURRENT_UPLOADS,
      work: (id) => this.#upload(id),
      onFailure: fail('cannot upload a snapshot; trying again'),
    });
    this.#removals = new RetryQueue({
      concurrency: CONCURRENT_UPLOADS,
      work: (id) => this.#remove(id),
      onFailure: fail('cannot delete a snapshot of the store; trying again'),
    });
  }

  /** Continues what an earlier daemon began. */
  start(): void {
    const { records, local } = this.#deps;
    for (const { id, record } of records.all()) {
      if (record.state !== 'stored' && local.find(id) === undefined) this.#removals.add(id);
      else if (local.find(id) === undefined) void records.remove(id);
    }
    for (const id of local.ids()) if (!this.#isStored(id)) this.#uploads.add(id);
    void this.#refreshQuietly();
    this.#poll = setInterval(() => void this.#refreshQuietly(), POLL_MS).unref();
  }

  /** Resolves when no file is read or written any more. */
  async stop(): Promise<void> {
    clearInterval(this.#poll);
    this.#stopping.abort(new AppError('cancelled', 'the daemon is stopping'));
    this.#fetchQueue.clear();
    await Promise.all([this.#uploads.stop(), this.#removals.stop(), this.#fetchQueue.onIdle()]);
  }

  /** Those that wait or are sent now. */
  get pending(): number {
    return this.#uploads.size;
  }

  get remoteCount(): number {
    return [...this.remote()].length;
  }

  /** Those that this host does not have. */
  *remote(): Generator<readonly [string, Description]> {
    for (const [id, description] of this.#index.all())
      if (this.#isRemote(id) && !isExpired(description)) yield [id, description];
  }

  /** Undefined also for one that is here. */
  findRemote(id: string): Description | undefined {
    const description = this.#isRemote(id) ? this.#index.get(id) : undefined;
    return description === undefined || isExpired(description) ? undefined : description;
  }

  toInfo(id: string, description: Description): SnapshotInfo {
    return toRemoteInfo(id, description, this.#deps.dataDir);
  }

  /** Of one that is here. */
  storageOf(id: string): { readonly storage: SnapshotStorage; readonly storageError?: string } {
    if (this.#isStored(id)) return { storage: 'stored' };
    const problem = this.#problems.get(id);
    return {
      storage: this.#uploads.isRunning(id) ? 'uploading' : 'local',
      ...(problem !== undefined && { storageError: problem }),
    };
  }

  /** It was made or changed here. Never rejects. */
  async changed(id: string): Promise<void> {
    const { records, log } = this.#deps;
    await records.remove(id).catch((err) => log.warn({ err, snapshot: id }, 'cannot record an upload'));
    this.#uploads.add(id);
  }

  /** Call before its files are removed. */
  async deleting(id: string): Promise<void> {
    const { records, store } = this.#deps;
    this.#uploads.forget(id);
    await records.put(id, { store: store.name, state: 'deleting' });
  }

  /** The record with a later time that another host gave to one whose time has come. Never rejects. */
  async findLater(id: string, record: SnapshotRecord): Promise<SnapshotRecord | undefined> {
    // A change that waits for its upload is later than what the store has.
    if (!this.#isStored(id)) return undefined;
    return await this.#expiry.findLater(id, record, this.#stopping.signal);
  }

  /** As `deleting`, of one that expires: only its files here go. */
  async expiring(id: string, { expiresAtMs = Date.now() }: SnapshotRecord): Promise<void> {
    const { records, store } = this.#deps;
    const isStored = this.#isStored(id);
    this.#uploads.forget(id);
    if (!isStored) await records.put(id, { store: store.name, state: 'expired', expiresAtMs });
  }

  /** As `deleted`, of one that has expired. */
  async expired(id: string): Promise<void> {
    this.#problems.delete(id);
    this.#index.forget(id);
    if (this.#isStored(id)) await this.#deps.records.remove(id);
    else this.#removals.add(id);
  }

  /** Call when it is not here any more. Waits for the store for some seconds; it is tried until it succeeds. */
  async deleted(id: string): Promise<void> {
    this.#removals.add(id);
    this.#problems.delete(id);
    const deadline = performance.now() + LIST_WAIT_MS;
    const isOver = () => this.#stopping.signal.aborted || performance.now() >= deadline;
    while (this.#deps.records.get(id) !== undefined && !isOver())
      await new Promise((wait) => setTimeout(wait, 20));
  }

  /** One that is only in the store. */
  async deleteRemote(id: string, description: Description, reason?: string): Promise<void> {
    const { owner, archive } = description;
    const event = { kind: 'snapshot-deleted', snapshot: id, ...(reason && { reason }) } as const;
    await this.deleting(id);
    this.#deps.events.emit(event, owner, archive.options.about);
    await this.deleted(id);
  }

  /**
   * Brings the list up to date, unless `id` is known. Returns why that was not possible; AppError `upstream` for an
   * unknown id then, because it may be there.
   */
  async refresh(id?: string, signal?: AbortSignal): Promise<string | undefined> {
    const { local, records } = this.#deps;
    const isKnown = (id: string) =>
      local.find(id) !== undefined || this.#index.has(id) || records.get(id)?.state === 'deleting';
    if (id !== undefined && isKnown(id)) return undefined;
    const outage = this.#outage;
    if (outage !== undefined && performance.now() - outage.atMs < OUTAGE_MS)
      return this.#asOutage(outage.problem, id);
    const limit = AbortSignal.any([AbortSignal.timeout(LIST_WAIT_MS), ...(signal ? [signal] : [])]);
    try {
      const work = id === undefined ? this.#refresh() : this.#index.lookUp(id, this.#stopping.signal);
      await raceSignal(work, limit);
      this.#outage = undefined;
      return undefined;
    } catch (error) {
      signal?.throwIfAborted();
      // What waited for others says nothing about the store.
      if (isAppError(error) && error.code === 'exhausted') throw error;
      if (id !== undefined && limit.aborted)
        throw new AppError(
          'exhausted',
          'the snapshot store has not answered about this snapshot yet; try again',
        );
      const found = limit.aborted ? 'the snapshot store does not answer' : firstLine(error);
      this.#outage = { problem: found, atMs: performance.now() };
      return this.#asOutage(found, id, error);
    }
  }

  #asOutage(problem: string, id: string | undefined, cause?: unknown): string {
    if (id === undefined) return problem;
    throw new AppError('upstream', `snapshot ${id} is not on this host, and ${problem}`, { cause });
  }

  /** What its forks get, before anything is fetched. AppError conflict if it does not fit this host. */
  async resolve(id: string, signal: AbortSignal): Promise<ResolvedImport> {
    const description = this.findRemote(id);
    if (description === undefined) throw noSnapshot(id);
    return await this.#deps.resolve(description.archive, signal);
  }

  /**
   * Makes it one of this host, unless it is. A caller that is cancelled does not end it. AppError not_found, conflict,
   * exhausted, `internal` if it is damaged, `upstream`.
   */
  async fetch(id: string, signal: AbortSignal): Promise<void> {
    if (this.#deps.local.find(id) !== undefined) return;
    let fetch = this.#fetches.get(id);
    if (fetch === undefined) {
      fetch = this.#fetchQueue.add(() => this.#fetch(id)).finally(() => this.#fetches.delete(id));
      this.#fetches.set(id, fetch);
      fetch.catch(() => undefined);
    }
    await raceSignal(fetch, AbortSignal.any([signal, this.#stopping.signal]));
  }

  async #fetch(id: string): Promise<void> {
    const { store, records, local } = this.#deps;
    if (local.find(id) !== undefined) return;
    if ((records.get(id)?.state ?? 'stored') !== 'stored') throw noSnapshot(id);
    const bytes = await fetchSnapshot(id, this.#deps, this.#stopping.signal);
    await records.put(id, { store: store.name, state: 'stored' });
    this.counts.fetchedBytes += bytes;
  }

  async #upload(id: string): Promise<void> {
    const { store, records, events, local, log } = this.#deps;
    const entry = local.find(id);
    if (entry === undefined || entry.deletion !== undefined || this.#isStored(id)) return;
    const { record, saved } = entry;
    const signal = AbortSignal.any([this.#stopping.signal, saved.leaving]);
    const startedAt = performance.now();
    const send = async () => {
      const description = await describeSnapshot(entry);
      const tenant = record.owner?.tenant;
      const upload = { id, tenant, description, files: partsOf(saved), limit: this.#limitOf(tenant) };
      return await store.upload(upload, signal);
    };
    try {
      const { sentBytes, chunks, sentChunks } = await saved.use(send);
      this.counts.sentBytes += sentBytes;
      // A change meanwhile has added it to the queue again.
      if (entry.record !== record || entry.deletion !== undefined) return;
      await records.put(id, { store: store.name, state: 'stored' });
      this.#problems.delete(id);
      const durationMs = Math.round(performance.now() - startedAt);
      log.debug({ snapshot: id, chunks, sentChunks }, 'snapshot uploaded');
      events.emit(
        { kind: 'snapshot-stored', snapshot: id, durationMs, bytes: sentBytes },
        record.owner,
        record.about,
      );
    } catch (error) {
      if (saved.leaving.aborted) return;
      this.#stopping.signal.throwIfAborted();
      if (!isAppError(error) || error.code !== 'not_found') throw error;
      await local.remove(id, 'store');
    }
  }

  #limitOf(tenant: string | undefined): StoredLimit | undefined {
    const max = tenant === undefined ? undefined : this.#deps.quotaOf(tenant)?.max_stored_bytes;
    return max === undefined ? undefined : { max, whose: `tenant ${JSON.stringify(tenant)}` };
  }

  async #remove(id: string): Promise<void> {
    const { store, records } = this.#deps;
    const record = records.get(id);
    if (record?.state === 'expired')
      await this.#expiry.publish(id, record.expiresAtMs, this.#stopping.signal);
    else await store.remove(id, this.#stopping.signal);
    this.#index.forget(id);
    await records.remove(id);
    this.#problems.delete(id);
  }

  async #refreshQuietly(): Promise<void> {
    await this.#refresh().catch((error) => {
      if (this.#stopping.signal.aborted) return;
      this.#deps.log.warn({ reason: firstLine(error) }, 'cannot list the snapshot store');
    });
  }

  async #refresh(): Promise<void> {
    const { records, local } = this.#deps;
    const before = records.all().filter(({ record }) => record.state === 'stored');
    await this.#index.refresh(MAX_LIST_AGE_MS, this.#stopping.signal);
    this.#outage = undefined;
    for (const [id, description] of [...this.#index.all()])
      if (isExpired(description)) void this.#expiry.sweep(id, description, this.#stopping.signal);
    if (this.#index.isFull) return;
    for (const { id } of before)
      if (!this.#index.has(id) && local.find(id) !== undefined && this.#isStored(id)) await this.#missed(id);
  }

  /** The store had it, and has it no more: another host deleted it, or the bucket lost it. */
  async #missed(id: string): Promise<void> {
    const { store, local } = this.#deps;
    if (await store.isDeleted(id, this.#stopping.signal)) await local.remove(id, 'store');
    else {
      store.forgetSeen();
      await this.changed(id);
    }
  }

  #isStored(id: string): boolean {
    const record = this.#deps.records.get(id);
    return record?.state === 'stored' && record.store === this.#deps.store.name;
  }

  #isRemote(id: string): boolean {
    const { records, local } = this.#deps;
    const state = records.get(id)?.state ?? 'stored';
    return this.#index.has(id) && local.find(id) === undefined && state === 'stored';
  }
}
