// What the registry keeps of keys and tenants.
import type { Policy } from '@sandboxd/api';
import { z } from 'zod';

export type KeyRecord = {
  readonly name: string;
  /** See `hashKey`. */
  readonly hash: string;
  readonly createdAtMs: number;
  readonly tenant?: string;
  /** It has a policy and no tenant, and was made to see everybody's all the same. */
  readonly seesAllTenants?: true;
  readonly policy?: Policy;
  readonly expiresAtMs?: number;
  readonly revokedAtMs?: number;
  /** See `Caller`. */
  readonly keepsOldGrants?: true;
};

/** The last time that a key was taken for good, to a minute. */
export type KeyUse = { readonly atMs: number; readonly address: string };

/** What somebody did to keys or quotas, until the daemon has it in the audit trail. */
export type KeyChange = {
  readonly change: 'created' | 'revoked' | 'quota set' | 'quota removed';
  readonly atMs: number;
  /** A user of the host. */
  readonly by: string;
  readonly key?: string;
  readonly keyId?: string;
  readonly tenant?: string;
};

const most = (description: string) =>
  z
    .int({ error: 'must be a whole number' })
    .min(0, { error: 'must be 0 or more' })
    .optional()
    .describe(description);

/** What all keys of a tenant may have together. What is absent is not restricted. */
export const quota = z.strictObject({
  max_sandboxes: most('sandboxes at once'),
  max_vcpus: most('virtual CPUs of all its sandboxes'),
  max_memory_mib: most('memory of all its sandboxes, MiB'),
  max_disk_bytes: most('writable layers of all its sandboxes, as large as they may become'),
  max_snapshots: most('snapshots at once'),
  max_published_ports: most('published ports of all its sandboxes'),
  max_creates_per_minute: most('sandboxes created or forked within a minute'),
});

export type Quota = Readonly<z.output<typeof quota>>;

export const QUOTA_KEYS = Object.keys(quota.shape) as (keyof Quota)[];
