// Heads of requests and answers as they pass the gateway: what concerns one connection stays on it, and what only a
// gateway may say comes from no client.
import type { IncomingMessage } from 'node:http';
import { PARKED_HEADER, PLACE_HEADER } from '../../http/index.ts';
import { HOP_BY_HOP } from '../../ingress/headers.ts';

/** The gateway has checked them for its own name; a host has another. */
const CHECKED: ReadonlySet<string> = new Set([
  'host',
  'origin',
  'referer',
  'sec-fetch-site',
  'sec-fetch-mode',
  'sec-fetch-dest',
]);

/** In pairs, as `rawHeaders` has them, in the order in which they came. */
export type RawHeaders = readonly string[];

/** Of a request that is sent on, without those that delimit its body. */
export function toHostHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = namedByConnection(headers.connection);
  return keep(rawHeaders, (name) => !HOP_BY_HOP.has(name) && !named.has(name) && !isOwn(name));
}

/** Of a request whose connection becomes that of the host, with its upgrade and the length of its body. */
export function toRawHostHeaders({ rawHeaders }: IncomingMessage): string[] {
  return keep(rawHeaders, (name) => !isOwn(name) && !name.startsWith('proxy-'));
}

export function toClientHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = namedByConnection(headers.connection);
  const isHostly = (name: string): boolean => name === PARKED_HEADER;
  return keep(rawHeaders, (name) => !HOP_BY_HOP.has(name) && !named.has(name) && !isHostly(name));
}

function isOwn(name: string): boolean {
  return name === PLACE_HEADER || CHECKED.has(name);
}

/** What must reach the other side is not for the client to drop. */
function namedByConnection(value: string | undefined): ReadonlySet<string> {
  const names = (value ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  return new Set(names.filter((name) => name !== 'authorization' && name !== 'content-length'));
}

function keep(raw: RawHeaders, isKept: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name = '', value = ''] = raw.slice(at, at + 2);
    if (isKept(name.toLowerCase())) kept.push(name, value);
  }
  return kept;
}
