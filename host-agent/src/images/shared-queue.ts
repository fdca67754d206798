// What becomes of names in the bucket, in the background: images are sent, names are put and deleted, one at a time.
import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { backOffMs } from '../lib/back-off.ts';
import { isAppError, toError } from '../lib/errors.ts';
import type { Table } from '../store/store.ts';
import type { ImageFiles } from './files.ts';
import type { ImageRecord } from './record.ts';
import type { ImageDepot } from './shared-depot.ts';
import type { Described } from './shared-description.ts';
import { isDigest, isShared, MACHINE, toName } from './shared-name.ts';

const BACK_OFF = { firstMs: 5000, mostMs: 300_000, jitter: 0.25 };
/** Names to be put or withdrawn. */
const MAX_WAITING = 4096;
/** Of what is over the limit; a collection may have freed space. */
const RETRY_MS = 300_000;
/** The log says once in this time that the limit is reached, for each owner. */
const LOGGED_MS = 3_600_000;
const MAX_LOGGED = 1000;

/** `ref`: a name, or the digest of an image that no name is to lead to. */
export type Withdrawal = { readonly ref: string; readonly id: string; readonly atMs: number };

/** What becomes of a name in the bucket. */
type Wish = {
  readonly id: string;
  readonly atMs: number;
  readonly isWithdrawn: boolean;
  /** Who asked for it: a tenant, or a key without one. */
  readonly owner?: string | undefined;
};

export type SharedQueueOptions = {
  readonly depot: ImageDepot;
  readonly files: ImageFiles;
  readonly records: Table<ImageRecord>;
  /** Names that wait to be withdrawn, by their digest: a later daemon goes on. */
  readonly withdrawals: Table<Withdrawal>;
  /** Of all images in the bucket; 0: no limit. */
  readonly maxBytes: number;
  /** Images that are damaged in the bucket: sent whole. */
  readonly damaged: Set<string>;
  /** In tests. */
  readonly retryMs?: number | undefined;
  readonly log: Logger;
};

export class SharedQueue {
  readonly #options: SharedQueueOptions;
  readonly #stop = new AbortController();
  /** By reference. */
  readonly #waiting = new Map<string, Wish>();
  /** Names of images that the limit keeps out of the bucket. */
  readonly #refused = new Map<string, Wish>();
  #retry: NodeJS.Timeout | undefined;
  readonly #loggedAt = new Map<string, number>();
  #running: Promise<void> | undefined;

  constructor(options: SharedQueueOptions) {
    this.#options = options;
  }

  /** Aborts when the daemon stops. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get counts(): { readonly waiting: number; readonly refused: number } {
    return { waiting: this.#waiting.size, refused: this.#refused.size };
  }

  /** Continues what an earlier daemon could not withdraw. */
  start(): void {
    for (const { record } of this.#options.withdrawals.all())
      this.#add(record.ref, { id: record.id, atMs: record.atMs, isWithdrawn: true });
  }

  /** What is not sent by then is not sent; names that are to be withdrawn are by the next daemon. */
  async stop(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#retry);
    await this.#running;
  }

  put(ref: string, wish: Pick<Wish, 'id' | 'atMs' | 'owner'>): void {
    this.#add(ref, { ...wish, isWithdrawn: false });
  }

  /** Never rejects. */
  async withdraw(withdrawal: Withdrawal): Promise<void> {
    const { ref, id, atMs } = withdrawal;
    await this.#note(withdrawal);
    this.#add(ref, { id, atMs, isWithdrawn: true });
  }

  #add(ref: string, wish: Wish): void {
    this.#refused.delete(ref);
    keepNewest(this.#waiting, ref, wish);
    this.#run();
  }

  /** One that is done twice changes nothing: what is later has the name. Never rejects. */
  async #note(withdrawal: Withdrawal): Promise<void> {
    const { withdrawals, log } = this.#options;
    if (withdrawals.all().length >= MAX_WAITING) return;
    await withdrawals
      .put(toKey(withdrawal.ref), withdrawal)
      .catch((err: unknown) => log.warn({ err }, 'cannot record that a name of an image is to be deleted'));
  }

