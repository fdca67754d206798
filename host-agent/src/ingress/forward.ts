// One request to a server in a guest, and its answer: streams in both directions with backpressure, and trailers.
import {
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
  request as send,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { coalesceChunks } from '../http/server/node-internals.ts';
import { AppError, errnoOf, isAppError } from '../lib/errors.ts';
import type { GuestAgent, GuestRequest } from './guest-agent.ts';
import { toTrailers } from './headers.ts';
import type { SandboxPorts } from './port-host.ts';

/** Of the head of an answer. */
const MAX_ANSWER_HEAD_BYTES = 64 * 1024;
const MAX_ANSWER_HEADERS = 256;
/** Informational answers before the one that counts. */
export const MAX_INTERIM_ANSWERS = 16;
/** For the last bytes of a client that left. */
const LAST_BYTES_MS = 30_000;

export type Exchange = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly sandbox: SandboxPorts;
  readonly port: number;
  /** Of the request for the guest. */
  readonly target: string;
  readonly headers: OutgoingHttpHeaders;
  /** For answers that have no policy of their own. */
  readonly defaults: OutgoingHttpHeaders;
  /** Those of an answer that the client gets. */
  readonly toClientHeaders: (headers: IncomingHttpHeaders) => OutgoingHttpHeaders;
  /** How long neither side may send anything. */
  readonly idleMs: number;
};

export type Agents = {
  /** Keeps idle connections. */
  readonly pool: GuestAgent;
  /** A connection for each request. */
  readonly single: GuestAgent;
};

/** Resolves when the answer has begun. Rejects with AppError before it; later failures end the connection. */
export function forward(exchange: Exchange, agents: Agents): Promise<void> {
  const { request } = exchange;
  const isRepeatable = ['GET', 'HEAD', 'OPTIONS'].includes(request.method ?? '') && !hasBody(request);
  if (!isRepeatable) return attempt(exchange, agents.single);
  return attempt(exchange, agents.pool).catch((error: unknown) => {
    // The guest may close a kept connection just when a request is sent on it.
    if (!(error instanceof StaleConnection) || isClosed(exchange.response)) throw error;
    return attempt(exchange, agents.single);
  });
}

/** That of HTTP/2 has no `destroyed`, and emits `close` once, maybe before anything listens for it. */
export function isClosed(response: ServerResponse): boolean {
  const { stream } = response as unknown as { readonly stream?: Duplex };
  return stream?.destroyed ?? response.destroyed;
}

/** A kept connection ended before any byte of the answer. */
class StaleConnection extends Error {}

function attempt(exchange: Exchange, agent: GuestAgent): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const { request, response, idleMs } = exchange;
  const outgoing = open(exchange, agent);
  const idle = setTimeout(() => outgoing.destroy(idleError(idleMs)), idleMs);
  const touch = (): void => void idle.refresh();
  let answer: IncomingMessage | undefined;
  response.once('close', () => {
    clearTimeout(idle);
    if (answer?.complete !== true || !request.complete) outgoing.destroy();
  });
  if (request.headers.expect !== undefined) outgoing.once('continue', () => response.writeContinue());
  outgoing.once('response', (received: IncomingMessage) => {
    answer = received;
    try {
      pass(received, exchange, touch);
      resolve();
    } catch (cause) {
      outgoing.destroy();
      reject(badAnswer('headers that are not valid', cause));
    }
  });
  // Without a listener the connection would be closed without a word.
  outgoing.once('upgrade', (_answer, guest: Duplex) => {
    clearTimeout(idle);
    guest.destroy();
    reject(badAnswer('101 to a request that was not an upgrade'));
  });
  outgoing.on('error', (error) => {
    if (answer !== undefined) return;
    clearTimeout(idle);
    request.unpipe(outgoing);
    reject(outgoing.reusedSocket && errnoOf(error) === 'ECONNRESET' ? new StaleConnection() : explain(error));
  });
  sendBody(request, outgoing, touch);
  return promise;
}

/** AppError invalid_argument for a request that HTTP/1.1 cannot carry. */
function open({ request, sandbox, port, target, headers }: Exchange, agent: GuestAgent): ClientRequest {
  const options: GuestRequest = {
    agent,
    sandbox,
    guestPort: port,
    method: request.method ?? 'GET',
    path: target,
    headers: { ...headers, ...(isChunked(request) && { 'transfer-encoding': 'chunked' }) },
    setHost: false,
    maxHeaderSize: MAX_ANSWER_HEAD_BYTES,
  };
  try {
    const outgoing = send(options);
    // Node would drop further ones.
    outgoing.maxHeadersCount = 0;
    let interim = 0;
    outgoing.on('information', () => {
      if (++interim > MAX_INTERIM_ANSWERS) outgoing.destroy(badAnswer('too many informational answers'));
    });
    return outgoing;
  } catch (cause) {
    throw new AppError('invalid_argument', 'the request has a path or header that HTTP/1.1 cannot carry', {
      cause,
    });
  }
}

/** Throws for headers that cannot be sent. */
function pass(
  answer: IncomingMessage,
  { response, defaults, toClientHeaders }: Exchange,
  touch: () => void,
): void {
  coalesceChunks(answer);
  const { statusCode = 502, rawHeaders } = answer;
  if (statusCode < 200 || statusCode > 999) throw new Error(`status ${statusCode}`);
  if (rawHeaders.length / 2 > MAX_ANSWER_HEADERS) throw new Error('too many headers');
  const headers = { ...defaults, ...toClientHeaders(answer.headers) };
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) response.setHeader(name, value);
  response.writeHead(statusCode);
  // Events may come much later than the head.
  if (answer.headers['content-length'] === undefined) response.flushHeaders();
  answer.on('data', touch);
  answer.pipe(response, { end: false });
  answer.once('end', () => {
    const trailers = toTrailers(answer.trailers);
    if (Object.keys(trailers).length > 0) response.addTrailers(trailers);
    response.end();
  });
  answer.once('error', () => response.destroy());
}

