// The answers to requests with an Idempotency-Key, on disk for a day. An answer is written in the same transaction as
// what the request made, so that after a crash both exist or neither does.
import { createHash } from 'node:crypto';
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { IDEMPOTENCY_KEPT_S, MAX_RECORDED_ANSWER_BYTES, MAX_RECORDED_BYTES } from '@sandboxd/api';
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import type { Store, Table } from '../store/store.ts';

/** A tenant, or a key without one, may have this share of what all may have. */
const SHARE = 1 / 2;
const KEPT_MS = IDEMPOTENCY_KEPT_S * 1000;
const SWEEP_MS = 60_000;
/** Entries that one transaction removes. */
const BATCH = 500;
/** Bytes of an entry beside its answer, about; so their number is limited as well. */
const OVERHEAD_BYTES = 256;
const CANNOT_REMOVE = 'cannot remove old answers of idempotency keys';
/** Digits of a time within a key: keys are ordered as text. */
const DIGITS = 15;

/** A request with a key. */
export type Question = {
  /** Identifies key and client. */
  readonly id: string;
  /** The tenant, or the key without one, whose share it counts for. */
  readonly sharer: string;
  /** Identifies method, path, query and body. */
  readonly fingerprint: string;
};

export type Answer = {
  readonly status: number;
  /** JSON. */
  readonly text: string;
  /** Digest of a streamed body. */
  readonly content?: string | undefined;
};

type Stored = {
  readonly atMs: number;
  readonly sharer: string;
  readonly fingerprint: string;
  readonly status: number;
  readonly content?: string;
  /** Compressed, because forks repeat the same fields; in base64. */
  readonly body: string;
};

/** What requests need of the records. */
export type Answers = Pick<AnswerRecords, 'find' | 'put' | 'record' | 'settle' | 'remove'>;

type Use = { count: number; bytes: number };

export class AnswerRecords {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #answers: Table<Stored>;
  /** Sizes by sharer, time and id. */
  readonly #order: Table<number>;
  readonly #uses = new Map<string, Use>();
  readonly #total: Use = { count: 0, bytes: 0 };
  readonly #timer: NodeJS.Timeout;
  #sweeping: Promise<void> = Promise.resolve();

