// One line of the audit trail: JSON whose last field is the hash of all before it, which has the hash of the line before.
import { createHash } from 'node:crypto';
import type { Operation } from '@sandboxd/api';
import { hideKeys } from '../lib/hide-keys.ts';

/** What happened. Nothing of it comes from a body, an environment or a key. */
export type AuditEntry =
  | { readonly event: 'started'; readonly pid: number; readonly torn_bytes?: number; readonly lost?: Lost }
  | { readonly event: 'stopped' }
  /** Lines that could not be written, since the disk was full. */
  | { readonly event: 'unwritten'; readonly lines: number }
  /** Lines of one class that were too many, of a key or of callers without one. */
  | {
      readonly event: 'unlisted';
      readonly class: ListedClass;
      readonly lines: number;
      readonly key_id?: string;
    }
  /** So many more within that minute of what one line before it says: same key, route and ids. */
  | ({ readonly event: 'repeated'; readonly times: number } & Repeated)
  /** Somebody on the host changed keys or quotas; `changed_at` is when. */
  | {
      readonly event: 'keys';
      readonly change: string;
      readonly changed_at: string;
      readonly by: string;
      readonly key?: string | undefined;
      readonly key_id?: string | undefined;
      readonly tenant?: string | undefined;
    }
  | RequestEntry;

/** What is counted, and not listed, beyond so many lines a minute: see budgets.ts. */
export type ListedClass = 'unauthenticated' | 'denied' | 'failed' | 'broken' | 'listed';

/** What is the same of requests that are told by their count. */
export type Repeated = Pick<RequestEntry, 'key' | 'key_id' | 'tenant' | 'route' | 'operation' | 'ids'>;

/** What the registry knew of the trail's end that was not there any more at a start. */
export type Lost = { readonly known_seq: number; readonly found_seq: number };

export type RequestEntry = {
  /** `begun` is of an answer that streams, whose `request` comes when it is over. */
  readonly event: 'begun' | 'request' | 'refused';
  readonly request: string;
  readonly address: string;
  /** Name and id of the key; absent: none came, none was needed, or it was no good. */
  readonly key?: string;
  readonly key_id?: string;
  readonly tenant?: string;
  /** Absent: no route has such a path and method. */
  readonly route?: string;
  readonly operation?: Operation;
  /** What the path names, and what was made. */
  readonly ids?: readonly string[];
  readonly made?: readonly string[];
  /** Though it failed, something was asked of a guest. */
  readonly reached?: true;
  /** What was to be made, defaults and what is inherited included. */
  readonly effective?: Readonly<Record<string, unknown>>;
  readonly decision: 'allowed' | 'denied' | 'unauthenticated';
  /** Of a refusal. */
  readonly reason?: string;
  readonly status: number;
  readonly ms: number;
};

/** Before the first line there is this. */
export const NO_HASH = '0'.repeat(64);

export type Link = { readonly seq: number; readonly hash: string };

const END = /,"hash":"([0-9a-f]{64})"\}$/;

/** The line without its end, and what the next one has to say of it. */
export function toLine(entry: AuditEntry, at: Date, { seq, hash: prev }: Link): { text: string; link: Link } {
  // The hash follows on it: what is struck out was never there.
  const body = hideKeys(JSON.stringify({ seq: seq + 1, at: at.toISOString(), ...entry, prev }));
  const hash = digest(body);
  return { text: `${body.slice(0, -1)},"hash":"${hash}"}`, link: { seq: seq + 1, hash } };
}

export type ReadLine = Link & {
  readonly prev: string;
  readonly at: string;
  readonly fields: Readonly<Record<string, unknown>>;
};

/** Undefined for what is no line of a trail, or was changed. */
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
