// The registry on disk: LMDB tables of JSON records, with a schema version that is checked at opening.
import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Database, open, type RootDatabase } from 'lmdb';
import { AppError, errnoOf, toError } from '../lib/errors.ts';

/** Three times what a daemon with everything opens: a few bytes for each in every transaction. */
export const MAX_TABLES = 128;
/** lmdb does not report the end of a failed transaction, so closing waits at most this long. */
const CLOSE_WAIT_MS = 5000;
const META_TABLE = 'meta';
const VERSION_KEY = 'schema_version';

/**
 * Of the records in the tables. A change of them that an earlier release cannot read takes the next number, and brings
 * the records of earlier releases up to date at the opening.
 */
export const SCHEMA_VERSION = 6;

export type Range = { readonly from?: string; readonly limit?: number; readonly isReverse?: boolean };

/** Records of one kind, by id. Reads see every awaited write. */
export class Table<T> {
  readonly #db: Database<T, string>;
  readonly #onWrite: () => void;

  constructor(db: Database<T, string>, onWrite: () => void) {
    this.#db = db;
    this.#onWrite = onWrite;
  }

  get(id: string): T | undefined {
    return this.#db.get(id);
  }

  /** Like `get`, but includes writes of other processes: a plain read may use a slightly older snapshot. */
  latest(id: string): T | undefined {
    this.#db.resetReadTxn();
    return this.#db.get(id);
  }

  /** Whether there is any record, including those of other processes. */
  hasLatest(): boolean {
    this.#db.resetReadTxn();
    return [...this.#db.getKeys({ limit: 1 })].length > 0;
  }

  /** All records, ordered by id. */
  all(): { readonly id: string; readonly record: T }[] {
    return [...this.#db.getRange()].map(({ key, value }) => ({ id: key, record: value }));
  }

  /** Records from an id on, ordered by id; `isReverse`: backwards from the last one. */
  range({ from, limit, isReverse = false }: Range = {}): { readonly id: string; readonly record: T }[] {
    const options = { ...(from !== undefined && { start: from }), ...(limit !== undefined && { limit }) };
    const found = this.#db.getRange({ ...options, reverse: isReverse });
    return [...found].map(({ key, value }) => ({ id: key, record: value }));
  }

  /** Like `range`, but includes writes of other processes. */
  latestRange(range: Range = {}): ReturnType<Table<T>['range']> {
    this.#db.resetReadTxn();
    return this.range(range);
  }

  /** Only the ids, from an id on, including writes of other processes. */
  latestKeys({ from, limit }: Omit<Range, 'isReverse'>): string[] {
    this.#db.resetReadTxn();
    return [
      ...this.#db.getKeys({
        ...(from !== undefined && { start: from }),
        ...(limit !== undefined && { limit }),
      }),
    ];
  }

  /** Resolves once the record survives a crash of this process. The writes of `also` are in the same transaction. */
  async put(id: string, record: T, also?: () => void): Promise<void> {
    if (also !== undefined) return this.putAll([{ id, record }], also);
    const stored = this.#db.put(id, record);
    this.#onWrite();
    await stored;
  }

  /** Writes all records and those of `also` in one atomic transaction. Resolves as `put` does. */
  async putAll(
    records: readonly { readonly id: string; readonly record: T }[],
    also?: () => void,
  ): Promise<void> {
    // Not `transaction`: it would keep the writes that precede an exception.
    const stored = this.#db.childTransaction(() => {
      for (const { id, record } of records) void this.#db.put(id, record);
      also?.();
    });
    this.#onWrite();
    await stored;
  }

  /**
   * Runs `change` in a transaction that excludes all other writers, so what it reads is not changed before it writes.
   * It must not await; nothing is written if it throws. Resolves as `put` does.
   */
  async atomically<R>(change: () => R): Promise<R> {
    const changed = this.#db.childTransaction(change);
    this.#onWrite();
    return await changed;
  }

  /** Resolves once the removal, and the writes of `also`, survive a crash of this process. */
  async remove(id: string, also?: () => void): Promise<void> {
    const remove = () => this.#db.remove(id);
    const removed =
      also === undefined
        ? remove()
        : this.#db.childTransaction(() => {
            void remove();
            also();
          });
    this.#onWrite();
    await removed;
  }

  /** Resolves once everything written so far survives a crash of the host. */
  async flush(): Promise<void> {
    await this.#db.flushed;
  }
}

