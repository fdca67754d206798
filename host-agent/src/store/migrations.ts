// Steps from one schema version to the next. A step changes records of older daemons in place, once, within the
// transaction that raises the version.

/** Raised with every change that an older daemon could not read; the step to it is below. */
export const SCHEMA_VERSION = 5;

/** Access to every record of a table, within the transaction. */
export type RecordEditor = {
  /** Replaces each record by what `change` makes of it. */
  change(table: string, change: (record: Readonly<Record<string, unknown>>) => Record<string, unknown>): void;
};

/** The oldest that a step leads on from. */
export const OLDEST_VERSION = 4;

/** By the version that they lead to. */
export const MIGRATIONS: Readonly<Record<number, (records: RecordEditor) => void>> = {
  // Until version 4 whoever might create pulled images, too, and the like: keys keep what they could. An older daemon would give
  // that to newer keys.
  5: (records) => {
    records.change('keys', (record) => ({ ...record, keepsOldGrants: true }));
  },
};
