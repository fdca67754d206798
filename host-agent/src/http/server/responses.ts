// Responses that the server sends without the app: errors, responses on hijacked connections, and pull streams. Also
// the lingering close after an early response.
import { type IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex, Readable, Writable } from 'node:stream';
import { type Http2Bindings, type HttpBindings, RequestError } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { MAX_HEAD_BYTES } from '@sandboxd/api';
import type { Logger } from 'pino';
import type { PullStream } from '../../lib/byte-queue.ts';
import { AppError, errnoOf } from '../../lib/errors.ts';
import { connectionOf, type DirectAnswer, type HttpApp, type HttpContext } from '../context.ts';
import { HttpError, toErrorAnswer } from '../errors.ts';
import { newRequestId, REQUEST_ID_HEADER } from '../middleware.ts';

/** Time for a refused client to read the response. */
const REFUSAL_LINGER_MS = 1000;

/** Converts an error of the parser; undefined if the client has disconnected. */
export function toHttpError(error: Error): HttpError | undefined {
  switch (errnoOf(error)) {
    case 'ECONNRESET':
    case 'EPIPE':
      return undefined;
    case 'HPE_HEADER_OVERFLOW':
      return new HttpError(
        'headers_too_large',
        `the request line and headers are over ${MAX_HEAD_BYTES} bytes; send fewer`,
      );
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new HttpError('timeout', 'the request did not come in time; send it without pauses');
    default:
      return new HttpError('malformed', `malformed http request: ${toReason(error)}`);
  }
}

/** Sends an error response and closes the connection. */
export function refuse(socket: Duplex, error: unknown, requestId = newRequestId()): void {
  const { status, headers, body } = toErrorAnswer(error, requestId);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const text = JSON.stringify(body);
  endWith(
    socket,
    status,
    [
      ...lines,
      `${REQUEST_ID_HEADER}: ${requestId}`,
      'Cache-Control: no-store',
      'Content-Type: application/json',
    ],
    text,
  );
}

/** Sends the response of a route and closes the connection. */
export async function sendLast(socket: Duplex, response: Response): Promise<void> {
  const lines = [...response.headers].map(([name, value]) => `${name}: ${value}`);
  endWith(socket, response.status, lines, await response.text());
}

