// Pages of other origins that the operator lets use this daemon, and the headers by which a browser learns of it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ROUTES, type Route } from '@sandboxd/api';
import { PREFERENCE_APPLIED } from '../input/preference.ts';
import { REQUEST_ID_HEADER } from '../middleware/request-id.ts';

const METHODS = [...new Set(Object.values<Route>(ROUTES).map(({ method }) => method)), 'HEAD'].join(', ');
const ASKED_HEADERS = ['Authorization', 'Content-Type', 'Prefer', REQUEST_ID_HEADER].join(', ');
const SHOWN_HEADERS = [
  REQUEST_ID_HEADER,
  'Retry-After',
  'WWW-Authenticate',
  'Allow',
  PREFERENCE_APPLIED,
  ...Object.values<Route>(ROUTES).flatMap(({ answers }) =>
    answers.flatMap(({ headers }) => Object.keys(headers ?? {})),
  ),
].join(', ');
/** Browsers themselves forget after two hours. */
const MAX_AGE_S = 7200;

export class Cors {
  readonly #origins: ReadonlySet<string>;

  /** As browsers write them: `https://app.example`, `http://localhost:3000`. */
  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  allows(origin: string): boolean {
    return this.#origins.has(origin);
  }

  /**
   * Puts the headers on whatever the answer will be; true when the request was a browser's question alone, and is
   * answered.
   */
  serve({ method, headers }: IncomingMessage, response: ServerResponse): boolean {
    if (this.#origins.size === 0) return false;
    response.setHeader('Vary', 'Origin');
    const { origin } = headers;
    if (origin === undefined || !this.allows(origin)) return false;
    response.setHeader('Access-Control-Allow-Origin', origin);
    response.setHeader('Access-Control-Expose-Headers', SHOWN_HEADERS);
    if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false;
    response.writeHead(204, {
      'Access-Control-Allow-Methods': METHODS,
      'Access-Control-Allow-Headers': ASKED_HEADERS,
      'Access-Control-Max-Age': MAX_AGE_S,
    });
    response.end();
    return true;
  }
}
