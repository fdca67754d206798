// What HTTP forbids and the parser lets through: which of two readings is meant must never be guessed.
import type { IncomingMessage } from 'node:http';
import { HttpError } from '../errors.ts';

/** Undefined for a request that is well-formed in this respect. */
export function findMalformed(request: IncomingMessage): HttpError | undefined {
  const hosts = request.rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'host').length;
  if (hosts > 1) return malformed(`there are ${hosts} host headers; send one`);
  if (hosts === 0 && request.httpVersion === '1.1') return malformed('the host header is missing');
  const coding = request.headers['transfer-encoding'];
  if (coding === undefined || coding.toLowerCase() === 'chunked') return undefined;
  return malformed(`transfer-encoding ${JSON.stringify(coding)} is not known; use chunked`);
}

function malformed(what: string): HttpError {
  return new HttpError('malformed', `malformed http request: ${what}`);
}