  constructor(store: Store, log: Logger) {
    this.#store = store;
    this.#log = log;
    this.#answers = store.table('idempotency_answers');
    this.#order = store.table('idempotency_order');
    for (const { id, record } of this.#order.range()) this.#count(toSharer(id), 1, record);
    this.#timer = setInterval(() => void this.sweep(), SWEEP_MS).unref();
  }

  get total(): Readonly<Use> {
    return this.#total;
  }

  /** Undefined: there is no answer, or it is older than a day. */
  find(id: string): (Answer & Pick<Question, 'fingerprint'>) | undefined {
    const stored = this.#answers.get(id);
    if (stored === undefined || isOver(stored)) return undefined;
    const { fingerprint, status, content, body } = stored;
    return { fingerprint, status, content, text: zstdDecompressSync(Buffer.from(body, 'base64')).toString() };
  }

  /** Call within a transaction of the registry, and `settle` after it. AppError internal if the answer is too large. */
  put({ id, sharer, fingerprint }: Question, { status, text, content }: Answer): void {
    const bytes = zstdCompressSync(text);
    if (bytes.length > MAX_RECORDED_ANSWER_BYTES)
      throw new AppError('internal', `the answer has ${bytes.length} bytes, too many to be recorded`);
    const body = bytes.toString('base64');
    const stored = {
      ...{ atMs: Date.now(), sharer: digest(sharer), fingerprint, status, body },
      ...(content !== undefined && { content }),
    };
    void this.#answers.put(id, stored);
    void this.#order.put(toOrderKey(id, stored), sizeOf(stored));
  }

  /** The same, in a transaction of its own. */
  async record(question: Question, answer: Answer): Promise<void> {
    await this.#store.atomically(() => this.put(question, answer));
  }

  /** Counts a new answer, and removes old ones beyond the limits. */
  async settle({ id }: Pick<Question, 'id'>): Promise<void> {
    const stored = this.#answers.get(id);
    if (stored === undefined) return;
    this.#count(stored.sharer, 1, sizeOf(stored));
    await this.#evict(id).catch((err: unknown) => this.#log.warn({ err }, CANNOT_REMOVE));
  }

  /** Removes an expired answer, or one whose request was undone before it was counted. */
  async remove(id: string, isCounted = true): Promise<void> {
    const stored = this.#answers.get(id);
    if (stored === undefined) return;
    await this.#store.atomically(() => this.#forget(id, stored));
    if (isCounted) this.#count(stored.sharer, -1, -sizeOf(stored));
  }

  /** Removes expired answers. */
  sweep(): Promise<void> {
    this.#sweeping = this.#sweeping
      .then(() => this.#sweep())
      .catch((err: unknown) => this.#log.warn({ err }, CANNOT_REMOVE));
    return this.#sweeping;
  }

  /** Resolves when nothing is written any more. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sweeping;
  }

  async #sweep(): Promise<void> {
    for (const sharer of [...this.#uses.keys()]) {
      for (;;) {
        const old = this.#oldest(sharer, BATCH).filter(({ atMs }) => isOver({ atMs }));
        await this.#removeAll(old);
        if (old.length < BATCH) break;
      }
    }
  }

  /** Of the sharer with the most, the oldest go first; a single one may not take more than its share. */
  async #evict(newest: string): Promise<void> {
    for (;;) {
      const [sharer, use] = [...this.#uses].reduce((most, each) =>
        each[1].bytes > most[1].bytes ? each : most,
      );
      if (this.#total.bytes <= MAX_RECORDED_BYTES && use.bytes <= MAX_RECORDED_BYTES * SHARE) return;
      const old = this.#oldest(sharer, 2).filter(({ id }) => id !== newest);
      if (old.length === 0) return;
      await this.#removeAll(old);
    }
  }

  #oldest(sharer: string, limit: number): { readonly id: string; readonly atMs: number }[] {
    return this.#order
      .range({ from: `${sharer} `, limit })
      .filter(({ id }) => toSharer(id) === sharer)
      .map(({ id: key }) => {
        const [, atMs, id = ''] = key.split(' ');
        return { id, atMs: Number(atMs) };
      });
  }

  async #removeAll(entries: readonly { readonly id: string; readonly atMs: number }[]): Promise<void> {
    const found = entries.flatMap(({ id }) => {
      const stored = this.#answers.get(id);
      return stored === undefined ? [] : [{ id, stored }];
    });
    if (found.length === 0) return;
    await this.#store.atomically(() => {
      for (const { id, stored } of found) this.#forget(id, stored);
    });
    for (const { stored } of found) this.#count(stored.sharer, -1, -sizeOf(stored));
  }

  #forget(id: string, stored: Stored): void {
    void this.#answers.remove(id);
    void this.#order.remove(toOrderKey(id, stored));
  }

  #count(sharer: string, count: number, bytes: number): void {
    const use = this.#uses.get(sharer) ?? { count: 0, bytes: 0 };
    for (const each of [use, this.#total]) {
      each.count += count;
      each.bytes += bytes;
    }
    if (use.count > 0) this.#uses.set(sharer, use);
    else this.#uses.delete(sharer);
  }
}

function sizeOf({ body }: Pick<Stored, 'body'>): number {
  return Buffer.byteLength(body, 'base64') + OVERHEAD_BYTES;
}

/** A clock that was set back makes no answer older. */
function isOver({ atMs }: { readonly atMs: number }): boolean {
  return Date.now() - atMs >= KEPT_MS;
}

function toOrderKey(id: string, { sharer, atMs }: Pick<Stored, 'sharer' | 'atMs'>): string {
  return `${sharer} ${String(atMs).padStart(DIGITS, '0')} ${id}`;
}

function toSharer(orderKey: string): string {
  return orderKey.slice(0, orderKey.indexOf(' '));
}

/** No two clients, keys or requests share one. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