export class Store {
  /** Path of the database file. */
  readonly path: string;
  readonly #root: RootDatabase;
  /** Transactions whose thread may still be running. */
  readonly #writing = new Set<Promise<unknown>>();

  private constructor(root: RootDatabase, path: string) {
    this.#root = root;
    this.path = path;
  }

  /**
   * Opens or creates the database file, which other processes may use too. AppError `internal` if it is damaged,
   * unreadable or of another schema version; the message says what to do.
   */
  static async open(path: string): Promise<Store> {
    let root: RootDatabase | undefined;
    try {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      checkRegistryFile(path);
      root = open({ path, noSubdir: true, maxDbs: MAX_TABLES });
      // Records contain passwords of services.
      for (const file of [path, `${path}-lock`]) chmodSync(file, 0o600);
      checkVersion(root, path);
      readEverything(root);
      // In any case, so that a read-only file is found now.
      await openTable<number>(root, META_TABLE).put(VERSION_KEY, SCHEMA_VERSION);
      return new Store(root, path);
    } catch (error) {
      await root?.close().catch(() => undefined);
      if (error instanceof AppError) throw error;
      throw new AppError(
        'internal',
        `the registry ${path} cannot be used: ${toError(error).message}; ${toAdvice(errnoOf(error))}`,
        { cause: error },
      );
    }
  }

  /** The schema version of a file, which is not changed; undefined without records. Error, as `open`, for damage. */
  static async inspect(path: string): Promise<number | undefined> {
    if (!existsSync(path)) return undefined;
    checkRegistryFile(path, 'reads');
    const root = open({ path, noSubdir: true, maxDbs: MAX_TABLES, readOnly: true });
    try {
      return readVersion(root);
    } finally {
      await root.close();
    }
  }

  /**
   * Runs `change` in a transaction that excludes all other writers, other processes included. Its writes are atomic,
   * and rolled back if it throws; it must not await. Resolves as `put` does.
   */
  async atomically<T>(change: () => T): Promise<T> {
    const changed = this.#root.childTransaction(change);
    this.#onWrite();
    return await changed;
  }

