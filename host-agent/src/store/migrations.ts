// Steps from one schema version to the next. A step changes records of older daemons in place, once, within the
// transaction that raises the version.

/** Raised with every change that an older daemon could not read; the step to it is below. */
export const SCHEMA_VERSION = 5;

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
  // Version 2 knew profiles only, beside the options.
  3: (records) => {
    records.change('sandboxes', ({ profile, options, ...record }) => {
      const { profile: _name, ...rest } = toObject(options);
      return { ...record, options: { ...rest, rootfs: { kind: 'profile', ...toObject(profile) } } };
    });
  },
  // From version 4 on records have owners, and there are keys: a daemon that knows neither must not serve them to everyone.
  4: () => undefined,
  // Until version 4 whoever might create pulled images, too, and the like: keys keep what they could. An older daemon would give
  // that to newer keys.
  5: (records) => {
    records.change('keys', (record) => ({ ...record, keepsOldGrants: true }));
  },
};

function toObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
