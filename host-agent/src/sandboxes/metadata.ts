// What clients may set and change of a sandbox that exists: name, labels, environment, end of its lifetime.
import type { Labels } from '@sandboxd/api';

export type Metadata = {
  /** Unique among the sandboxes of its owner's tenant. */
  readonly name?: string;
  readonly labels: Labels;
  /** Variables of every command and of the service. Pairs, because the registry renames a variable `__proto__`. */
  readonly env: readonly (readonly [string, string])[];
  /** Absent: `timeoutS` counts from the creation. */
  readonly expiresAtMs?: number;
  /** As of the last time that it was stored; absent: its creation. */
  readonly lastUsedAtMs?: number;
};

export const NO_METADATA: Metadata = { labels: {}, env: [] };

type WithMetadata = { readonly metadata?: Metadata };

export function metadataOf({ metadata }: WithMetadata): Metadata {
  return metadata ?? NO_METADATA;
}

/** End of its lifetime, Unix milliseconds; undefined if it has none. */
export function expiryOf(
  record: WithMetadata & { readonly createdAtMs: number; readonly options: { readonly timeoutS: number } },
): number | undefined {
  const { timeoutS } = record.options;
  if (timeoutS <= 0) return undefined;
  return metadataOf(record).expiresAtMs ?? record.createdAtMs + timeoutS * 1000;
}
