// One request to a host and its answer, as they are: streams in both directions with backpressure, and connections that
// are taken over.
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { coalesceChunks } from '../../http/server/node-internals.ts';
import { errnoOf } from '../../lib/errors.ts';
import type { Host } from '../catalogue.ts';
import { toClientHeaders, toHostHeaders, toRawHostHeaders } from './headers.ts';
import { type HostConnections, toHostError } from './host-connections.ts';

/** Informational answers before the one that counts. */
const MAX_INTERIM_ANSWERS = 16;
const REPEATABLE: readonly (string | undefined)[] = ['GET', 'HEAD', 'OPTIONS'];

export type Passed = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly host: Host;
  /** With its query. */
  readonly path: string;
};

/** Resolves when the answer has begun. Rejects with AppError before it; later failures end the connection. */
export async function pass(passed: Passed, connections: HostConnections): Promise<void> {
  const { request, response } = passed;
  const isRepeatable = REPEATABLE.includes(request.method) && !hasBody(request);
  try {
    await attempt(passed, connections);
  } catch (error) {
    // A host may close a kept connection just when a request is sent on it.
    if (!(error instanceof StaleConnection) || !isRepeatable || response.destroyed)
      throw explain(passed.host, error);
    await attempt(passed, connections).catch((again: unknown) => {
      throw explain(passed.host, again);
    });
  }
}

class StaleConnection extends Error {}

function explain(host: Host, error: unknown): Error {
  return toHostError(host, error instanceof StaleConnection ? error.cause : error);
}

function attempt({ request, response, host, path }: Passed, connections: HostConnections): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const { method = 'GET' } = request;
  const length = isChunked(request) ? ['Transfer-Encoding', 'chunked'] : [];
  const outgoing = connections.open(host, { method, path, headers: [...toHostHeaders(request), ...length] });
  let answer: IncomingMessage | undefined;
  response.once('close', () => {
    if (answer?.complete !== true || !request.complete) outgoing.destroy();
  });
  if (request.headers.expect !== undefined) outgoing.once('continue', () => response.writeContinue());
  let interim = 0;
  outgoing.on('information', () => {
    if (++interim > MAX_INTERIM_ANSWERS) outgoing.destroy(new Error('too many informational answers'));
  });
  outgoing.once('response', (received) => {
    answer = received;
    answerClient(received, response);
    resolve();
  });
  outgoing.once('upgrade', (_, socket) => {
    socket.destroy();
    reject(new Error('it answered with 101 to a request that was not an upgrade'));
  });
  outgoing.on('error', (cause) => {
    if (answer !== undefined) return;
    request.unpipe(outgoing);
    const isStale = outgoing.reusedSocket && errnoOf(cause) === 'ECONNRESET';
    reject(isStale ? new StaleConnection('closed', { cause }) : cause);
  });
  sendBody(request, outgoing);
  return promise;
}

function answerClient(answer: IncomingMessage, response: ServerResponse): void {
  coalesceChunks(answer);
  const { statusCode = 502, statusMessage } = answer;
  response.writeHead(statusCode, statusMessage, toClientHeaders(answer));
  // Events may come much later than the head.
  if (answer.headers['content-length'] === undefined) response.flushHeaders();
  answer.pipe(response, { end: false });
  answer.once('end', () => {
    // The end of an answer that was cut off is not its end.
    if (!answer.complete) return void response.destroy();
    response.addTrailers(answer.trailers as Record<string, string>);
    response.end();
  });
  answer.once('error', () => response.destroy());
  answer.once('aborted', () => response.destroy());
}

function sendBody(request: IncomingMessage, outgoing: ClientRequest): void {
  if (!hasBody(request)) {
    outgoing.end();
    return;
  }
  request.pipe(outgoing, { end: false });
  request.once('end', () => void (request.complete ? outgoing.end() : outgoing.destroy()));
  request.once('error', () => outgoing.destroy());
  request.once('aborted', () => outgoing.destroy());
}

export function hasBody(request: IncomingMessage): boolean {
  return isChunked(request) || Number(request.headers['content-length'] ?? 0) > 0;
}

function isChunked({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined;
}

/**
 * Gives the whole connection of a request to a host: its head, without what clients may not say, then all bytes in both
 * directions. Nothing else passes on that connection to the host afterwards. Rejects with AppError before that.
 */
export async function passConnection(
  { request, host, path }: Omit<Passed, 'response'>,
  head: Buffer,
  connections: HostConnections,
): Promise<void> {
  const { socket: client, method } = request;
  const target = await connections.connect(host);
  if (client.destroyed) return void target.destroy();
  const headers = toRawHostHeaders(request);
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host.url.host}`];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  target.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  if (head.length > 0) target.write(head);
  join(client, target);
}

function join(client: Duplex, host: Duplex): void {
  for (const [source, target] of [
    [client, host],
    [host, client],
  ] as const) {
    source.pipe(target);
    source.on('error', () => target.destroy());
    source.once('close', () => {
      // What was received before the end is still delivered.
      if (!source.readableEnded || target.writableFinished) return void target.destroy();
      target.once('finish', () => target.destroy());
    });
  }
}
