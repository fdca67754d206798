// Checks the head of every request before any other processing: the host name (DNS rebinding), the origin (CSRF), and
// ambiguous headers that Node's parser accepts (request smuggling). Also CORS for the origins that the operator
// allowed.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BlockList, isIP, type Socket } from 'node:net';
import { MAX_HEADERS, ROUTES, type Route, show } from '@sandboxd/api';
import {
  type Authority,
  DEFAULT_PORTS,
  parseAuthority,
  parseOrigin,
  type Scheme,
} from '../../lib/authority.ts';
import { AppError } from '../../lib/errors.ts';
import { HttpError } from '../errors.ts';
import { PREFERENCE_APPLIED } from '../input/preference.ts';
import { REQUEST_ID_HEADER } from '../middleware.ts';

/** The reason to refuse a request; undefined for an acceptable one. */
export function findRefusal(
  request: IncomingMessage,
  names: HostNames,
  cors: Pick<Cors, 'allows'>,
): Error | undefined {
  const { headers, socket } = request;
  const requestedHosts = readHosts(request);
  if (requestedHosts instanceof Error) return requestedHosts;
  const unknown = requestedHosts.find((host) => !names.hasHost(host, socket));
  if (unknown !== undefined) {
    const message =
      `host ${show(unknown)} is not a name of this daemon; use ${toExample(socket.localPort)}, or allow it with ` +
      '--allowed-host';
    return new AppError('forbidden', message);
  }
  const excess = findExcess(request);
  if (excess !== undefined) return excess;
  const { origin } = headers;
  if (origin !== undefined && !names.hasOrigin(origin, socket) && !cors.allows(origin)) {
    const message = `origin ${show(origin)} is foreign to this daemon; send none, or allow it with --allowed-host or --cors-origin`;
    return new AppError('forbidden', message);
  }
  if (origin === undefined && isFromForeignPage(request)) {
    const message =
      'a page of another site asked for this; let it ask with CORS, and allow its origin with --cors-origin';
    return new AppError('forbidden', message);
  }
  return findUnknownCoding(request);
}

/** The hosts that a request names: its host header, and that of an absolute target. HttpError if it is ambiguous. */
export function readHosts(request: IncomingMessage): readonly string[] | HttpError {
  const { rawHeaders, httpVersion } = request;
  const valuesOf = (name: string) =>
    rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name);
  const hosts = valuesOf('host');
  if (hosts.length > 1) return malformed(`there are ${hosts.length} host headers; send one`);
  // HTTP/1.0 has no host header, and every browser sends one.
  if (hosts.length === 0 && httpVersion !== '1.0') return malformed('the host header is missing');
  if (valuesOf('authorization').length > 1)
    return malformed('there are several authorization headers; send one');
  const requestedHosts = [...hosts, ...readTarget(request)];
  if (requestedHosts.some((host) => parseAuthority(host) === undefined))
    return malformed('its host is invalid');
  return requestedHosts;
}

export function findExcess({ rawHeaders }: IncomingMessage): HttpError | undefined {
  const count = rawHeaders.length / 2;
  if (count <= MAX_HEADERS) return undefined;
  return new HttpError('headers_too_large', `there are ${count} headers; send at most ${MAX_HEADERS}`);
}

/** A body that another reader of the request could delimit differently (request smuggling). */
export function findUnknownCoding({ headers, httpVersion }: IncomingMessage): HttpError | undefined {
  const coding = headers['transfer-encoding'];
  if (coding === undefined) return undefined;
  if (httpVersion === '1.0') return malformed('http/1.0 has no transfer-encoding');
  if (coding.toLowerCase() === 'chunked') return undefined;
  return malformed(`transfer-encoding ${show(coding)} is not known; use chunked`);
}

/**
 * Whether a page of another site sent the request without CORS: with `<script src>`, `<img>`, a frame or a form. The
 * browser then sends Sec-Fetch-Site instead of Origin. Navigation to a new page is allowed, because the other page
 * cannot read the response.
 */
export function isFromForeignPage({ method, headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== 'cross-site' && site !== 'same-site') return false;
  const isNavigation = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
  return !(isNavigation && (method === 'GET' || method === 'HEAD'));
}

/** The host of an absolute-form request target, which overrides the Host header. */
function readTarget({ url = '' }: IncomingMessage): string[] {
  const host = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1];
  return host === undefined ? [] : [host];
}

/** A Unix socket has no port. */
function toExample(port: number | undefined): string {
  return port === undefined ? 'localhost' : `localhost:${port}`;
}

export function malformed(what: string): HttpError {
  return new HttpError('malformed', `malformed http request: ${what}`);
}

/**
 * A host that the operator allowed. Without a port, the default port of the scheme and the daemon's port are allowed.
 */
