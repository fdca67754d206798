// Heads of requests and answers as they pass the gateway: what concerns one connection stays on it, and what only a
// gateway may say comes from no client.
import type { IncomingMessage } from 'node:http';
import { PARKED_HEADER, PLACE_HEADER, WANTED_HEADER } from '../../http/index.ts';
import { HOP_BY_HOP } from '../../ingress/headers.ts';
import { CLIENT_HEADER, writeClientHeader } from '../client-header.ts';
import type { FleetSeal } from '../seal.ts';

/** The gateway has checked them for its own name; a host has another. */
const CHECKED: ReadonlySet<string> = new Set([
  'host',
  'origin',
  'referer',
  'sec-fetch-site',
  'sec-fetch-mode',
  'sec-fetch-dest',
]);

/** What must reach the host is not for the client to drop. */
const NEEDED: readonly string[] = ['authorization', 'content-length', CLIENT_HEADER];

/** In pairs, as `rawHeaders` has them, in the order in which they came. */
export type RawHeaders = readonly string[];

/** Writes into a request who its client is, in place of what the client says; before it is sent on. */
export function nameClient(request: IncomingMessage, seal: FleetSeal): void {
  const { rawHeaders, headers, socket } = request;
  const header = writeClientHeader(socket.remoteAddress ?? 'local', seal);
  const kept = keep(rawHeaders, (name) => name !== CLIENT_HEADER);
  rawHeaders.splice(0, rawHeaders.length, ...kept, CLIENT_HEADER, header);
  headers[CLIENT_HEADER] = header;
}

/** What `nameClient` wrote, of a request that the gateway makes itself. */
export function clientHeader({ headers }: Pick<IncomingMessage, 'headers'>): string[] {
  const header = headers[CLIENT_HEADER];
  return typeof header === 'string' ? [CLIENT_HEADER, header] : [];
}

/** Those of `toHostHeaders` with these names, and the client. */
export function pickHostHeaders(request: IncomingMessage, names: readonly string[]): string[] {
  const isKept = (name: string): boolean => names.includes(name) || name === CLIENT_HEADER;
  return keep(toHostHeaders(request), isKept);
}

/** Of a request that is sent on, without those that delimit its body. */
export function toHostHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = namedByConnection(headers.connection);
  return keep(rawHeaders, (name) => !HOP_BY_HOP.has(name) && !named.has(name) && !isOwn(name));
}

/** Of a request whose body the gateway has read, without its length. */
export function toBodyHeaders(request: IncomingMessage): string[] {
  return keep(toHostHeaders(request), (name) => name !== 'content-length' && name !== 'expect');
}

/** Of a request whose connection becomes that of the host, with its upgrade and the length of its body. */
export function toRawHostHeaders({ rawHeaders }: IncomingMessage): string[] {
  return keep(rawHeaders, (name) => !isOwn(name) && !name.startsWith('proxy-'));
}

export function toClientHeaders({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = namedByConnection(headers.connection);
  const isHostly = (name: string): boolean => name === PARKED_HEADER || name === WANTED_HEADER;
  return keep(rawHeaders, (name) => !HOP_BY_HOP.has(name) && !named.has(name) && !isHostly(name));
}

function isOwn(name: string): boolean {
  return name === PLACE_HEADER || name === PARKED_HEADER || CHECKED.has(name);
}

function namedByConnection(value: string | undefined): ReadonlySet<string> {
  const names = (value ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  return new Set(names.filter((name) => !NEEDED.includes(name)));
}

function keep(raw: RawHeaders, isKept: (name: string) => boolean): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [name = '', value = ''] = raw.slice(at, at + 2);
    if (isKept(name.toLowerCase())) kept.push(name, value);
  }
  return kept;
}
