// Requests that the daemon makes to its own API for a client. Each is checked, recorded and counted as that client's.
import type { Transport, WireAnswer, WireRequest } from '@sandboxd/client/requests';
import type { FrontEnv } from './context.ts';
import { PARKED_HEADER, PLACE_HEADER } from './placement.ts';

export type { Transport, WireAnswer, WireRequest };

export type Fetch = (request: Request, env: FrontEnv) => Response | Promise<Response>;

type Options = {
  readonly fetch: Fetch;
  readonly env: FrontEnv;
  /** Aborts when the client leaves, beside the signals of requests. */
  readonly signal?: AbortSignal;
};

export class InProcessTransport implements Transport {
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  async send({ method, path, headers, body, signal: own }: WireRequest): Promise<WireAnswer> {
    const { fetch, env } = this.#options;
    const signal = this.#options.signal === undefined ? own : AbortSignal.any([own, this.#options.signal]);
    signal.throwIfAborted();
    const { place, parked } = env.caller;
    const request = new Request(`http://localhost${path}`, {
      method,
      headers: {
        ...headers,
        ...(place !== undefined && { [PLACE_HEADER]: place }),
        ...(parked !== undefined && { [PARKED_HEADER]: parked }),
      },
      signal,
      ...(body !== undefined && { body: toBody(body), duplex: 'half' }),
    });
    const response = await fetch(request, env);
    return {
      status: response.status,
      header: (name) => response.headers.get(name) ?? undefined,
      body: read(response, signal),
    };
  }

  open(): never {
    throw new Error('a request within the daemon has no connection to hijack');
  }
}

function toBody(body: NonNullable<WireRequest['body']>): string | Uint8Array<ArrayBuffer> | ReadableStream {
  if (typeof body === 'string') return body;
  return body instanceof Uint8Array ? new Uint8Array(body) : ReadableStream.from(body);
}

/** Its `return` lets go of the body also before the first read, which that of a generator does not. */
function read({ body }: Response, signal: AbortSignal): AsyncIterableIterator<Uint8Array, undefined> {
  const reader = body?.getReader();
  const cancel = (): void => void reader?.cancel(signal.reason).catch(() => undefined);
  const end = (): IteratorReturnResult<undefined> => {
    signal.removeEventListener('abort', cancel);
    return { done: true, value: undefined };
  };
  if (signal.aborted) cancel();
  else signal.addEventListener('abort', cancel, { once: true });
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      try {
        const { done = true, value } = (await reader?.read()) ?? {};
        signal.throwIfAborted();
        return done || value === undefined ? end() : { done: false, value };
      } catch (error) {
        end();
        cancel();
        throw error;
      }
    },
    async return() {
      cancel();
      return end();
    },
  };
}