  table<T>(name: string): Table<T> {
    return new Table(openTable<T>(this.#root, name), () => this.#onWrite());
  }

  /** Waits for pending writes. */
  async close(): Promise<void> {
    // lmdb itself waits for the last transaction only, and frees memory that the threads of earlier ones still use.
    await Promise.race([Promise.all(this.#writing), sleep(CLOSE_WAIT_MS, undefined, { ref: false })]);
    await this.#root.close();
  }

  #onWrite(): void {
    const forget = () => this.#writing.delete(flushed);
    const flushed: Promise<unknown> = this.#root.flushed.then(forget, forget);
    this.#writing.add(flushed);
  }
}

/** Records are JSON text: LMDB's default, MessagePack, renames a field `__proto__`. */
function openTable<T>(root: RootDatabase, name: string): Database<T, string> {
  return root.openDB<T, string>({ name, ...(name !== META_TABLE && { encoding: 'json' }) });
}

/** Finds damage at the start, not in the middle of an operation. */
function readEverything(root: RootDatabase): void {
  for (const name of [...root.getKeys()].map(String)) {
    for (const { value } of openTable<unknown>(root, name).getRange()) {
      if (value === undefined) throw new Error(`a record of its table ${name} cannot be read`);
    }
  }
}

/** Undefined without records. */
function readVersion(root: RootDatabase): number | undefined {
  const version = openTable<number>(root, META_TABLE).get(VERSION_KEY);
  if (version === undefined && isEmpty(root)) return undefined;
  if (version === undefined) throw new Error('it has no schema version');
  if (!Number.isInteger(version) || version < 1) throw new Error(`its schema version is ${version}`);
  return version;
}

/** AppError internal if the records have another schema version. */
function checkVersion(root: RootDatabase, path: string): void {
  const version = readVersion(root);
  if (version === undefined || version === SCHEMA_VERSION) return;
  const writer = version < SCHEMA_VERSION ? ', of a version that was never released' : '';
  throw new AppError(
    'internal',
    `the registry ${path} has schema version ${version}${writer}; this daemon reads version ${SCHEMA_VERSION}; run the daemon that wrote it, or move the file away to start with an empty one`,
  );
}

/** A valid file that is only inaccessible must not be moved away: its sandboxes would be ended. */
function toAdvice(errno: string | undefined): string {
  if (errno === 'EACCES' || errno === 'EPERM' || errno === 'EROFS')
    return 'run the daemon as root, on a data directory that can be written';
  return 'restore it from a backup, or move it away to start with an empty one (sandboxes that still run are ended then, snapshots removed; where there were keys, new ones have to be made)';
}

function isEmpty(root: RootDatabase): boolean {
  return [...root.getKeys()].every((name) => name === META_TABLE);
}

// Checks a registry file before LMDB maps it: an invalid or truncated file would crash the process with a signal.

const MAGIC = 0xbeefc0de;
/** Bytes from a page's start: the header has 24, then magic, version, address, map size and two tables follow. */
const MAGIC_OFFSET = 24;
const PAGE_SIZE_OFFSET = 48;
const LAST_PAGE_OFFSET = 144;
const META_BYTES = 152;
const MIN_PAGE_BYTES = 256;
const MAX_PAGE_BYTES = 65_536;

type Meta = { readonly pageBytes: number; readonly lastPage: number };

/**
 * Throws an Error that says what is wrong. A missing or empty file is valid. A truncated file is extended with zero
 * pages, which LMDB rejects cleanly where they matter; with `reads`, where nothing may change, it is refused.
 */
function checkRegistryFile(path: string, use: 'writes' | 'reads' = 'writes'): void {
  let fd: number;
  try {
    fd = openSync(path, use === 'reads' ? 'r' : 'r+');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return;
    throw error;
  }
  try {
    const { size } = fstatSync(fd);
    if (size === 0) return;
    const first = readMeta(fd, 0);
    const second = readMeta(fd, first.pageBytes);
    const wantedBytes = (Math.max(first.lastPage, second.lastPage) + 1) * first.pageBytes;
    if (size >= wantedBytes) return;
    if (use === 'reads') throw new Error(`it is truncated: ${size} of ${wantedBytes} bytes`);
    ftruncateSync(fd, wantedBytes);
  } finally {
    closeSync(fd);
  }
}

function readMeta(fd: number, position: number): Meta {
  const bytes = Buffer.alloc(META_BYTES);
  const length = readSync(fd, bytes, 0, META_BYTES, position);
  if (length < META_BYTES) throw new Error('it is cut off at its beginning');
  if (bytes.readUInt32LE(MAGIC_OFFSET) !== MAGIC) throw new Error('it is not an LMDB database');
  const pageBytes = bytes.readUInt32LE(PAGE_SIZE_OFFSET);
  const lastPage = Number(bytes.readBigUInt64LE(LAST_PAGE_OFFSET));
  const isSane = pageBytes >= MIN_PAGE_BYTES && pageBytes <= MAX_PAGE_BYTES && lastPage < 2 ** 32;
  if (!isSane) throw new Error('its first pages make no sense');
  return { pageBytes, lastPage };
}
