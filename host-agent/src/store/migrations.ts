// Migrations from one schema version to the next. Each changes records of older daemons in place, once, in the
// transaction that raises the version.

/** Incremented with every change that an older daemon could not read; add the migration below. */
export const SCHEMA_VERSION = 5;

/** Access to all records of a table, within the transaction. */
export type RecordEditor = {
  /** Replaces each record by the result of `change`. */
  change(table: string, change: (record: Readonly<Record<string, unknown>>) => Record<string, unknown>): void;
};

/** The oldest version that can be migrated. */
export const OLDEST_VERSION = 4;

/** Keyed by the version that they lead to. */
export const MIGRATIONS: Readonly<Record<number, (records: RecordEditor) => void>> = {
  // Until version 4, any key that could create sandboxes could also pull images and similar: existing keys keep these
  // grants. An older daemon would give them to newer keys as well.
  5: (records) => {
    records.change('keys', (record) => ({ ...record, keepsOldGrants: true }));
  },
};
