// Keys of clients that all hosts of a fleet accept: one ConfigMap for each name. It has the hash of a key, which gives
// nothing away, and a keyed digest, so that who can only write ConfigMaps makes none.
import { createHash } from 'node:crypto';
import { policy } from '@sandboxd/api';
import { z } from 'zod';
import { KEY_NAME, type KeyRecord } from '../../keys/index.ts';
import type { FleetSeal } from '../seal.ts';
import { SEAL } from './pods.ts';

/** `valid` or `revoked`, for people; hosts read what is sealed. */
export const KEY_LABEL = 'sandboxd.dev/key';
/** Of a fleet: a list without an end would fill the registries of its hosts. */
export const MAX_KEYS = 10_000;
const DIGEST_CHARS = 32;

const name = z.string().regex(KEY_NAME);
const timeMs = z.int().min(0);
/** What a later version adds is not known here, and might be a bound: such a key is not accepted. */
const record = z.strictObject({
  name,
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  createdAtMs: timeMs,
  tenant: name.optional(),
  seesAllTenants: z.literal(true).optional(),
  policy: policy.optional(),
  expiresAtMs: timeMs.optional(),
  revokedAtMs: timeMs.optional(),
});

const configMap = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: z.string(),
    resourceVersion: z.string(),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  data: z.object({ key: z.string() }),
});

export type KeyObject = { readonly name: string; readonly version: string; readonly key: KeyRecord };

export function keysPath(namespace: string): string {
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/configmaps`;
}

/** Names of keys have characters that those of objects may not have. */
export function toKeyObjectName(key: string): string {
  return `sandboxd-key-${createHash('sha256').update(key).digest('hex').slice(0, DIGEST_CHARS)}`;
}

/** A patch, too. */
export function toKeyObject(namespace: string, { isShared: _, ...key }: KeyRecord, seal: FleetSeal) {
  const text = JSON.stringify(key);
  const name = toKeyObjectName(key.name);
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name,
      labels: { [KEY_LABEL]: key.revokedAtMs === undefined ? 'valid' : 'revoked' },
      annotations: { [SEAL]: seal.make('key', namespace, name, text) },
    },
    data: { key: text },
  };
}

/** `problem`: why it is not a key of the fleet. */
export function readKeyObject(object: unknown, seal: FleetSeal): KeyObject | { readonly problem: string } {
  const found = configMap.safeParse(object).data;
  if (found === undefined) return { problem: 'it is not one of a key' };
  const { name, namespace, resourceVersion, annotations } = found.metadata;
  if (!seal.isOf(annotations[SEAL] ?? '', 'key', namespace, name, found.data.key))
    return { problem: 'it was not made with the secret of this fleet' };
  const key = parseRecord(found.data.key);
  if (key === undefined) return { problem: 'a later version made it' };
  if (toKeyObjectName(key.name) !== name) return { problem: 'it has another name' };
  return { name, version: resourceVersion, key };
}

function parseRecord(text: string): KeyRecord | undefined {
  try {
    return record.safeParse(JSON.parse(text)).data as KeyRecord | undefined;
  } catch {
    return undefined;
  }
}
