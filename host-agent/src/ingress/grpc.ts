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
import { guardFirstBytes } from '../lib/http2-sessions.ts';
import { type Exchange, MAX_INTERIM_ANSWERS } from './forward.ts';
import { AnswerBody, type Budget, passRequest } from './grpc-body.ts';
import { toClientHeaders, toTrailers } from './headers.ts';
import type { SandboxPorts } from './port-host.ts';

/** Whether the guest must get a request as HTTP/2. */
export function isGrpc({ httpVersionMajor, headers }: IncomingMessage): boolean {
  return httpVersionMajor === 2 && /^application\/grpc(?:$|[+;])/.test(headers['content-type'] ?? '');
}

export class GrpcSessions {
  /** By connection of the client. */
  readonly #guests = new WeakMap<object, GuestSessions>();

  /** As `forward`. */
  async forward(exchange: Exchange): Promise<void> {
    const { sandbox, port, idleMs } = exchange;
    // The classes of node:http2 have the interface of those of node:http.
    const request = exchange.request as unknown as Http2ServerRequest;
    const response = exchange.response as unknown as Http2ServerResponse;
    const session = await this.#guestsOf(request).get(sandbox, port);
    if (response.stream.destroyed) return;
    const stream = send(session, exchange, request.stream.endAfterHeaders);
    const body = new AnswerBody(stream, response, session.budget);
    await pass(request, response, stream, body, idleMs);
  }

  /** What allowed the request has ended, so the connection that it uses takes no further ones. */
  retire(request: IncomingMessage, { sandbox, port }: Pick<Exchange, 'sandbox' | 'port'>): void {
    const client = (request as Partial<Pick<Http2ServerRequest, 'stream'>>).stream?.session;
    if (client !== undefined) this.#guests.get(client)?.retire(sandbox, port);
  }

  #guestsOf({ stream }: Http2ServerRequest): GuestSessions {
    const client = stream.session;
    if (client === undefined || client.destroyed) throw new AppError('cancelled', 'the client left');
    const known = this.#guests.get(client);
    if (known !== undefined) return known;
    const guests = new GuestSessions();
    this.#guests.set(client, guests);
    client.once('close', () => guests.end());
    return guests;
  }
}

/** AppError invalid_argument for headers that cannot be sent. */
function send(session: GuestSession, exchange: Exchange, endStream: boolean): ClientHttp2Stream {
  try {
    return session.request(toPseudo(exchange), endStream);
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
  body: AnswerBody,
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
  passRequest(request, stream);
  request.once('aborted', cancel);
  let interim = 0;
  stream.on('headers', () => {
    if (++interim <= MAX_INTERIM_ANSWERS) return;
    reject(badAnswer('too many informational answers', undefined));
    cancel();
  });
  stream.once('response', (headers: IncomingHttpHeaders, flags: number) => {
    try {
      begin(response, headers, (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0);
    } catch (cause) {
      reject(badAnswer('headers that are not valid', cause));
      return cancel();
    }
    isBegun = true;
    body.begin();
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

// Connections of HTTP/2 to ports of guests. Clients do not share them; one ends soon after its last stream, so that
// what allowed its streams does not hold the guest longer.

const CONNECT_MS = 120_000;
/** Of an answer that the client has not read. */
const WINDOW_BYTES = 32 * 1024;
/** How long a connection without streams is kept. */
const KEPT_MS = 2000;
/** How long a guest may take to close its side. */
const LINGER_MS = 1000;

class GuestSession {
  readonly budget: Budget = { heldBytes: 0 };
  readonly #session: ClientHttp2Session;
  readonly #connection: Duplex;
  readonly #onRetire: () => void;
  #streamCount = 0;
  #isRetired = false;
  #isEnded = false;
  #timer: NodeJS.Timeout | undefined;

  /** `onRetire` is called once, when it takes no further streams. */
  constructor(connection: Duplex, onRetire: () => void) {
    this.#connection = connection;
    this.#onRetire = onRetire;
    this.#session = connect('http://guest', {
      createConnection: () => connection,
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
    });
    guardFirstBytes(this.#session, connection);
    this.#session.on('error', () => this.#session.destroy());
    this.#session.once('goaway', () => this.retire());
    this.#session.once('close', () => this.retire());
    this.#rest();
  }

  /** Throws for headers that cannot be sent. */
  request(headers: OutgoingHttpHeaders, endStream: boolean): ClientHttp2Stream {
    const stream = this.#session.request(headers, { endStream });
    this.#streamCount += 1;
    clearTimeout(this.#timer);
    stream.once('close', () => {
      this.#streamCount -= 1;
      this.#rest();
    });
    return stream;
  }

  /** Ends it when its last stream ends. */
  retire(): void {
    if (!this.#isRetired) {
      this.#isRetired = true;
      this.#onRetire();
    }
    this.#rest();
  }

  /** Ends its streams as well. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.#session.destroy();
    if (this.#connection.closed) return;
    const timer = setTimeout(() => this.#connection.destroy(), LINGER_MS).unref();
    this.#connection.once('close', () => clearTimeout(timer));
  }

  #rest(): void {
    if (this.#streamCount > 0) return;
    clearTimeout(this.#timer);
    if (this.#isRetired) this.end();
    else this.#timer = setTimeout(() => this.retire(), KEPT_MS).unref();
  }
}

/** Those of one connection of a client. */
class GuestSessions {
  /** Of each port that which takes further streams. */
  readonly #byPort = new Map<string, Promise<GuestSession>>();
  readonly #open = new Set<GuestSession>();
  #isEnded = false;

  /** AppErrors of `connectPort`. */
  get(sandbox: SandboxPorts, port: number): Promise<GuestSession> {
    const key = toKey(sandbox, port);
    const known = this.#byPort.get(key);
    if (known !== undefined) return known;
    const forget = (): void => {
      if (this.#byPort.get(key) === opened) this.#byPort.delete(key);
    };
    const opened = sandbox
      .connectPort(port, { signal: AbortSignal.timeout(CONNECT_MS) })
      .then((connection) => {
        const session = new GuestSession(connection, forget);
        this.#open.add(session);
        connection.once('close', () => {
          this.#open.delete(session);
          session.retire();
        });
        if (this.#isEnded) session.end();
        return session;
      });
    this.#byPort.set(key, opened);
    opened.catch(forget);
    return opened;
  }

  /** The next stream to the port gets another connection. */
  retire(sandbox: SandboxPorts, port: number): void {
    const key = toKey(sandbox, port);
    const session = this.#byPort.get(key);
    this.#byPort.delete(key);
    session?.then(
      (opened) => opened.retire(),
      () => undefined,
    );
  }

  end(): void {
    this.#isEnded = true;
    for (const session of this.#open) session.end();
  }
}

function toKey({ id }: SandboxPorts, port: number): string {
  return `${id}:${port}`;
}
