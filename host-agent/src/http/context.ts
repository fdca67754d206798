// The context of a request, which middleware and routes share.
import type { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Context, Hono } from 'hono';
import type { Logger } from 'pino';
import type { ByteSource } from '../guest/files.ts';
import type { Principal } from '../keys/index.ts';
import type { PullStream } from '../lib/byte-queue.ts';
import { AppError } from '../lib/errors.ts';
import type { AwakeSandbox, CommitHook, SandboxHost } from '../sandboxes/interface.ts';
import { addressOfClient } from './server/client-address.ts';

/** A connection that a route may hijack instead of answering. `head` holds the bytes received after the request. */
export type Takeover = {
  readonly incoming: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** How long to read and discard input after the last byte was sent. */
  readonly lingerMs: number;
  /** The route sets it. The server calls it after it has dropped the route's response. */
  run?: () => void;
};

/** A route stores the stream of its body here if the server writes it directly to the connection. */
export type DirectAnswer = { stream?: PullStream };

/** Facts about a request that handlers add to its audit record. */
export type AuditNotes = {
  /** Ids of the created resources. */
  made?: readonly string[];
  /** The requested properties of a new resource, after defaults. */
  effective?: Readonly<Record<string, unknown>>;
  /** The answer is that of an earlier request with the same Idempotency-Key. */
  replayed?: true;
  /** The request reached a guest, so it may have had effects even if it failed. */
  reached?: true;
};

/** The client of a request that another front of this daemon makes, which has authenticated it. */
export type Caller = {
  readonly principal: Principal;
  readonly address: string;
  /** By which a gateway of the fleet places what the request makes. */
  readonly place?: string | undefined;
  /** By which a gateway asks about sandboxes that the snapshot store offers. */
  readonly parked?: string | undefined;
};

/** Of a request that another front of this daemon makes. */
export type FrontEnv = { readonly caller: Caller; readonly ending?: AbortSignal };

/** Of a request on a connection: its headers authenticate its client. */
export type ConnectionEnv = {
  readonly incoming?: IncomingMessage;
  readonly outgoing?: ServerResponse;
  readonly takeover?: Takeover;
  readonly direct?: DirectAnswer;
  readonly ending?: AbortSignal;
};

export type HttpEnv = {
  Bindings: ConnectionEnv | FrontEnv;
  Variables: {
    requestId: string;
    traceId?: string;
    log: Logger;
    principal: Principal;
    audit: AuditNotes;
    /** Set if the request has an Idempotency-Key. */
    keyed?: KeyedRequest;
  };
};

export type HttpApp = Hono<HttpEnv>;
export type HttpContext = Context<HttpEnv>;

/** Adds name and labels to the audit record: the requested ones first, in the end those that there are. */
export function auditAbout(
  c: HttpContext,
  { name, labels = {} }: { readonly name?: string | null | undefined; readonly labels?: object | undefined },
): void {
  const audit = c.get('audit');
  const { name: _, labels: __, ...effective } = audit.effective ?? {};
  audit.effective = {
    ...effective,
    ...(name !== undefined && { name }),
    ...(Object.keys(labels).length > 0 && { labels }),
  };
}

/** A header by its lower-case name. Reads Node's parsed headers if there is a connection. */
export function headerOf(c: HttpContext, name: string): string | undefined {
  const { incoming } = connectionOf(c);
  if (incoming === undefined) return c.req.header(name);
  const value = incoming.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}

/**
 * The sandbox for a request to its guest; a paused one is resumed. Notes in the audit record that the request reached a
 * guest. AppError not_found, and those of a resume.
 */
export async function guestOf(host: SandboxHost, c: HttpContext, id: string): Promise<AwakeSandbox> {
  const sandbox = host.as(c.get('principal')).get(id);
  c.get('audit').reached = true;
  return await sandbox.awake(clientSignal(c));
}

/** Aborts when the daemon stops and the drain timeout is over. Undefined without a server. */
export function endingOf(c: HttpContext): AbortSignal | undefined {
  const env: HttpContext['env'] | undefined = c.env;
  return env?.ending;
}

/** Empty for a request of another front, and without a server. */
export function connectionOf({ env }: HttpContext): ConnectionEnv {
  return env === undefined || 'caller' in env ? {} : env;
}

/** The client that another front of this daemon has authenticated; undefined for a request on a connection. */
export function frontCallerOf({ env }: HttpContext): Caller | undefined {
  return env !== undefined && 'caller' in env ? env.caller : undefined;
}

/** The IP address of the client, or `local`. */
export function addressOf(c: HttpContext): string {
  const { incoming } = connectionOf(c);
  return frontCallerOf(c)?.address ?? (incoming === undefined ? 'local' : addressOfClient(incoming));
}

/** Emits `close` at the end of the response. Undefined without a server. */
export function endOf(c: HttpContext): (EventEmitter & { readonly destroyed: boolean }) | undefined {
  const { outgoing, takeover } = connectionOf(c);
  return takeover?.socket ?? outgoing;
}

/** Carries out a request with an Idempotency-Key, and records its answer. */
export interface KeyedRequest {
  /** Binds the answer to a transaction. */
  commitHook<T>(toBody: (made: T) => object): CommitHook<T>;
  /** Records the answer of work without a transaction, which may go on after the response began. */
  track<T>(work: Promise<T>, toBody: (made: T) => object): Promise<void>;
  /** Notes the bytes of a streamed body, to compare them with those of retries. */
  observe(read: ByteSource): ByteSource;
}

// A signal that aborts with AppError cancelled when the client disconnects. With an Idempotency-Key it never aborts: a
// retry gets the answer.
export function clientSignal(c: HttpContext): AbortSignal {
  const { signal } = c.req.raw;
  const disconnected = new AbortController();
  if (c.get('keyed') !== undefined) return disconnected.signal;
  const onAbort = () => disconnected.abort(new AppError('cancelled', 'the client left before the answer'));
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  return disconnected.signal;
}

/** Limit for text of clients: a path may have 16 KiB, and error messages quote it. */
export const MAX_LOGGED_CHARS = 1000;
