// Registry records of keys and tenants: how a key is minted and hashed.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Operation, Policy } from '@sandboxd/api';
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
  /** It is one of the fleet: the cluster has it, and the registry a copy. */
  readonly isShared?: true;
};

/** The last accepted use of a key, with a precision of one minute. */
export type KeyUse = { readonly atMs: number; readonly address: string };

/** A change of keys or quotas, stored until the daemon has written it to the audit trail. */
export type KeyChange = {
  readonly change: 'created' | 'revoked' | 'quota set' | 'quota removed';
  readonly atMs: number;
  /** A user of the host, or `fleet`. */
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
  max_stored_bytes: limit('chunks of its snapshots in the snapshot store, of all hosts, compressed'),
  max_paused: limit('paused sandboxes at once; they count in no other limit but max_disk_bytes and ports'),
  max_published_ports: limit('published ports of all its sandboxes'),
  max_creates_per_minute: limit('sandboxes created or forked within a minute'),
  max_changes_per_minute: limit(
    'changes of sandboxes and snapshots within a minute: PATCH, ports for URLs, rollbacks',
  ),
  net_require_inspect: z
    .boolean({ error: 'must be true or false' })
    .optional()
    .describe('whether its sandboxes have only rules whose requests the gateway reads'),
});

export type Quota = Readonly<z.output<typeof quota>>;

/** What is counted. */
export type QuotaLimit = Exclude<keyof Quota, 'net_require_inspect'>;

export const QUOTA_KEYS = Object.keys(quota.shape) as (keyof Quota)[];

/** E2B's SDKs take the second form only. Both have the same random bytes. */
const SHAPE = /^(?:sbk_[A-Za-z0-9_-]{32}|e2b_[0-9a-f]{48})$/;
const RANDOM_BYTES = 24;
export type KeyForm = 'sbk' | 'e2b';
/** Leading characters of the hash: the key's id, by which it is looked up and shown. It does not reveal the key. */
const ID_CHARS = 16;

export function mintKey(form: KeyForm = 'sbk'): string {
  return `${form}_${randomBytes(RANDOM_BYTES).toString(form === 'sbk' ? 'base64url' : 'hex')}`;
}

/** Of keys and tenants. */
export const KEY_NAME = /^[a-z0-9][a-z0-9._-]{0,62}$/;

export function isKeyText(text: string): boolean {
  return SHAPE.test(text);
}

/**
 * SHA-256 in hexadecimal. A slow hash protects guessable secrets; 192 random bits cannot be guessed, and each request
 * computes this hash.
 */
export function hashKey(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

export function toKeyId(hash: string): string {
  return hash.slice(0, ID_CHARS);
}

/** Constant-time comparison. */
export function areSameHash(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a, 'hex'), Buffer.from(b, 'hex'));
}

/** Operations that neither show nor change anything of a tenant. */
const TENANT_FREE: readonly Operation[] = ['images', 'metrics'];

/** Whether a policy allows an operation on sandboxes or snapshots. */
export function concernsTenants({ operations }: Policy): boolean {
  return operations === undefined || operations.some((operation) => !TENANT_FREE.includes(operation));
}
