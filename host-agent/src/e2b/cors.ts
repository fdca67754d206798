// CORS of this front: envd serves pages of every origin, because its tokens are in headers that no browser adds by
// itself; the control plane only those that the operator allowed.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Cors } from '../http/server/request-check.ts';

export type Origins = Pick<Cors, 'allows'>;

export const EVERY_ORIGIN: Origins = { allows: () => true };

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
const MAX_AGE_S = 7200;

/** Sets the headers of the answer. Answers a preflight request and then returns true. */
export function serveCors(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  origins: Origins,
): boolean {
  const { origin } = headers;
  if (origin === undefined || !origins.allows(origin)) return false;
  response.setHeader('Vary', 'Origin');
  response.setHeader('Access-Control-Allow-Origin', origin);
  response.setHeader('Access-Control-Expose-Headers', '*');
  if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false;
  response.writeHead(204, {
    'Access-Control-Allow-Methods': METHODS,
    // Each SDK has headers of its own; none of them matters to this front.
    'Access-Control-Allow-Headers': headers['access-control-request-headers'] ?? '*',
    'Access-Control-Max-Age': MAX_AGE_S,
    'Content-Length': 0,
  });
  response.end();
  return true;
}
