// The REST interface, as this front calls it: within this process and for the client's principal. So validation,
// policy, tenant, quotas, rate limits, idempotency and audit are those of every other request.
import { Requests, type Transport, type WireRequest } from '@sandboxd/client/requests';
import type { Caller, HttpApp } from '../http/context.ts';

export type { Requests };

export class Rest {
  readonly #app: HttpApp;

  constructor(app: HttpApp) {
    this.#app = app;
  }

  as(caller: Caller): Requests {
    const transport: Transport = {
      send: (request) => this.#send(request, caller),
      open: () => Promise.reject(new Error('this transport has no duplex connections')),
    };
    return new Requests({ transport, apiKey: undefined, retries: 0, timeoutMs: undefined });
  }

  async #send({ method, path, headers, body, signal }: WireRequest, caller: Caller) {
    const init = {
      method,
      headers,
      signal,
      ...(body !== undefined && { body: toBody(body), duplex: 'half' }),
    };
    const request = new Request(`http://localhost${path}`, init as RequestInit);
    const response = await this.#app.fetch(request, { caller });
    return {
      status: response.status,
      header: (name: string) => response.headers.get(name) ?? undefined,
      body: response.body ?? NOTHING,
    };
  }
}

const NOTHING: AsyncIterable<Uint8Array> = { async *[Symbol.asyncIterator]() {} };

function toBody(body: NonNullable<WireRequest['body']>) {
  return typeof body === 'string' || body instanceof Uint8Array ? body : ReadableStream.from(body);
}
