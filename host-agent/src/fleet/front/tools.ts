// Tools for agents over all hosts: each call of a tool becomes requests to the gateway's own REST interface, with the
// key of the agent, so that hosts decide about them as about those of any client.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import type { Logger } from 'pino';
import { connectionOf, type HttpContext } from '../../http/context.ts';
import { createMcpApp } from '../../http/index.ts';
import { answerDirectly, toResponse } from '../../http/server/responses.ts';
import { OPERATOR, type Principal } from '../../keys/index.ts';
import type { Caller, Callers } from './callers.ts';
import { OwnInterface } from './own-transport.ts';

export type ToolsDeps = {
  readonly callers: Callers;
  /** The REST interface of the gateway. */
  readonly serve: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly log: Logger;
};

export class Tools {
  readonly #callers: Callers;
  readonly #known = new WeakMap<IncomingMessage, Caller>();
  readonly #stop = new AbortController();
  readonly #listener;

  constructor({ callers, serve, log }: ToolsDeps) {
    this.#callers = callers;
    const own = new OwnInterface(serve);
    const stopping = this.#stop.signal;
    const app = createMcpApp({
      ...{ log, stopping },
      principalOf: (c) => this.#principalOf(c),
      connect: (c, signal) => own.as(connectionOf(c).incoming, signal),
    });
    this.#listener = getRequestListener(answerDirectly({ app, log, ending: stopping }), {
      hostname: 'localhost',
      errorHandler: (error) => toResponse(error, log),
      autoCleanupIncoming: false,
    });
  }

  /** RefusedCaller; AppError exhausted when no host answers. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const left = new AbortController();
    response.once('close', () => left.abort());
    this.#known.set(request, await this.#callers.find(request, left.signal));
    if (request.headers.expect !== undefined) response.writeContinue();
    await this.#listener(request, response);
  }

  close(): void {
    this.#stop.abort();
  }

  /** Limits and labels are those of its key and tenant; what it may do the hosts decide. */
  #principalOf(c: HttpContext): Principal {
    const { incoming } = connectionOf(c);
    const caller = incoming && this.#known.get(incoming);
    if (caller === undefined || !caller.hasKey) return OPERATOR;
    const { digest, tenant } = caller;
    return { kind: 'key', id: digest, key: digest, ...(tenant !== undefined && { tenant }) };
  }
}
