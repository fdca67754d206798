// Steps from one schema version to the next. A step changes records of older daemons in place, once, within the
// transaction that raises the version.

/** Raised with every change that an older daemon could not read; the step to it is below. */
export const SCHEMA_VERSION = 2;

/** Access to every record of a table, within the transaction. */
export type RecordEditor = {
  /** Replaces each record by what `change` makes of it. */
  change(table: string, change: (record: Readonly<Record<string, unknown>>) => Record<string, unknown>): void;
};

/** By the version that they lead to. */
export const MIGRATIONS: Readonly<Record<number, (records: RecordEditor) => void>> = {
  // Version 1 never kept a sandbox beyond its daemon: what is recorded is a leftover, to be removed.
  2: (records) => {
    records.change('sandboxes', (record) => ({
      ...record,
      isReady: false,
      compatibility: {},
      kernelDigest: '',
    }));
  },
};
