// Headers of requests and answers as they pass the ingress. A guest gets no credentials of this daemon, and its answer
// reaches no other sandbox's origin.
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { LINK_PARAMETER } from '../keys/index.ts';
import { ADDRESS_HEADERS } from './addresses.ts';

/** Names of the cookie of a link. Only TLS permits the prefix, which no other origin can write. */
export const LINK_COOKIE = 'sandbox-link';
export const SECURE_LINK_COOKIE = `__Host-${LINK_COOKIE}`;
const LINK_COOKIES: readonly string[] = [LINK_COOKIE, SECURE_LINK_COOKIE];

/** What keys and tokens of links look like; E2B's SDKs take no other form of a key than the last one. */
const CREDENTIAL = /\b(?:sb[kl]_[A-Za-z0-9_-]{32}|e2b_[0-9a-f]{48})/;

/** They concern one connection, and stay on it. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/** What only this daemon may say to a guest. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  ...ADDRESS_HEADERS,
  ...FORWARDED,
  'x-forwarded-port',
  'x-forwarded-server',
]);

/**
 * What a guest may not say: these have effects beyond its origin. Clear-Site-Data removes the cookies of every sandbox,
 * as they share a registrable domain.
 */
const NOT_ANSWERED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'alt-svc',
  'clear-site-data',
  'public-key-pins',
  'set-cookie2',
  'strict-transport-security',
]);

/** What proxies before the daemon obey: they would send their own files, or ask other servers. */
const FOR_PROXIES = /^(?:x-accel-|x-sendfile|x-lighttpd-|x-litespeed-|x-reproxy-|surrogate-)/;

/** By these, servers take a method other than that of the request. */
const METHOD_OVERRIDES = ['x-http-method-override', 'x-http-method', 'x-method-override'];

/** Fields that a trailer must not have, because readers of the head have acted on them. */
const NOT_TRAILING =
  /^(?:content-|set-cookie|authorization$|cookie$|host$|x-forwarded-|age$|cache-control$|expires$|date$|location$|vary$|warning$|expect$|max-forwards$|range$|te$)/;

export type Hop = {
  /** The address of the client. */
  readonly address: string;
  readonly scheme: string;
  readonly host: string;
  /** What the guest gets as Host. */
  readonly guestHost: string;
  /** The caller may use some methods only. */
  readonly hasFixedMethod: boolean;
  /** Headers that are for the daemon, in lower case. */
  readonly ownHeaders?: readonly string[] | undefined;
};

/** The headers of a request for the guest. */
export function toGuestHeaders(
  headers: IncomingHttpHeaders,
  { address, scheme, host, guestHost, hasFixedMethod, ownHeaders = [] }: Hop,
): OutgoingHttpHeaders {
  const kept = keep(headers, NOT_FORWARDED);
  const cookie = withoutLinkCookies(headers.cookie);
  const trailers = /\btrailers\b/i.test(String(headers.te ?? '')) && { te: 'trailers' };
  if (hasFixedMethod) for (const name of METHOD_OVERRIDES) delete kept[name];
  for (const name of ownHeaders) delete kept[name];
  if (typeof kept.referer === 'string') kept.referer = takeToken(kept.referer).target;
  for (const name of ['authorization', 'x-access-token', 'x-api-key', 'sec-websocket-protocol', 'referer'])
    if (CREDENTIAL.test(String(kept[name] ?? ''))) delete kept[name];
  delete kept.cookie;
  return {
    ...kept,
    ...(cookie !== undefined && { cookie }),
    ...trailers,
    host: guestHost,
    'x-forwarded-for': address,
    'x-forwarded-host': host,
    'x-forwarded-proto': scheme,
  };
}

/** The headers of a guest's answer for the client. */
export function toClientHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const kept = keep(headers, NOT_ANSWERED);
  for (const name of Object.keys(kept)) if (FOR_PROXIES.test(name)) delete kept[name];
  const cookies = headers['set-cookie']?.flatMap((cookie) => toHostOnly(cookie) ?? []);
  delete kept['set-cookie'];
  return { ...kept, ...(cookies !== undefined && cookies.length > 0 && { 'set-cookie': cookies }) };
}

