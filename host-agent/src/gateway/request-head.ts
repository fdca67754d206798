// Heads of requests and answers of HTTP/1, beyond what Node's parser refuses: what servers could read differently is
// refused, what concerns one connection is dropped, and what is sent is written again.
import type { IncomingMessage } from 'node:http';
import { parseAuthority } from '../lib/authority.ts';
import type { Handed } from './gate.ts';

export type Headers = readonly (readonly [name: string, value: string])[];

export type GuestHead = {
  readonly method: string;
  /** Path and query, as they came. */
  readonly target: string;
  /** Without those of one connection. */
  readonly headers: Headers;
  /** Of a body, its bytes; 0: it has none. */
  readonly length: number | 'chunked';
  readonly hasOverride: boolean;
  readonly hasPathOverride: boolean;
};

export type Refused = { readonly status: 400 | 421; readonly reason: string };

type RawHead = {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
};

/** Of one connection (RFC 9110, 7.6.1), or the gateway's own to decide. `Connection` removes nothing else. */
const HOP_BY_HOP = new Set([
  ...[
    'connection',
    'proxy-connection',
    'keep-alive',
    'proxy-authenticate',
    'proxy-authorization',
    'te',
    'trailer',
  ],
  ...['transfer-encoding', 'upgrade', 'http2-settings', 'expect'],
]);
/** A server may take either of two. */
const SINGLE = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'authorization',
  'content-type',
  'expect',
]);
const OVERRIDES = new Set(['x-http-method-override', 'x-http-method', 'x-method-override']);
const PATH_OVERRIDES = new Set(['x-original-url', 'x-rewrite-url']);
/** It would lead the client past the gateway, to HTTP/3 or another host. */
const LEADS_AWAY = 'alt-svc';

/** Whether a target, in any coding, has a parameter that names another method. */
export function hasMethodParameter(target: string): boolean {
  const query = target.slice(target.indexOf('?') + 1);
  if (!target.includes('?')) return false;
  return query.split(/[&;]/).some((pair) => {
    const [coded = ''] = pair.split('=');
    // As PHP, Rails and others read names: `[_method]`, `.method`, ` _method`, `_method` and a zero byte are the same.
    const [name = ''] = decode(coded.replaceAll('+', ' ')).split('\0');
    const plain = name.trim().replaceAll(/[[\]]/g, '').replaceAll(/[. +]/g, '_');
    return plain.toLowerCase() === '_method';
  });
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function isOverride(name: string): boolean {
  return OVERRIDES.has(name.replaceAll('_', '-'));
}

/** It names another path, to servers that obey it. */
export function isPathOverride(name: string): boolean {
  return PATH_OVERRIDES.has(name.replaceAll('_', '-'));
}

/** The authority of a request must be that of its connection. */
export function refuseAuthority(text: string, { kind, name, port }: Handed): Refused | undefined {
  const authority = /[\s,/@]|:(?:0|$)/.test(text) ? undefined : parseAuthority(text);
  if (authority === undefined) return { status: 400, reason: 'its Host is not valid' };
  const isSame = authority.host === name && (authority.port ?? (kind === 'tls' ? 443 : 80)) === port;
  // A client may leave out a port that is not the scheme's: the connection has it.
  const isWithoutPort = authority.host === name && authority.port === undefined;
  return isSame || isWithoutPort
    ? undefined
    : { status: 421, reason: 'its Host is not that of the connection' };
}

export function readGuestHead(raw: RawHead, handed: Handed): GuestHead | Refused {
  const { method = '', httpVersion, rawHeaders } = raw;
  const refuse = (reason: string): Refused => ({ status: 400, reason });
  const all = toPairs(rawHeaders);
  const valuesOf = (wanted: string) =>
    all.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value);
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return refuse('its version of HTTP is unknown');
  for (const name of SINGLE) if (valuesOf(name).length > 1) return refuse(`it has more than one ${name}`);
  const [host] = valuesOf('host');
  if (host === undefined) return refuse('it has no Host');
  const misdirected = refuseAuthority(host, handed);
  if (misdirected !== undefined) return misdirected;
  const target = toTarget(raw.url ?? '', handed);
  if (typeof target !== 'string') return target;
  const [coding, length] = [valuesOf('transfer-encoding')[0], valuesOf('content-length')[0]];
  if (
    coding !== undefined &&
    (coding.toLowerCase() !== 'chunked' || httpVersion === '1.0' || length !== undefined)
  )
    return refuse('its body can be read in more than one way');
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return refuse('its Content-Length is not valid');
  return {
    ...{ method, target },
    headers: dropHopByHop(all).filter(([name]) => name.toLowerCase() !== 'content-length'),
    length: coding !== undefined ? 'chunked' : Number(length ?? 0),
    hasOverride: all.some(([name]) => isOverride(name.toLowerCase())) || hasMethodParameter(target),
    hasPathOverride: all.some(([name]) => isPathOverride(name.toLowerCase())),
  };
}

/** In origin form. A proxy's form names an authority as well, which must be the same. */
function toTarget(url: string, handed: Handed): string | Refused {
  if (!/^[!-~]+$/.test(url) || url.includes('#')) return { status: 400, reason: 'its target is not valid' };
  if (url.startsWith('/')) return url;
  const [, scheme, authority = '', path = ''] = /^(https?):\/\/([^/?]*)(.*)$/i.exec(url) ?? [];
  if (scheme?.toLowerCase() !== (handed.kind === 'tls' ? 'https' : 'http'))
    return { status: 400, reason: 'its target is not a path' };
  const refused = refuseAuthority(authority, handed);
  return refused ?? (path.startsWith('/') ? path : `/${path}`);
}

/** Why an answer would mean something else to the guest than the server means by it; undefined: it does not. */
export function findOddHead({
  statusCode = 0,
  statusMessage = '',
  headers,
}: IncomingMessage): string | undefined {
  if (statusCode < 200 || statusCode > 599) return 'the status of the server’s answer is not valid';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are refused
  if (/[\x00-\x08\x0a-\x1f\x7f]/.test(statusMessage)) return 'the answer of the server is not valid HTTP';
  const coding = headers['transfer-encoding'];
  return coding === undefined || coding.toLowerCase() === 'chunked'
    ? undefined
    : 'the answer of the server has a transfer coding besides chunked';
}

/** What goes on to the guest. */
export function toGuestHeaders(rawHeaders: readonly string[]): Headers {
  return dropHopByHop(toPairs(rawHeaders)).filter(([name]) => name.toLowerCase() !== LEADS_AWAY);
}

function dropHopByHop(headers: Headers): Headers {
  return headers.filter(([name]) => !HOP_BY_HOP.has(name.toLowerCase()));
}

export function toPairs(raw: readonly string[]): Headers {
  const pairs: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) pairs.push([raw[at] ?? '', raw[at + 1] ?? '']);
  return pairs;
}
