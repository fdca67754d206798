// Requests with an Idempotency-Key go on though their client leaves, as a retry asks for their answer. Each key has a
// limited number of them.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { MAX_KEYED_REQUESTS, MAX_KEYED_REQUESTS_OF_EACH } from '@sandboxd/api';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import { type Caller, clientOf } from './callers.ts';

export class KeyedRequests {
  readonly #limit = new ConcurrencyLimit({
    what: 'running requests with an Idempotency-Key',
    max: MAX_KEYED_REQUESTS,
    maxPerClient: MAX_KEYED_REQUESTS_OF_EACH,
  });

  /** Undefined for other requests. AppError exhausted. */
  admit(request: IncomingMessage, caller: Caller): Disposable | undefined {
    return isKeyed(request) ? this.#limit.acquire(clientOf(caller), caller.tenant) : undefined;
  }
}

/** Of a request whose client left: it is cancelled, unless a retry may ask for its answer. */
export function signalOf(request: IncomingMessage, response: ServerResponse): AbortSignal {
  const left = new AbortController();
  const leave = (): void => {
    if (!response.writableFinished)
      left.abort(new AppError('cancelled', 'the client left before the answer'));
  };
  if (isKeyed(request)) return left.signal;
  if (response.destroyed) leave();
  else response.once('close', leave);
  return left.signal;
}

export function isKeyed({ headers }: IncomingMessage): boolean {
  return headers['idempotency-key'] !== undefined;
}
