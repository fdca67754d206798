// What is refused of a request by its head alone, before anything else, whatever carries it: names that are not this
// daemon's, pages of other sites, and what HTTP forbids and the parser lets through, as which of two readings is meant
// must never be guessed.
import type { IncomingMessage } from 'node:http';
import { MAX_HEADERS, show } from '@sandboxd/api';
import { parseAuthority } from '../../lib/authority.ts';
import { AppError } from '../../lib/errors.ts';
import { HttpError } from '../errors.ts';
import type { Cors } from './cors.ts';
import type { HostNames } from './host-names.ts';

/** Undefined for a request that may go on. */
export function findRefusal(request: IncomingMessage, names: HostNames, cors: Cors): Error | undefined {
  const { rawHeaders, headers, httpVersion, socket } = request;
  const valuesOf = (name: string) =>
    rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name);
  const hosts = valuesOf('host');
  if (hosts.length > 1) return malformed(`there are ${hosts.length} host headers; send one`);
  // No browser leaves it out.
  if (hosts.length === 0 && httpVersion !== '1.0') return malformed('the host header is missing');
  if (valuesOf('authorization').length > 1)
    return malformed('there are several authorization headers; send one');
  const called = [...hosts, ...readTarget(request)];
  if (called.some((host) => parseAuthority(host) === undefined)) return malformed('its host is none');
  const stranger = called.find((host) => !names.hasHost(host, socket));
  if (stranger !== undefined) {
    const message =
      `host ${show(stranger)} is no name of this daemon; use ${toExample(socket.localPort)}, or allow it with ` +
      '--allowed-host';
    return new AppError('forbidden', message);
  }
  const count = rawHeaders.length / 2;
  if (count > MAX_HEADERS)
    return new HttpError('headers_too_large', `there are ${count} headers; send at most ${MAX_HEADERS}`);
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
  const coding = headers['transfer-encoding'];
  if (coding === undefined) return undefined;
  if (httpVersion === '1.0') return malformed('http/1.0 has no transfer-encoding');
  if (coding.toLowerCase() === 'chunked') return undefined;
  return malformed(`transfer-encoding ${show(coding)} is not known; use chunked`);
}

/**
 * Without CORS a browser sends no origin: `<script src>`, `<img>`, frames and forms of other pages. What it says
 * instead is Sec-Fetch-Site. To follow a link is no way to read: only a whole new page may be opened so.
 */
function isFromForeignPage({ method, headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  if (site !== 'cross-site' && site !== 'same-site') return false;
  const isNavigation = headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
  return !(isNavigation && (method === 'GET' || method === 'HEAD'));
}

/** The host in a target that names one; it goes before the header then. */
function readTarget({ url = '' }: IncomingMessage): string[] {
  const host = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(url)?.[1];
  return host === undefined ? [] : [host];
}

/** A socket in the file system has no port. */
function toExample(port: number | undefined): string {
  return port === undefined ? 'localhost' : `localhost:${port}`;
}

function malformed(what: string): HttpError {
  return new HttpError('malformed', `malformed http request: ${what}`);
}
