// Hijacked connections: WebSocket upgrades, and interactive exec with `stdin=1`.
import type { IncomingHttpHeaders, IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { MAX_JSON_BYTES, ROUTES, type Route, toPathPattern } from '@sandboxd/api';
import type { Logger } from 'pino';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import type { HttpApp, Takeover } from '../context.ts';
import { HttpError } from '../errors.ts';
import { BodyPace } from '../input/body-source.ts';
import { BodyMemoryLimit, GrowingBuffer } from '../input/json-body.ts';
import { type AuditSink, auditRefusal, resolveRequestId } from '../middleware.ts';
import { toPath } from '../serve-routes.ts';
import { type ConnectionEvent, continueResponses, upgradeRequests } from './node-internals.ts';
import { refuse, sendLast } from './responses.ts';

const hijacked = (transport: Route['transport']) =>
  Object.values<Route>(ROUTES)
    .filter((route) => route.transport === transport)
    .map((route) => ({ method: route.method, pattern: toPathPattern(route) }));
const WEB_SOCKETS = hijacked('websocket');
const DUPLEX = hijacked('duplex');
const TUNNELS = hijacked('tunnel');

export type HijackOptions = {
  readonly app: HttpApp;
  readonly log: Logger;
  /** Rejects if the request is refused. Called before a body is read. */
  readonly admit: (request: IncomingMessage) => Promise<void>;
  readonly audit: AuditSink;
  /** Aborts when every stream must end. */
  readonly ending: AbortSignal;
  readonly lingerMs: number;
  readonly bodyIdleMs: number;
  /** Resolves when the responses to earlier requests of this connection are sent. */
  readonly settled: (socket: Duplex) => Promise<void>;
  readonly onOpen: (socket: Duplex) => void;
};

/** The `shouldUpgradeCallback` of the server. Other upgrades (h2c) are ordinary requests, as HTTP permits. */
export function isWebSocketRequest(request: IncomingMessage): boolean {
  return request.headers.upgrade?.toLowerCase() === 'websocket' && isOneOf(WEB_SOCKETS, request);
}

/**
 * Serves `upgrade` events. An interactive exec becomes an upgrade too: its client sends frames directly after the body,
 * in the same packet, and these bytes must never reach the HTTP parser.
 */
export function installHijack(server: Server, event: ConnectionEvent, options: HijackOptions): void {
  server.on(event, (socket: Socket) => upgradeRequests(socket, takesConnection));
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    options.onOpen(socket);
    continueResponses(socket);
    socket.on('error', () => socket.destroy());
    serve(request, socket, head, options).catch((error: unknown) => {
      const requestId = resolveRequestId(readHeader(request, 'x-request-id'));
      if (!isAppError(error) && !(error instanceof HttpError)) {
        options.log.error({ err: error, requestId }, 'request failed');
      }
      // The app never saw this request, or has already sent its response.
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
    // Ambiguous: the bytes after the head could be a body or WebSocket frames.
    throw new HttpError('malformed', 'malformed http request: a websocket request has no body');
  }
  const { body, rest } = isPost
    ? await readBody(incoming, socket, head, bodyIdleMs)
    : { body: null, rest: head };
  const disconnected = new AbortController();
  socket.once('close', () => disconnected.abort(new AppError('cancelled', 'the client left')));
  const takeover: Takeover = { incoming, socket, head: rest, lingerMs };
  const request = toRequest(incoming, body, disconnected.signal);
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
  using memory = new BodyMemoryLimit();
  memory.add(head.length);
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
          memory.add(bytes.length);
          const after = collector.push(bytes);
          if (collector.isDone) finish(() => resolve(after));
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
    throw new HttpError('malformed', 'malformed http request: the target is not a valid URL');
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

/** Whether the bytes behind the head are a body and then frames of a connection that is no longer HTTP. */
export function takesConnection(request: IncomingMessage): boolean {
  if (isOneOf(TUNNELS, request)) return true;
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

/** Limits of a chunked body: longest line (a size with its extensions), and longest trailer section. */
const MAX_LINE_BYTES = 4096;
const MAX_TRAILER_LINES = 64;

type State = 'size' | 'data' | 'data end' | 'trailer' | 'done';

/**
 * Parses the body of a request on a hijacked connection, where Node's parser is detached. AppError invalid_argument,
 * too_large.
 */
export class BodyCollector {
  readonly #isChunked: boolean;
  readonly #maxBytes: number;
  readonly #buffer = new GrowingBuffer();
  #state: State;
  #missingBytes: number;
  #line: Buffer = Buffer.alloc(0);
  #trailerLines = 0;

  constructor(headers: IncomingHttpHeaders, maxBytes: number) {
    const coding = headers['transfer-encoding'];
    if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
      throw new AppError(
        'invalid_argument',
        `transfer-encoding ${JSON.stringify(coding)} is not known; use chunked`,
      );
    }
    this.#isChunked = coding !== undefined;
    this.#maxBytes = maxBytes;
    this.#missingBytes = this.#isChunked ? 0 : Number(headers['content-length'] ?? 0);
    this.#state = this.#isChunked ? 'size' : this.#missingBytes === 0 ? 'done' : 'data';
    if (this.#missingBytes > maxBytes) throw this.#tooLarge();
  }

  get isDone(): boolean {
    return this.#state === 'done';
  }

  get body(): Buffer {
    return this.#buffer.bytes;
  }

  /** Takes the bytes of the body and returns the bytes after its end. */
  push(bytes: Buffer): Buffer {
    let rest = bytes;
    while (rest.length > 0 && this.#state !== 'done') {
      rest = this.#state === 'data' ? this.#takeData(rest) : this.#takeLine(rest);
    }
    return rest;
  }

  #takeData(bytes: Buffer): Buffer {
    const part = bytes.subarray(0, this.#missingBytes);
    this.#buffer.add(part);
    this.#missingBytes -= part.length;
    if (this.#missingBytes === 0) this.#state = this.#isChunked ? 'data end' : 'done';
    return bytes.subarray(part.length);
  }

  #takeLine(bytes: Buffer): Buffer {
    const end = bytes.indexOf('\n');
    this.#line = Buffer.concat([this.#line, end === -1 ? bytes : bytes.subarray(0, end)]);
    if (this.#line.length > MAX_LINE_BYTES) throw malformedBody('a line of it is too long');
    if (end === -1) return bytes.subarray(bytes.length);
    if (this.#line.at(-1) !== 0x0d) throw malformedBody('a line does not end in CR LF');
    const line = this.#line.subarray(0, -1).toString('latin1');
    this.#line = Buffer.alloc(0);
    this.#onLine(line);
    return bytes.subarray(end + 1);
  }

  #onLine(line: string): void {
    if (this.#state === 'data end') {
      if (line !== '') throw malformedBody('a chunk is longer than its size');
      this.#state = 'size';
    } else if (this.#state === 'trailer') {
      if (line === '') this.#state = 'done';
      else if (++this.#trailerLines > MAX_TRAILER_LINES) throw malformedBody('it has too many trailers');
    } else {
      const size = /^([\da-f]{1,8})[ \t]*(?:;.*)?$/i.exec(line)?.[1];
      if (size === undefined) throw malformedBody('a chunk size is not hexadecimal');
      this.#missingBytes = Number.parseInt(size, 16);
      if (this.#buffer.sizeBytes + this.#missingBytes > this.#maxBytes) throw this.#tooLarge();
      this.#state = this.#missingBytes === 0 ? 'trailer' : 'data';
    }
  }

  #tooLarge(): AppError {
    return new AppError(
      'too_large',
      `the body is over ${this.#maxBytes} bytes; a JSON body may not be larger`,
    );
  }
}

function malformedBody(what: string): AppError {
  return new AppError('invalid_argument', `the chunked body is malformed: ${what}`);
}
