// The REST interface, as this front calls it: within this process and for the client's principal. So validation,
// policy, tenant, quotas, rate limits, idempotency and audit are those of every other request.
import { Requests } from '@sandboxd/client/requests';
import type { Caller, HttpApp } from '../http/context.ts';
import { InProcessTransport } from '../http/in-process.ts';

export type { Requests };

export class Rest {
  readonly #app: HttpApp;

  constructor(app: HttpApp) {
    this.#app = app;
  }

  /** `signal` ends its requests: the client has left. */
  as(caller: Caller, signal?: AbortSignal): Requests {
    const transport = new InProcessTransport({
      ...(signal && { signal }),
      fetch: (request, env) => this.#app.fetch(request, env),
      env: { caller },
    });
    return new Requests({ transport, apiKey: undefined, retries: 0, timeoutMs: undefined });
  }
}
