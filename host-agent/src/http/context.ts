// What travels with a request through middleware and routes.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Context, Hono } from 'hono';
import type { Logger } from 'pino';
import { AppError } from '../lib/errors.ts';
import { type IdKind, isId } from '../lib/ids.ts';

/** A connection that a route may take over instead of answering. `head` are bytes that came behind the request. */
export type Takeover = {
  readonly incoming: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** Set by the route; called once the route's own answer was dropped. */
  run?: () => void;
};

export type HttpEnv = {
  Bindings: { readonly incoming?: IncomingMessage; readonly takeover?: Takeover };
  Variables: { requestId: string; log: Logger };
};

export type HttpApp = Hono<HttpEnv>;
export type HttpContext = Context<HttpEnv>;

/** The path's sandbox id; 400 when it cannot be one. Later log lines of the request carry it. */
export function readSandboxId(c: HttpContext): string {
  return readId(c, 'sbx', 'sandbox');
}

/** The path's snapshot id, likewise. */
export function readSnapshotId(c: HttpContext): string {
  return readId(c, 'snap', 'snapshot');
}

function readId(c: HttpContext, kind: IdKind, name: string): string {
  const id = c.req.param('id') ?? '';
  if (!isId(kind, id)) {
    throw new AppError(
      'invalid_argument',
      `${name} id ${show(id)} is malformed; expected ${kind}_ and 13 characters of 0-9 and a-v`,
    );
  }
  c.set('log', c.var.log.child({ [name]: id }));
  return id;
}

/** A value as error messages show it: JSON, cut to a readable length. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
