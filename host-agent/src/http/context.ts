// What travels with a request through middleware and routes.
import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Context, Hono } from 'hono';
import type { Logger } from 'pino';
import type { Principal } from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import type { SandboxHandle, SandboxHost } from '../sandboxes/interface.ts';

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

/** Where a route leaves what its answer's body is, for a server that sends it by itself. */
export type DirectAnswer = { outflow?: PullStream };

/** What handlers say of their request beyond its path. */
export type AuditNotes = {
  /** Ids of what was made. */
  made?: readonly string[];
  /** What was to be made. */
  effective?: Readonly<Record<string, unknown>>;
  /** Something was asked of a guest: what comes of it later, an error included, may come behind what it did. */
  reached?: true;
};

export type HttpEnv = {
  Bindings: {
    readonly incoming?: IncomingMessage;
    readonly outgoing?: ServerResponse;
    readonly takeover?: Takeover;
    readonly direct?: DirectAnswer;
    readonly ending?: AbortSignal;
  };
  Variables: { requestId: string; traceId?: string; log: Logger; principal: Principal; audit: AuditNotes };
};

export type HttpApp = Hono<HttpEnv>;
export type HttpContext = Context<HttpEnv>;

/** A header by its lower-case name, from what Node has parsed where there is a connection. */
export function headerOf(c: HttpContext, name: string): string | undefined {
  const env: Partial<HttpContext['env']> | undefined = c.env;
  if (env?.incoming === undefined) return c.req.header(name);
  const value = env.incoming.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

/** A sandbox whose guest is asked for something, which the audit trail has whatever comes of it. AppError not_found. */
export function guestOf(host: SandboxHost, c: HttpContext, id: string): SandboxHandle {
  const sandbox = host.as(c.get('principal')).get(id);
  c.get('audit').reached = true;
  return sandbox;
}

/** Fires when the daemon stops and waits for nothing any more; absent without a server. */
export function endingOf(c: HttpContext): AbortSignal | undefined {
  const env: HttpContext['env'] | undefined = c.env;
  return env?.ending;
}

/** Where the client is. */
export function addressOf(c: HttpContext): string {
  const env: HttpContext['env'] | undefined = c.env;
  return env?.incoming?.socket.remoteAddress ?? 'local';
}

/** What closes when the answer is over; undefined without a server. */
export function endOf({ env }: HttpContext): EventEmitter | undefined {
  const { outgoing, takeover }: Partial<HttpContext['env']> = env ?? {};
  return takeover?.socket ?? outgoing;
}
