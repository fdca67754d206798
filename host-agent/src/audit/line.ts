// One line of the audit trail: JSON whose last field is the hash of all fields before it, which include the previous
// line's hash (a hash chain).
import { createHash } from 'node:crypto';
import type { Operation } from '@sandboxd/api';
import { hideKeys } from '../lib/logger.ts';

/**
 * What happened. Of a request body it contains limits, names and labels; nothing of an environment or a key's secret.
 */
export type AuditEntry =
  | { readonly event: 'started'; readonly pid: number; readonly torn_bytes?: number; readonly lost?: Lost }
  | { readonly event: 'stopped' }
  /** Lines that could not be written because the disk was full. */
  | { readonly event: 'unwritten'; readonly lines: number }
  /** Lines of one class beyond the rate limit, of one key or of clients without a key. */
  | {
      readonly event: 'unlisted';
      readonly class: ListedClass;
      readonly lines: number;
      readonly key_id?: string;
    }
  /** Number of further requests within that minute that equal an earlier line: same key, route and ids. */
  | ({ readonly event: 'repeated'; readonly times: number } & Repeated)
  /** An operator changed keys or quotas on the host; `changed_at` is when. */
  | {
      readonly event: 'keys';
      readonly change: string;
      readonly changed_at: string;
      readonly by: string;
      readonly key?: string | undefined;
      readonly key_id?: string | undefined;
      readonly tenant?: string | undefined;
    }
  /** An operator changed stored secrets on the host. */
  | {
      readonly event: 'secrets';
      readonly change: 'created' | 'changed' | 'removed';
      readonly changed_at: string;
      readonly by: string;
      readonly secret: string;
      readonly tenant?: string | undefined;
    }
  | RequestEntry;

/** Classes with a rate limit per minute, beyond which requests are only counted: see budgets.ts. */
export type ListedClass = 'unauthenticated' | 'denied' | 'failed' | 'broken' | 'listed';

/** The fields that are equal for all requests of a `repeated` line. */
export type Repeated = Pick<RequestEntry, 'key' | 'key_id' | 'tenant' | 'route' | 'operation' | 'ids'>;

/** The end of the trail that the registry recorded, but that was missing at a start. */
export type Lost = { readonly known_seq: number; readonly found_seq: number };

export type RequestEntry = {
  /** `begun` is for a streaming response; its `request` line follows when it has ended. */
  readonly event: 'begun' | 'request' | 'refused';
  readonly request: string;
  readonly address: string;
  /** Name and id of the key; absent: no key was sent, none was required, or it was invalid. */
  readonly key?: string;
  readonly key_id?: string;
  readonly tenant?: string;
  /** Absent: no route has this path and method. */
  readonly route?: string;
  readonly operation?: Operation;
  /** Ids in the path, and ids of created resources. */
  readonly ids?: readonly string[];
  readonly made?: readonly string[];
  /** The request failed, but reached a guest. */
  readonly reached?: true;
  /** The effective request, including defaults and inherited values. */
  readonly effective?: Readonly<Record<string, unknown>>;
  /** The answer of an earlier request with the same Idempotency-Key: nothing was made. */
  readonly replayed?: true;
  readonly decision: 'allowed' | 'denied' | 'unauthenticated';
  /** Set if the request was refused. */
  readonly reason?: string;
  readonly status: number;
  readonly ms: number;
};

/** The `prev` hash of the first line. */
export const NO_HASH = '0'.repeat(64);

export type Link = { readonly seq: number; readonly hash: string };

const END = /,"hash":"([0-9a-f]{64})"\}$/;

/** The line without its line end, and the link for the next line. */
export function toLine(entry: AuditEntry, at: Date, { seq, hash: prev }: Link): { text: string; link: Link } {
  // Keys are redacted before the hash is computed.
  const body = hideKeys(JSON.stringify({ seq: seq + 1, at: at.toISOString(), ...entry, prev }));
  const hash = digest(body);
  return { text: `${body.slice(0, -1)},"hash":"${hash}"}`, link: { seq: seq + 1, hash } };
}

export type ReadLine = Link & {
  readonly prev: string;
  readonly at: string;
  readonly fields: Readonly<Record<string, unknown>>;
};

/** Undefined if it is not a line of a trail, or was modified. */
export function readLine(text: string): ReadLine | undefined {
  const hash = END.exec(text)?.[1];
  if (hash === undefined || digest(text.replace(END, '}')) !== hash) return undefined;
  try {
    const fields = JSON.parse(text) as Record<string, unknown>;
    const { seq, prev, at } = fields;
    if (!Number.isSafeInteger(seq) || typeof prev !== 'string' || typeof at !== 'string') return undefined;
    return { seq: Number(seq), hash, prev, at, fields };
  } catch {
    return undefined;
  }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
