// The journal of events on disk, in order. An entry is written in the same transaction as the change of the registry,
// so that after a crash both exist or neither does.
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import { randomSuffix } from '../lib/ids.ts';
import type { Store, Table } from '../store/store.ts';

const ENTRIES = 'events';
const META = 'events_meta';
const META_KEY = 'journal';
/** Digits of a sequence number as a key: keys are ordered as text. */
const DIGITS = 16;
/** Newest entries that are held in memory for subscribers. */
const RECENT = 1024;
const PRUNE_MS = 60_000;
/** Entries that are read or removed at a time. */
const BATCH = 500;

export type Entry<E> = {
  readonly seq: number;
  readonly event: E;
  /** The serialized event, cached for all subscribers. */
  text?: Buffer;
};

type Meta = {
  /** Identifies this journal: ids of another journal are invalid here. */
  readonly epoch: string;
  /** The newest entry that was pruned. */
  readonly prunedTo: number;
  /** The newest entry when this record was written. */
  readonly last: number;
};

export type JournalOptions = {
  readonly keepMs: number;
  readonly maxBytes: number;
  readonly log: Logger;
};

type Stored<E> = { readonly event: E; readonly bytes: number };

export class Journal<E extends { readonly atMs: number }> {
  readonly #store: Store;
  readonly #entries: Table<Stored<E>>;
  readonly #metas: Table<Meta>;
  readonly #options: JournalOptions;
  readonly #listeners = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  #meta: Meta;
  #next: number;
  #bytes = 0;
  #recent: Entry<E>[] = [];
  #pruning: Promise<void> = Promise.resolve();

  private constructor(store: Store, meta: Meta, options: JournalOptions) {
    this.#store = store;
    this.#entries = store.table(ENTRIES);
    this.#metas = store.table(META);
    this.#options = options;
    this.#meta = meta;
    const [newest] = this.#entries.range({ isReverse: true, limit: 1 });
    this.#next = Math.max(meta.last, toSeq(newest?.id)) + 1;
    for (const { record } of this.#entries.range()) this.#bytes += record.bytes;
    this.#recent = this.#load(Math.max(0, this.#next - 1 - RECENT), RECENT);
    this.#timer = setInterval(() => void this.prune(), PRUNE_MS).unref();
  }

  static async open<E extends { readonly atMs: number }>(
    store: Store,
    options: JournalOptions,
  ): Promise<Journal<E>> {
    const metas = store.table<Meta>(META);
    const stored = metas.get(META_KEY);
    const meta = stored ?? { epoch: randomSuffix().slice(0, 8), prunedTo: 0, last: 0 };
    if (stored === undefined) await metas.put(META_KEY, meta);
    const journal = new Journal<E>(store, meta, options);
    await journal.prune();
    return journal;
  }

  /** Sequence number of the newest entry; 0 when there is none. */
  get last(): number {
    return Math.max(this.#meta.last, this.#recent.at(-1)?.seq ?? 0);
  }

  /** Entries up to this one were pruned. */
  get prunedTo(): number {
    return this.#meta.prunedTo;
  }

  get bytes(): number {
    return this.#bytes;
  }

  toId(seq: number): string {
    return `${this.#meta.epoch}-${seq}`;
  }

  /** Sequence number of the entry after which a reader resumes. AppError invalid_argument, gone. */
  toSeq(id: string): number {
    const [, epoch, digits] = /^([0-9a-v]{8})-(\d{1,15})$/.exec(id) ?? [];
    if (digits === undefined)
      throw new AppError(
        'invalid_argument',
        `event id ${JSON.stringify(id.slice(0, 64))} is malformed; send one as it came`,
      );
    const seq = Number(digits);
    if (epoch !== this.#meta.epoch || seq > this.last) {
      throw new AppError(
        'gone',
        `event ${id} is not an event of this daemon; read the list of sandboxes and go on without Last-Event-ID`,
      );
    }
    if (seq < this.prunedTo) {
      throw new AppError(
        'gone',
        `events right behind ${id} are not kept any more, the oldest that is there comes behind ` +
          `${this.toId(this.prunedTo)}; read the list of sandboxes and go on from there`,
      );
    }
    return seq;
  }

  /** Must be called within a change of the registry. */
  put(event: E): void {
    const bytes = JSON.stringify(event).length;
    void this.#entries.put(toKey(this.#next++), { event, bytes });
    this.#bytes += bytes;
  }

  /** Writes an event in a transaction of its own. Resolves when it survives a crash. */
  async append(event: E): Promise<void> {
    await this.#store.atomically(() => this.put(event));
    this.refresh();
  }

  /** Loads new entries and notifies the listeners. */
  refresh(): void {
    const previous = this.last;
    for (;;) {
      const more = this.#load(this.last, BATCH);
      this.#recent.push(...more);
      if (more.length < BATCH) break;
    }
    if (this.#recent.length > 2 * RECENT) this.#recent = this.#recent.slice(-RECENT);
    if (this.last > previous) for (const listener of [...this.#listeners]) listener();
  }

  /** The listener is called when there are new entries, until the returned function is called. */
  onMore(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether all entries after it are in memory. */
  isRecent(seq: number): boolean {
    const oldest = this.#recent[0]?.seq;
    return seq >= this.last || (oldest !== undefined && seq >= oldest - 1);
  }

  /** Entries after `seq`, oldest first, at most BATCH of them; empty when there are no newer ones. */
  read(seq: number): readonly Entry<E>[] {
    if (seq >= this.last) return [];
    if (!this.isRecent(seq)) return this.#load(seq, BATCH);
    const at = this.#recent.findLastIndex((entry) => entry.seq <= seq) + 1;
    return this.#recent.slice(at, at + BATCH);
  }

  /** Removes entries that are too old or exceed the size limit. */
  prune(): Promise<void> {
    this.#pruning = this.#pruning
      .then(() => this.#prune())
      .catch((err: unknown) => this.#options.log.warn({ err }, 'cannot remove old events'));
    return this.#pruning;
  }

  /** Resolves when nothing is written any more. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#pruning;
  }

  async #prune(): Promise<void> {
    const { keepMs, maxBytes } = this.#options;
    const now = Date.now();
    for (;;) {
      let freed = 0;
      const old: string[] = [];
      for (const { id, record } of this.#entries.range({ limit: BATCH })) {
        if (this.#bytes - freed <= maxBytes && record.event.atMs >= now - keepMs) break;
        freed += record.bytes;
        old.push(id);
      }
      const newest = old.at(-1);
      if (newest === undefined) return;
      const meta = { ...this.#meta, prunedTo: toSeq(newest), last: Math.max(this.last, toSeq(newest)) };
      await this.#store.atomically(() => {
        for (const id of old) void this.#entries.remove(id);
        void this.#metas.put(META_KEY, meta);
      });
      this.#meta = meta;
      this.#bytes -= freed;
      this.#recent = this.#recent.filter(({ seq }) => seq > meta.prunedTo);
      if (old.length < BATCH) return;
    }
  }

  #load(seq: number, limit: number): Entry<E>[] {
    return this.#entries
      .range({ from: toKey(seq + 1), limit })
      .map(({ id, record: { event } }) => ({ seq: toSeq(id), event }));
  }
}

function toKey(seq: number): string {
  return String(seq).padStart(DIGITS, '0');
}

function toSeq(key: string | undefined): number {
  return Number(key ?? 0);
}
