// gRPC, and other requests that need HTTP/2 in the guest: one connection to the port (h2c with prior knowledge) for
// each connection of a client.
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from 'node:http2';
import type { Duplex } from 'node:stream';
import { AppError, isAppError } from '../lib/errors.ts';
import type { Exchange } from './forward.ts';
import { toClientHeaders, toTrailers } from './headers.ts';

const CONNECT_MS = 120_000;
const WINDOW_BYTES = 256 * 1024;

/** Whether the guest must get a request as HTTP/2. */
export function isGrpc({ httpVersionMajor, headers }: IncomingMessage): boolean {
  return httpVersionMajor === 2 && /^application\/grpc(?:$|[+;])/.test(headers['content-type'] ?? '');
}

export class GrpcSessions {
  /** By connection of the client, then by sandbox and port. */
  readonly #sessions = new WeakMap<object, Map<string, Promise<ClientHttp2Session>>>();

  /** As `forward`. */
  async forward(exchange: Exchange): Promise<void> {
    // The classes of node:http2 have the interface of those of node:http.
    const request = exchange.request as unknown as Http2ServerRequest;
    const response = exchange.response as unknown as Http2ServerResponse;
    const session = await this.#open(request, exchange);
    if (response.stream.destroyed) return;
    const stream = send(session, exchange, request.stream.endAfterHeaders);
    await pass(request, response, stream, exchange.idleMs);
  }

  #open(request: Http2ServerRequest, { sandbox, port }: Exchange): Promise<ClientHttp2Session> {
    const client = request.stream.session;
    if (client === undefined) throw new AppError('cancelled', 'the client left');
    const sessions = this.#sessions.get(client) ?? new Map<string, Promise<ClientHttp2Session>>();
    this.#sessions.set(client, sessions);
    const key = `${sandbox.id}:${port}`;
    const known = sessions.get(key);
    if (known !== undefined) return known;
    const opened = sandbox
      .connectPort(port, { signal: AbortSignal.timeout(CONNECT_MS) })
      .then((stream) => toSession(stream));
    const forget = (): void => void sessions.delete(key);
    opened.then((session) => {
      session.once('close', forget);
      session.once('goaway', forget);
      if (client.destroyed) session.destroy();
      client.once('close', () => session.destroy());
    }, forget);
    sessions.set(key, opened);
    return opened;
  }
}

function toSession(stream: Duplex): ClientHttp2Session {
  const session = connect('http://guest', {
    createConnection: () => stream,
    settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
  });
  session.on('error', () => session.destroy());
  return session;
}

/** AppError invalid_argument for headers that cannot be sent. */
function send(session: ClientHttp2Session, exchange: Exchange, endStream: boolean): ClientHttp2Stream {
  try {
    return session.request(toPseudo(exchange), { endStream });
  } catch (cause) {
    throw new AppError('invalid_argument', 'the request has headers that cannot be passed on', { cause });
  }
}

function toPseudo({ request, target, headers }: Exchange): OutgoingHttpHeaders {
  const { host, ...rest } = headers;
  return {
    ':method': request.method,
    ':path': target,
    ':scheme': 'http',
    ':authority': String(host),
    ...rest,
  };
}

/** Resolves when the answer has begun. AppError before it. No listener throws: that would end the daemon. */
function pass(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  stream: ClientHttp2Stream,
  idleMs: number,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let isBegun = false;
  const cancel = (): void => stream.close(constants.NGHTTP2_CANCEL);
  const fail = (cause: Error): void => {
    reject(isAppError(cause) ? cause : badAnswer('something that is not HTTP/2', cause));
    // What answers a failure before the beginning must reach the client.
    if (isBegun && !response.stream.destroyed && !(stream.rstCode === 0 && response.writableEnded))
      response.stream.close(stream.rstCode || constants.NGHTTP2_INTERNAL_ERROR);
  };
  stream.setTimeout(idleMs, () => {
    reject(new AppError('port_timeout', `the server in the sandbox sent nothing for ${idleMs / 1000} s`));
    cancel();
  });
  response.once('close', cancel);
  request.pipe(stream);
  request.once('aborted', cancel);
  stream.once('response', (headers: IncomingHttpHeaders, flags: number) => {
    try {
      begin(response, headers, (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0);
    } catch (cause) {
      reject(badAnswer('headers that are not valid', cause));
      return cancel();
    }
    isBegun = true;
    if (!response.writableEnded) stream.pipe(response, { end: false });
    resolve();
  });
  stream.once('trailers', (trailers: Record<string, string>) => {
    try {
      response.addTrailers(toTrailers(trailers));
    } catch (cause) {
      reject(badAnswer('trailers that are not valid', cause));
      cancel();
    }
  });
  stream.once('end', () => isBegun && response.end());
  stream.on('error', fail);
  stream.once('close', () => fail(new Error(`stream ended with code ${stream.rstCode}`)));
  return promise;
}

/** Throws for a head that cannot be passed on. */
function begin(response: Http2ServerResponse, headers: IncomingHttpHeaders, isEnd: boolean): void {
  const status = Number(headers[':status']);
  if (!(status >= 200 && status <= 599)) throw new Error(`status ${status}`);
  for (const [name, value] of Object.entries(toClientHeaders(headers)))
    if (value !== undefined) response.setHeader(name, value);
  response.statusCode = status;
  // With the head alone gRPC answers an error; its end must be in the same frame.
  if (isEnd) response.end();
  else response.writeHead(status);
}

function badAnswer(what: string, cause: unknown): AppError {
  return new AppError('port_failed', `the server in the sandbox answered with ${what}`, { cause });
}