function endWith(socket: Duplex, status: number, lines: readonly string[], text: string): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    ...lines.filter((line) => !/^(?:connection|content-length):/i.test(line)),
    `Content-Length: ${Buffer.byteLength(text)}`,
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`);
  // With unread input the kernel would reset the connection, and the client could lose the response.
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), REFUSAL_LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}

/** The response to a request that the app cannot see, because its host header or target is not a valid URL. */
export function toResponse(error: unknown, log: Logger): Response {
  const isBadRequest = error instanceof RequestError;
  const failure = isBadRequest
    ? new HttpError('malformed', `malformed http request: ${error.message.toLowerCase()}`)
    : error;
  const requestId = newRequestId();
  if (!isBadRequest) log.error({ err: error, requestId }, 'request failed');
  const { status, headers, body } = toErrorAnswer(failure, requestId);
  return Response.json(body, {
    status,
    headers: { ...headers, [REQUEST_ID_HEADER]: requestId, 'Cache-Control': 'no-store' },
  });
}

/** Sends an error response to a request that the app must not see. */
export function respond(response: ServerResponse, error: unknown, requestId: string): void {
  const { status, headers, body } = toErrorAnswer(error, requestId);
  response.shouldKeepAlive = false;
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...headers,
    [REQUEST_ID_HEADER]: requestId,
    'Cache-Control': 'no-store',
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

function toReason(error: Error): string {
  const reason = 'reason' in error && typeof error.reason === 'string' ? error.reason : error.message;
  return reason.charAt(0).toLowerCase() + reason.slice(1);
}

/**
 * The response head waits this long for the first bytes. Then it is sent alone, so that the client knows that its
 * command runs.
 */
const HEAD_DELAY_MS = 5;

export type DirectAnswerOptions = {
  readonly app: HttpApp;
  readonly log: Logger;
  readonly ending: AbortSignal;
};

/** The app's `fetch` for the server. Writes pull streams directly to the connection, without a web stream. */
export function answerDirectly({ app, log, ending }: DirectAnswerOptions) {
  return async (request: Request, env: HttpBindings | Http2Bindings): Promise<Response> => {
    if (!(env.outgoing instanceof ServerResponse)) return app.fetch(request, { ...env, ending });
    const direct: DirectAnswer = {};
    const response = await app.fetch(request, { ...env, direct, ending });
    const { stream } = direct;
    if (stream === undefined) return response;
    env.outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    void send(env.outgoing, stream, log.child({ requestId: response.headers.get(REQUEST_ID_HEADER) }));
    return RESPONSE_ALREADY_SENT;
  };
}

/** After an error the connection closes without the last chunk, so that the client detects the truncation. */
async function send(outgoing: ServerResponse, stream: PullStream, log: Logger): Promise<void> {
  const timer = setTimeout(() => outgoing.flushHeaders(), HEAD_DELAY_MS);
  try {
    await writePullStream(outgoing, stream);
    outgoing.end();
  } catch (error) {
    if (error instanceof AppError) log.warn({ reason: error.message }, 'response aborted');
    else log.error({ err: error }, 'response aborted');
    outgoing.destroy();
  } finally {
    clearTimeout(timer);
  }
}

/** Maximum time. Some clients read no response before they have sent the whole request. */
export const LINGER_MS = 30_000;
/** Lingering ends when the client sends nothing for this long. */
const LINGER_IDLE_MS = 5000;

/**
 * Lingering close, as nginx does it. If the response precedes the end of the request, the server reads and discards the
 * rest for a while. A close with unread bytes resets the connection, and the client can lose the response.
 */
export function lingerAfter(request: IncomingMessage, response: ServerResponse, lingerMs: number): void {
  response.once('finish', () => {
    if (request.complete || request.destroyed) return;
    const stop = linger(request.socket, request, lingerMs);
    request.once('end', stop);
  });
}

/** Destroys the connection when `source` is idle or the time is over. The returned function cancels that. */
export function linger(socket: Duplex, source: Readable, lingerMs: number): () => void {
  const end = (): void => void socket.destroy();
  const total = setTimeout(end, lingerMs);
  const idle = setTimeout(end, Math.min(lingerMs, LINGER_IDLE_MS));
  const stop = (): void => {
    clearTimeout(total);
    clearTimeout(idle);
    socket.off('close', stop);
  };
  socket.once('close', stop);
  source.on('data', () => idle.refresh());
  source.resume();
  return stop;
}

// Pull streams are sent directly to the connection, or as a web stream.
/**
 * A response with the stream as body. The server writes the stream directly to the connection, because a
 * web stream costs several promises and extra memory for each chunk.
 */
export function answerPullStream(
  c: HttpContext,
  stream: PullStream,
  headers: Record<string, string>,
  status: 200 | 206 = 200,
): Response {
  const { direct } = connectionOf(c);
  if (direct === undefined) return c.body(toWebStream(stream), status, headers);
  direct.stream = stream;
  return c.body(null, status, headers);
}

function toWebStream(stream: PullStream): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = await stream.next();
        if (chunk === undefined) return controller.close();
        controller.enqueue(new Uint8Array(chunk.bytes));
        chunk.release();
      },
      cancel: () => stream.cancel(),
    },
    { highWaterMark: 0 },
  );
}

const streams = new WeakMap<Writable, PullStream>();

/** Sends a keepalive in the response, if its stream supports that. */
export function sendKeepalive(target: Writable): void {
  streams.get(target)?.keepalive?.();
}

/** Writes the whole stream. Resolves after the last write, or when the connection closes (then cancels the stream). */
export async function writePullStream(target: Writable, stream: PullStream): Promise<void> {
  if (target.destroyed) return stream.cancel();
  const onClose = () => stream.cancel();
  target.once('close', onClose);
  streams.set(target, stream);
  try {
    for (;;) {
      const chunk = await stream.next();
      if (chunk === undefined) return;
      if (target.destroyed) {
        chunk.release();
        stream.cancel();
        return;
      }
      // The end often follows immediately; cork sends both in one packet.
      target.cork();
      process.nextTick(() => target.uncork());
      if (!target.write(chunk.bytes, chunk.release)) await drained(target);
    }
  } finally {
    target.off('close', onClose);
    streams.delete(target);
  }
}

/** Waits for `drain` or `close`. Does not use events.once with a signal, because an AbortError costs a stack trace. */
function drained(target: Writable): Promise<void> {
  if (target.destroyed || !target.writableNeedDrain) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      target.off('drain', done);
      target.off('close', done);
      resolve();
    };
    target.on('drain', done);
    target.on('close', done);
  });
}
