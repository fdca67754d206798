// Requests that want the connection itself: WebSocket upgrades, and interactive exec with `stdin=1`.
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { MAX_JSON_BYTES, ROUTES, type Route, toPathPattern } from '@sandboxd/api';
import type { Logger } from 'pino';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import type { HttpApp, Takeover } from '../context.ts';
import { HttpError } from '../errors.ts';
import { BodyMemoryLimit } from '../input/body-memory-limit.ts';
import { BodyPace } from '../input/body-pace.ts';
import { toPath } from '../known-routes.ts';
import { type AuditSink, auditRefusal } from '../middleware/audit.ts';
import { resolveRequestId } from '../middleware/request-id.ts';
import { BodyCollector } from './chunked-body.ts';
import { refuse, sendLast } from './refusal.ts';

const hijacked = (transport: Route['transport']) =>
  Object.values<Route>(ROUTES)
    .filter((route) => route.transport === transport)
    .map((route) => ({ method: route.method, pattern: toPathPattern(route) }));
const WEB_SOCKETS = hijacked('websocket');
const DUPLEX = hijacked('duplex');

export type HijackOptions = {
  readonly app: HttpApp;
  readonly log: Logger;
  /** Rejects for one who may not go on, before a body is read. */
  readonly admit: (request: IncomingMessage) => Promise<void>;
  readonly audit: AuditSink;
  /** Fires when every stream must end. */
  readonly ending: AbortSignal;
  readonly lingerMs: number;
  readonly bodyIdleMs: number;
  /** Resolves when the answers to earlier requests of this connection are sent. */
  readonly settled: (socket: Duplex) => Promise<void>;
  readonly onOpen: (socket: Duplex) => void;
};

/** For the server's `shouldUpgradeCallback`: other upgrades (h2c) are ordinary requests, as HTTP allows. */
export function isWebSocketRequest(request: IncomingMessage): boolean {
  return request.headers.upgrade?.toLowerCase() === 'websocket' && isOneOf(WEB_SOCKETS, request);
}

/**
 * Clients send frames right behind the body of an interactive exec, in the same packet: bytes that must never reach the
 * HTTP parser. So such a request is told to it as an upgrade the moment its headers are complete (2 from its callback,
 * what Node itself uses for CONNECT); body and frames then come to us untouched. `connected` is the event with the
 * socket that HTTP is spoken on.
 */
export function installHijack(
  server: Server,
  connected: 'connection' | 'secureConnection',
  options: HijackOptions,
): void {
  server.on(connected, (socket: Socket) => {
    const parser: unknown = Reflect.get(socket, 'parser');
    if (!isParser(parser)) throw new Error('this Node has no parser on its HTTP connections');
    const { onIncoming } = parser;
    parser.onIncoming = (request, isKeptAlive) => {
      if (!isInteractiveExec(request)) return onIncoming(request, isKeptAlive);
      Object.assign(request, { upgrade: true });
      socket.setTimeout(0);
      return 2;
    };
  });
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    options.onOpen(socket);
    socket.on('error', () => socket.destroy());
    serve(request, socket, head, options).catch((error: unknown) => {
      const requestId = resolveRequestId(readHeader(request, 'x-request-id'));
      if (!isAppError(error) && !(error instanceof HttpError)) {
        options.log.error({ err: error, requestId }, 'request failed');
      }
      // What fails here never reached the app, or failed behind its answer.
      auditRefusal(options.audit, request, error, requestId);
      refuse(socket, error, requestId);
    });
  });
}

async function serve(
  incoming: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  { app, admit, bodyIdleMs, settled, ending, lingerMs }: HijackOptions,
): Promise<void> {
  await settled(socket);
  await admit(incoming);
  const isPost = incoming.method === 'POST';
  if (!isPost && hasBody(incoming)) {
    // What is behind the head would be a body for some, and WebSocket frames for others.
    throw new HttpError('malformed', 'malformed http request: a websocket request has no body');
  }
  const { body, rest } = isPost
    ? await readBody(incoming, socket, head, bodyIdleMs)
    : { body: null, rest: head };
  const left = new AbortController();
  socket.once('close', () => left.abort(new AppError('cancelled', 'the client left')));
  const takeover: Takeover = { incoming, socket, head: rest, lingerMs };
  const request = toRequest(incoming, body, left.signal);
  const response = await app.fetch(request, { incoming, takeover, ending });
  if (takeover.run !== undefined) takeover.run();
  else await sendLast(socket, response);
}

async function readBody(
  { headers }: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  idleMs: number,
): Promise<{ body: Buffer; rest: Buffer }> {
  const collector = new BodyCollector(headers, MAX_JSON_BYTES);
  using room = new BodyMemoryLimit();
  room.add(head.length);
  let rest = collector.push(head);
  if (!collector.isDone) {
    if (headers.expect?.toLowerCase() === '100-continue') socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    rest = await new Promise<Buffer>((resolve, reject) => {
      const finish = (settle: () => void) => {
        pace.stop();
        socket.off('data', onData).off('close', onClose).off('end', onClose);
        socket.pause();
        settle();
      };
      const onClose = () =>
        finish(() => reject(new AppError('cancelled', 'the client left within its request')));
      const onData = (bytes: Buffer) => {
        pace.received(bytes.length);
        pace.wait();
        try {
          room.add(bytes.length);
          const behind = collector.push(bytes);
          if (collector.isDone) finish(() => resolve(behind));
        } catch (error) {
          finish(() => reject(toError(error)));
        }
      };
      const pace = new BodyPace(idleMs, (error) => finish(() => reject(error)));
      pace.wait();
      socket.on('data', onData).on('close', onClose).on('end', onClose);
    });
  }
  return { body: collector.body, rest };
}

function toRequest(incoming: IncomingMessage, body: Buffer | null, signal: AbortSignal): Request {
  const target = incoming.url ?? '/';
  const url = target.startsWith('/') ? `http://localhost${target}` : target;
  if (!URL.canParse(url))
    throw new HttpError('malformed', 'malformed http request: the target is no valid URL');
  const headers = new Headers();
  for (let at = 0; at + 1 < incoming.rawHeaders.length; at += 2) {
    headers.append(incoming.rawHeaders[at] ?? '', incoming.rawHeaders[at + 1] ?? '');
  }
  const method = incoming.method ?? 'GET';
  return new Request(url, {
    method,
    headers,
    signal,
    ...(body === null ? {} : { body: new Uint8Array(body) }),
  });
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function isInteractiveExec(request: IncomingMessage): boolean {
  if (!isOneOf(DUPLEX, request)) return false;
  const query = request.url?.match(/\?([^#]*)/)?.[1];
  return query !== undefined && new URLSearchParams(query).get('stdin') === '1';
}

function isOneOf(routes: typeof DUPLEX, { method, url }: IncomingMessage): boolean {
  const path = toPath(url);
  return routes.some((route) => route.method === method && route.pattern.test(path));
}

function readHeader(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

type Parser = { onIncoming: (request: IncomingMessage, isKeptAlive: boolean) => number };

function isParser(value: unknown): value is Parser {
  return (
    typeof value === 'object' &&
    value !== null &&
    'onIncoming' in value &&
    typeof value.onIncoming === 'function'
  );
}
