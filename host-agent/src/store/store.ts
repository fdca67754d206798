// The registry on disk: LMDB tables of JSON-like records, with a schema version that is checked at opening.
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { AppError, toError } from '../lib/errors.ts';

/** Raised with every change that an older daemon could not read; a migration for each step belongs beside it. */
export const SCHEMA_VERSION = 1;
const MAX_TABLES = 16;

/** Records of one kind by id. Reads see every write that was awaited. */
export class Table<T> {
  readonly #db: Database<T, string>;

  constructor(db: Database<T, string>) {
    this.#db = db;
  }

  get(id: string): T | undefined {
    return this.#db.get(id);
  }

  /** Every record, ordered by id. */
  all(): { readonly id: string; readonly record: T }[] {
    return [...this.#db.getRange()].map(({ key, value }) => ({ id: key, record: value }));
  }

  /** Resolves once the record survives a crash of this process. */
  async put(id: string, record: T): Promise<void> {
    await this.#db.put(id, record);
  }

  /** Resolves once the removal survives a crash of this process. */
  async remove(id: string): Promise<void> {
    await this.#db.remove(id);
  }
}

export class Store {
  readonly #root: RootDatabase;

  private constructor(root: RootDatabase) {
    this.#root = root;
  }

  /**
   * Opens or creates the database file. AppError `internal` when it is damaged, unreadable or of a newer daemon; the
   * message says what to do.
   */
  static async open(path: string): Promise<Store> {
    let root: RootDatabase;
    try {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      root = open({ path, noSubdir: true, maxDbs: MAX_TABLES });
    } catch (error) {
      throw new AppError(
        'internal',
        `cannot open the registry ${path}: ${toError(error).message}; move it away to start with an empty one`,
        {
          cause: error,
        },
      );
    }
    const meta = root.openDB<number, string>({ name: 'meta' });
    const version = meta.get('schema_version');
    if (version === undefined) {
      await meta.put('schema_version', SCHEMA_VERSION);
    } else if (version !== SCHEMA_VERSION) {
      await root.close();
      throw new AppError(
        'internal',
        `the registry ${path} has schema version ${version}, this daemon knows ${SCHEMA_VERSION}; run the daemon that wrote it, or move it away`,
      );
    }
    return new Store(root);
  }

  table<T>(name: string): Table<T> {
    return new Table(this.#root.openDB<T, string>({ name }));
  }

  async close(): Promise<void> {
    await this.#root.close();
  }
}