  async #settled(ref: string, { atMs, isWithdrawn }: Wish): Promise<void> {
    const { withdrawals, log } = this.#options;
    if (!isWithdrawn || withdrawals.get(toKey(ref))?.atMs !== atMs) return;
    await withdrawals
      .remove(toKey(ref))
      .catch((err: unknown) => log.warn({ err }, 'cannot forget a name of an image that is deleted'));
  }

  #run(): void {
    if (this.#stop.signal.aborted) return;
    this.#running ??= this.#send().finally(() => {
      this.#running = undefined;
      if (this.#waiting.size > 0) this.#run();
    });
  }

  async #send(): Promise<void> {
    const { signal } = this.#stop;
    for (let failures = 0; this.#waiting.size > 0 && !signal.aborted; ) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      const [ref, wish] = next;
      this.#waiting.delete(ref);
      try {
        await this.#sendOne(ref, wish, signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        const reason = toError(error).message;
        if (isAppError(error) && error.code === 'forbidden') {
          await this.#refuse(ref, wish, reason);
          continue;
        }
        this.#options.log.warn(
          { ref, reason },
          'a name of an image is not changed in the snapshot store yet',
        );
        // What the bucket never takes is not tried again.
        if (isAppError(error) && error.code !== 'upstream') {
          await this.#unname(ref, wish);
          await this.#settled(ref, wish);
          continue;
        }
        if (!this.#waiting.has(ref)) this.#waiting.set(ref, wish);
        failures += 1;
        await pause(backOffMs(failures, BACK_OFF), signal);
      }
    }
  }

  /** It stays on this host until there is space, or another one pulls it. */
  async #refuse(ref: string, wish: Wish, reason: string): Promise<void> {
    const { retryMs = RETRY_MS, log } = this.#options;
    await this.#unname(ref, wish);
    if (this.#waiting.has(ref)) return;
    keepNewest(this.#refused, ref, wish);
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      for (const [ref, wish] of this.#refused) this.#add(ref, wish);
    }, retryMs).unref();
    // One who is over its share hides no line of others.
    const { owner = '' } = wish;
    if (performance.now() - (this.#loggedAt.get(owner) ?? Number.NEGATIVE_INFINITY) < LOGGED_MS) return;
    if (this.#loggedAt.size >= MAX_LOGGED) this.#loggedAt.clear();
    this.#loggedAt.set(owner, performance.now());
    log.warn(
      { ref, ...(wish.owner !== undefined && { owner }), reason },
      'an image is not sent to the snapshot store: other hosts ask its registry',
    );
  }

  /** Others would take an older image for it, which the bucket has. */
  async #unname(ref: string, { id, atMs, isWithdrawn }: Wish): Promise<void> {
    const { depot, log } = this.#options;
    if (isWithdrawn) return;
    await depot.unname(toName(ref), id, atMs, this.#stop.signal).catch((error: unknown) => {
      const reason = toError(error).message;
      log.warn({ ref, reason }, 'a name in the snapshot store leads to an older image');
    });
  }

  async #sendOne(ref: string, wish: Wish, signal: AbortSignal): Promise<void> {
    const { id, atMs, isWithdrawn, owner } = wish;
    const { depot, files, records, damaged, maxBytes } = this.#options;
    if (isWithdrawn) {
      if (isDigest(ref)) {
        await depot.withdrawImage(id, atMs, signal);
        await depot.withdrawNames(id, atMs, signal);
      } else await depot.withdraw(toName(ref), id, atMs, signal);
      await this.#settled(ref, { id, atMs, isWithdrawn });
      return;
    }
    const hasName = (): boolean => records.get(id)?.refs.includes(ref) === true;
    const record = records.get(id);
    if (record === undefined || !hasName()) return;
    const hold = await files.hold(record.rootfsDigest).catch(() => undefined);
    if (hold === undefined) return;
    await using _hold = hold;
    const description: Described = {
      ...{ machine: MACHINE, configDigest: record.configDigest, config: record.config },
      ...{ layers: record.layers, rootfsDigest: record.rootfsDigest, ...(record.isCopy && { isCopy: true }) },
      ...{ sizeBytes: record.sizeBytes, entries: record.entries, contentBytes: record.contentBytes },
      ...{ convertedAtMs: record.convertedAtMs, refs: record.refs.filter(isShared) },
    };
    const isAnew = damaged.has(id);
    await depot.ensure({ id, description, path: hold.path }, { isAnew, maxBytes, owner }, signal);
    if (isAnew) damaged.delete(id);
    if (hasName()) await depot.name(toName(ref), { id, atMs, owner }, signal);
    // A delete during that may have found no name.
    if (!hasName()) await depot.withdraw(toName(ref), id, Date.now(), signal);
    if (this.#waiting.get(`sha256:${id}`)?.isWithdrawn) await depot.withdrawImage(id, Date.now(), signal);
  }
}

function keepNewest(wishes: Map<string, Wish>, ref: string, wish: Wish): void {
  wishes.delete(ref);
  wishes.set(ref, wish);
  if (wishes.size <= MAX_WAITING) return;
  // Of the owner with the most: none pushes out the others.
  const counts = new Map<string | undefined, number>();
  for (const { owner } of wishes.values()) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  const most = Math.max(...counts.values());
  for (const [ref, { owner }] of wishes) if (counts.get(owner) === most) return void wishes.delete(ref);
}

function toKey(ref: string): string {
  return createHash('sha256').update(ref).digest('hex');
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms).unref();
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
