// Answers on connections that have no response object: malformed HTTP, and requests that wanted the connection itself.
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { RequestError } from '@hono/node-server';
import { MAX_HEAD_BYTES } from '@sandboxd/api';
import type { Logger } from 'pino';
import { errnoOf } from '../../lib/errors.ts';
import { HttpError, toErrorAnswer } from '../errors.ts';
import { newRequestId, REQUEST_ID_HEADER } from '../middleware/request-id.ts';

/** How long a refused client may take to read its answer. */
const LINGER_MS = 1000;

/** The HTTP failure that a parser's error stands for; undefined when there is nobody to tell. */
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

/** Sends the error as the last thing on this connection. */
export function refuse(socket: Duplex, error: unknown, requestId = newRequestId()): void {
  const { status, headers, body } = toErrorAnswer(error, requestId);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const text = JSON.stringify(body);
  endWith(
    socket,
    status,
    [...lines, `${REQUEST_ID_HEADER}: ${requestId}`, 'Content-Type: application/json'],
    text,
  );
}

/** Writes a response that a route made, as the last thing on this connection. */
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
  // Unread input would make the kernel reset the connection, and the answer be lost.
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}

/** Requests that never reach the app: a host header or target that makes no URL. */
export function toResponse(error: unknown, log: Logger): Response {
  const isBadRequest = error instanceof RequestError;
  const failure = isBadRequest
    ? new HttpError('malformed', `malformed http request: ${error.message.toLowerCase()}`)
    : error;
  const requestId = newRequestId();
  if (!isBadRequest) log.error({ err: error, requestId }, 'request failed');
  const { status, headers, body } = toErrorAnswer(failure, requestId);
  return Response.json(body, { status, headers: { ...headers, [REQUEST_ID_HEADER]: requestId } });
}

/** Answers a request that the app is not to see. */
export function respond(response: ServerResponse, error: unknown, requestId: string): void {
  const { status, headers, body } = toErrorAnswer(error, requestId);
  response.shouldKeepAlive = false;
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...headers,
    [REQUEST_ID_HEADER]: requestId,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  });
  response.end(text);
}

function toReason(error: Error): string {
  const reason = 'reason' in error && typeof error.reason === 'string' ? error.reason : error.message;
  return reason.charAt(0).toLowerCase() + reason.slice(1);
}
