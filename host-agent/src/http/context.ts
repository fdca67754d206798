// What travels with a request through middleware and routes.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Context, Hono } from 'hono';
import type { Logger } from 'pino';

/** A connection that a route may take over instead of answering. `head` are bytes that came behind the request. */
export type Takeover = {
  readonly incoming: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** How long what still comes is taken after the last byte was sent. */
  readonly lingerMs: number;
  /** Set by the route; called once the route's own answer was dropped. */
  run?: () => void;
};

export type HttpEnv = {
  Bindings: {
    readonly incoming?: IncomingMessage;
    readonly takeover?: Takeover;
    readonly ending?: AbortSignal;
  };
  Variables: { requestId: string; log: Logger };
};

export type HttpApp = Hono<HttpEnv>;
export type HttpContext = Context<HttpEnv>;

/** Fires when the daemon stops and waits for nothing any more; absent without a server. */
export function endingOf(c: HttpContext): AbortSignal | undefined {
  const env: HttpContext['env'] | undefined = c.env;
  return env?.ending;
}