export type AllowedHost = { readonly scheme: Scheme; readonly at: Authority };

/** The local address of a connection. */
type Local = Pick<Socket, 'localAddress' | 'localPort'>;

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/**
 * The host names of this daemon, as a defence against DNS rebinding: a web page can resolve its own name to the address
 * of this host, and only the Host header then differs from that of a real client. Allowed are loopback names with the
 * daemon's port, the local address of the connection, and the hosts that the operator allowed.
 */
export class HostNames {
  readonly #allowed: readonly AllowedHost[];
  readonly #scheme: Scheme;

  /** `scheme` is the scheme of the daemon itself. */
  constructor(allowed: readonly AllowedHost[], scheme: Scheme = 'http') {
    this.#allowed = allowed;
    this.#scheme = scheme;
  }

  /** `text` is a Host header or the authority of a target. */
  hasHost(text: string, local: Local): boolean {
    const requested = parseAuthority(text);
    if (requested === undefined) return false;
    const isAllowed = this.#allowed.some((allowed) => covers(allowed, requested, local));
    return isAllowed || isOwn(requested, this.#scheme, local);
  }

  /** `text` is an Origin header. */
  hasOrigin(text: string, local: Local): boolean {
    const origin = parseOrigin(text);
    if (origin === undefined) return false;
    const { scheme, at } = origin;
    const isAllowed = this.#allowed.some(
      (allowed) => allowed.scheme === scheme && covers(allowed, at, local),
    );
    // No page has its origin on a Unix socket.
    const isServed = local.localPort !== undefined && scheme === this.#scheme;
    return isAllowed || (isServed && isOwn(at, scheme, local));
  }
}

function covers({ scheme, at }: AllowedHost, requested: Authority, local: Local): boolean {
  const port = requested.port ?? DEFAULT_PORTS[scheme];
  const ports = at.port === undefined ? [DEFAULT_PORTS[scheme], local.localPort] : [at.port];
  return at.host === requested.host && ports.includes(port);
}

/**
 * A Unix socket has no port, and no page can reach it. The name of a proxy in front of it must be allowed separately.
 */
function isOwn({ host, port }: Authority, scheme: Scheme, { localAddress = '', localPort }: Local): boolean {
  if (localPort !== undefined && (port ?? DEFAULT_PORTS[scheme]) !== localPort) return false;
  const address = host.replace(/^\[|\]$/g, '');
  const isLoopback = isIP(address) !== 0 && LOOPBACK.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');
  return host === 'localhost' || isLoopback || host === toHost(localAddress);
}

/** The address of a socket as a host of a URL. An IPv4-mapped IPv6 address becomes IPv4. */
function toHost(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  return isIP(plain) === 6 ? (parseAuthority(`[${plain}]`)?.host ?? '') : plain;
}

const METHODS = [...new Set(Object.values<Route>(ROUTES).map(({ method }) => method)), 'HEAD'].join(', ');
const ALLOWED_HEADERS = [
  'Authorization',
  'Content-Type',
  'Prefer',
  REQUEST_ID_HEADER,
  ...new Set(Object.values<Route>(ROUTES).flatMap(({ headers }) => Object.keys(headers ?? {}))),
].join(', ');
const EXPOSED_HEADERS = [
  REQUEST_ID_HEADER,
  'Retry-After',
  'WWW-Authenticate',
  'Allow',
  PREFERENCE_APPLIED,
  ...Object.values<Route>(ROUTES).flatMap(({ answers }) =>
    answers.flatMap(({ headers }) => Object.keys(headers ?? {})),
  ),
].join(', ');
/** Browsers cap this at two hours. */
const MAX_AGE_S = 7200;

/** CORS for the origins that the operator allowed. */
export class Cors {
  readonly #origins: ReadonlySet<string>;

  /** Origins in the syntax of browsers: `https://app.example`, `http://localhost:3000`. */
  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  allows(origin: string): boolean {
    return this.#origins.has(origin);
  }

  /** Sets the CORS headers of the response. Answers a preflight request and then returns true. */
  serve({ method, headers }: IncomingMessage, response: ServerResponse): boolean {
    if (this.#origins.size === 0) return false;
    response.setHeader('Vary', 'Origin');
    const { origin } = headers;
    if (origin === undefined || !this.allows(origin)) return false;
    response.setHeader('Access-Control-Allow-Origin', origin);
    response.setHeader('Access-Control-Expose-Headers', EXPOSED_HEADERS);
    if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false;
    response.writeHead(204, {
      'Access-Control-Allow-Methods': METHODS,
      'Access-Control-Allow-Headers': ALLOWED_HEADERS,
      'Access-Control-Max-Age': MAX_AGE_S,
    });
    response.end();
    return true;
  }
}