function sendBody(request: IncomingMessage, outgoing: ClientRequest, touch: () => void): void {
  if (!hasBody(request)) {
    outgoing.end();
    return;
  }
  request.on('data', touch);
  request.pipe(outgoing, { end: false });
  request.once('end', () => {
    // The end of a request that was cut off is not its end.
    if (!request.complete) return void outgoing.destroy();
    const trailers = toTrailers(request.trailers);
    if (isChunked(request) && Object.keys(trailers).length > 0) outgoing.addTrailers(trailers);
    outgoing.end();
  });
  request.once('error', () => outgoing.destroy());
  request.once('aborted', () => outgoing.destroy());
}

export function hasBody(request: IncomingMessage): boolean {
  return isChunked(request) || Number(request.headers['content-length'] ?? 0) > 0;
}

function isChunked(request: IncomingMessage): boolean {
  if (request.httpVersionMajor === 1) return request.headers['transfer-encoding'] !== undefined;
  const { stream } = request as unknown as { readonly stream: { readonly endAfterHeaders: boolean } };
  return !stream.endAfterHeaders && request.headers['content-length'] === undefined;
}

/** Passes an upgrade. Resolves when it is done or refused by the guest; rejects before any answer. */
export function forwardUpgrade(
  exchange: Exchange,
  agents: Agents,
  head: Buffer,
): Promise<Tunnel | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Tunnel | undefined>();
  const { request, response, idleMs } = exchange;
  const headers = { ...exchange.headers, connection: 'Upgrade', upgrade: 'websocket' };
  const outgoing = open({ ...exchange, headers }, agents.single);
  const idle = setTimeout(() => outgoing.destroy(idleError(idleMs)), idleMs);
  const { socket } = request;
  // Nothing reads it before the tunnel; this way its end is noticed, and at most a buffer is taken.
  const noticeEnd = (): void => void socket.read(0);
  socket.on('readable', noticeEnd);
  const onClose = (): void => {
    clearTimeout(idle);
    outgoing.destroy();
  };
  response.once('close', onClose);
  outgoing.once('upgrade', (answer: IncomingMessage, guest: Duplex, guestHead: Buffer) => {
    clearTimeout(idle);
    socket.off('readable', noticeEnd);
    response.off('close', onClose);
    response.detachSocket(socket);
    try {
      if (answer.headers.upgrade?.toLowerCase() !== 'websocket') throw new Error('another protocol');
      socket.write(toUpgradeHead(exchange.toClientHeaders(answer.headers)));
    } catch {
      socket.destroy();
      guest.destroy();
      return resolve(undefined);
    }
    resolve(join(socket, head, guest, guestHead));
  });
  outgoing.once('response', (answer: IncomingMessage) => {
    socket.off('readable', noticeEnd);
    try {
      pass(answer, exchange, () => void idle.refresh());
      resolve(undefined);
    } catch (cause) {
      outgoing.destroy();
      reject(badAnswer('headers that are not valid', cause));
    }
  });
  outgoing.on('error', (error) => {
    clearTimeout(idle);
    socket.off('readable', noticeEnd);
    reject(explain(error));
  });
  outgoing.end();
  return promise;
}

export type Tunnel = { readonly client: Duplex; readonly guest: Duplex };

function toUpgradeHead(headers: OutgoingHttpHeaders): string {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((each) => {
      const line = `${name}: ${each}`;
      if (/[^\t\x20-\x7e\x80-\xff]/.test(line)) throw new Error('a header is not valid');
      return `${line}\r\n`;
    }),
  );
  return `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${lines.join('')}\r\n`;
}

function join(client: Duplex, head: Buffer, guest: Duplex, guestHead: Buffer): Tunnel {
  for (const [source, target, first] of [
    [client, guest, head],
    [guest, client, guestHead],
  ] as const) {
    if (first.length > 0) target.write(first);
    source.pipe(target);
    source.on('error', () => target.destroy());
    source.once('close', () => {
      // What was received before the end is still delivered.
      if (!source.readableEnded || target.writableFinished) return void target.destroy();
      target.once('finish', () => target.destroy());
      // A client that reads slowly may be evicted; a guest that does not read at all has this long.
      if (target !== guest) return;
      const timer = setTimeout(() => target.destroy(), LAST_BYTES_MS);
      target.once('close', () => clearTimeout(timer));
    });
  }
  return { client, guest };
}

function idleError(idleMs: number): AppError {
  return new AppError('port_timeout', `the server in the sandbox sent nothing for ${idleMs / 1000} s`);
}

function badAnswer(what: string, cause?: unknown): AppError {
  return new AppError('port_failed', `the server in the sandbox answered with ${what}`, { cause });
}

function explain(error: Error): AppError {
  if (isAppError(error)) return error;
  const errno = errnoOf(error) ?? '';
  if (errno.startsWith('HPE_')) return badAnswer('malformed HTTP', error);
  return new AppError('port_failed', 'the server in the sandbox closed the connection without an answer', {
    cause: error,
  });
}
