// Registry records of keys and tenants.
import type { Policy } from '@sandboxd/api';
import { z } from 'zod';

export type KeyRecord = {
  readonly name: string;
  /** See `hashKey`. */
  readonly hash: string;
  readonly createdAtMs: number;
  readonly tenant?: string;
  /** It has a policy and no tenant, and was explicitly allowed to see all tenants. */
  readonly seesAllTenants?: true;
  readonly policy?: Policy;
  readonly expiresAtMs?: number;
  readonly revokedAtMs?: number;
  /** See `Principal`. */
  readonly keepsOldGrants?: true;
};

/** The last accepted use of a key, with a precision of one minute. */
export type KeyUse = { readonly atMs: number; readonly address: string };

/** A change of keys or quotas, stored until the daemon has written it to the audit trail. */
export type KeyChange = {
  readonly change: 'created' | 'revoked' | 'quota set' | 'quota removed';
  readonly atMs: number;
  /** A user of the host. */
  readonly by: string;
  readonly key?: string;
  readonly keyId?: string;
  readonly tenant?: string;
};

const limit = (description: string) =>
  z
    .int({ error: 'must be a whole number' })
    .min(0, { error: 'must be 0 or more' })
    .optional()
    .describe(description);

/** Limits for all keys of a tenant together. Absent fields are unlimited. */
export const quota = z.strictObject({
  max_sandboxes: limit('sandboxes at once'),
  max_vcpus: limit('virtual CPUs of all its sandboxes'),
  max_memory_mib: limit('memory of all its sandboxes, MiB'),
  max_disk_bytes: limit('writable layers of all its sandboxes, as large as they may become'),
  max_snapshots: limit('snapshots at once'),
  max_published_ports: limit('published ports of all its sandboxes'),
  max_creates_per_minute: limit('sandboxes created or forked within a minute'),
});

export type Quota = Readonly<z.output<typeof quota>>;

export const QUOTA_KEYS = Object.keys(quota.shape) as (keyof Quota)[];