/** The headers of a request for the ingress of a host, without those that only a gateway may send. */
export function toRelayedHeaders(
  headers: IncomingHttpHeaders,
  host: string,
  reserved: readonly string[],
): OutgoingHttpHeaders {
  const kept = toPassedHeaders(headers);
  for (const name of reserved) delete kept[name];
  const trailers = /\btrailers\b/i.test(String(headers.te ?? '')) && { te: 'trailers' };
  return { ...kept, ...trailers, host };
}

/** All but those of one connection: the other side of it has decided about the rest. */
export function toPassedHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return keep(headers, HOP_BY_HOP);
}

export function toTrailers(trailers: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const names = Object.entries(trailers).filter(
    ([name, value]) =>
      value !== undefined &&
      ![NOT_TRAILING, FOR_PROXIES].some((no) => no.test(name)) &&
      !HOP_BY_HOP.has(name),
  );
  return Object.fromEntries(names) as Record<string, string>;
}

/** Without pseudo headers, those of this hop, and those that `Connection` names. */
function keep(headers: IncomingHttpHeaders, dropped: ReadonlySet<string>): OutgoingHttpHeaders {
  const listed = String(headers.connection ?? '')
    .toLowerCase()
    .split(',');
  const named = new Set(listed.map((name) => name.trim()));
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name, value]) =>
        value !== undefined && !name.startsWith(':') && !dropped.has(name) && !isNamed(name, named),
    ),
  );
}

/** A client must not remove what the ingress itself relies on by naming it in `Connection`. */
function isNamed(name: string, named: ReadonlySet<string>): boolean {
  return named.has(name) && name !== 'host' && name !== 'cookie' && name !== 'content-length';
}

/** The values of the link's cookie, of which another sandbox may have planted some. */
export function readLinkCookies(cookie: string | undefined): string[] {
  return splitCookies(cookie).flatMap(([name, value]) => (LINK_COOKIES.includes(name) ? [value] : []));
}

function withoutLinkCookies(cookie: string | undefined): string | undefined {
  const kept = splitCookies(cookie).filter(([name]) => !LINK_COOKIES.includes(name));
  return kept.length === 0 ? undefined : kept.map(([, , text]) => text).join('; ');
}

/** Name, value and text of each. */
function splitCookies(cookie = ''): (readonly [string, string, string])[] {
  return cookie.split(';').flatMap((part) => {
    const text = part.trim();
    const at = text.indexOf('=');
    const name = at < 0 ? '' : text.slice(0, at).trim();
    return text === '' ? [] : [[name, text.slice(at + 1).trim(), text] as const];
  });
}

/** A cookie for the guest's own host; undefined for one with the name of a link's. */
function toHostOnly(cookie: string): string | undefined {
  const [pair = '', ...attributes] = cookie.split(';');
  const name = pair.slice(0, Math.max(0, pair.indexOf('='))).trim();
  if (LINK_COOKIES.includes(name)) return undefined;
  return [pair, ...attributes.filter((attribute) => !/^\s*domain\s*(?:=|$)/i.test(attribute))].join(';');
}

/** A target or URL without the token of a link. */
export function takeToken(target: string): { readonly target: string; readonly token: string | undefined } {
  const at = target.indexOf('?');
  if (at < 0) return { target, token: undefined };
  const parts = target.slice(at + 1).split('&');
  const isToken = (part: string) => part.startsWith(`${LINK_PARAMETER}=`);
  const token = parts.find(isToken)?.slice(LINK_PARAMETER.length + 1);
  const rest = parts.filter((part) => !isToken(part)).join('&');
  return { target: `${target.slice(0, at)}${rest === '' ? '' : `?${rest}`}`, token };
}
