// The Connect protocol, version 1, in JSON: unary calls, and streams of envelopes, both over HTTP/1.1.

import { ERRORS, MAX_JSON_BYTES } from '@sandboxd/api';
import { ApiError } from '@sandboxd/client';
import { HttpError } from '../../http/errors.ts';
import type { BodySource } from '../../http/input/body-source.ts';
import { BodyMemoryLimit, GrowingBuffer, isNestedTooDeep } from '../../http/input/json-body.ts';
import type { Chunk, PullStream } from '../../lib/byte-queue.ts';
import { isAppError } from '../../lib/errors.ts';
import { E2bError } from '../errors.ts';

/** Status of a unary answer by code. */
export const CONNECT_STATUS = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  unauthenticated: 401,
} as const;
export type ConnectCode = keyof typeof CONNECT_STATUS;

export class ConnectError extends Error {
  override readonly name = 'ConnectError';
  readonly code: ConnectCode;

  constructor(code: ConnectCode, message: string) {
    super(message);
    this.code = code;
  }
}

const BY_STATUS: Readonly<Record<number, ConnectCode>> = {
  400: 'invalid_argument',
  401: 'unauthenticated',
  403: 'permission_denied',
  404: 'not_found',
  408: 'deadline_exceeded',
  409: 'failed_precondition',
  412: 'failed_precondition',
  413: 'resource_exhausted',
  415: 'invalid_argument',
  501: 'unimplemented',
  502: 'unavailable',
  503: 'unavailable',
  504: 'deadline_exceeded',
};

export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  const status =
    error instanceof ApiError || error instanceof E2bError
      ? error.status
      : isAppError(error) || error instanceof HttpError
        ? ERRORS[error.code].status
        : 500;
  const message =
    status === 500 && !(error instanceof ApiError) ? 'internal error' : (error as Error).message;
  return new ConnectError(BY_STATUS[status] ?? 'internal', message);
}

/** Of a message with input of a process; others have the limit of JSON bodies. */
export const MAX_INPUT_BYTES = 4 * 1024 * 1024;
const FLAG_COMPRESSED = 1;
const FLAG_END = 2;
const HEADER_BYTES = 5;

export function encodeEnvelope(message: object, flags = 0): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const envelope = Buffer.allocUnsafe(HEADER_BYTES + body.length);
  envelope[0] = flags;
  envelope.writeUInt32BE(body.length, 1);
  body.copy(envelope, HEADER_BYTES);
  return envelope;
}

export function encodeEnd(error?: ConnectError): Buffer {
  const end = error === undefined ? {} : { error: { code: error.code, message: error.message } };
  return encodeEnvelope(end, FLAG_END);
}

/** The messages of a request's stream. ConnectError. */
export async function* readEnvelopes(
  body: BodySource,
  maxBytes = MAX_JSON_BYTES,
): AsyncGenerator<unknown, void> {
  let chunk: Uint8Array = new Uint8Array();
  /** Undefined at the end of the body. */
  const take = async (bytes: number, memory: BodyMemoryLimit): Promise<Buffer | undefined> => {
    const buffer = new GrowingBuffer();
    while (buffer.sizeBytes < bytes) {
      if (chunk.length === 0) {
        const next = await body.read();
        if (next === undefined) break;
        chunk = next;
      }
      const part = chunk.subarray(0, bytes - buffer.sizeBytes);
      chunk = chunk.subarray(part.length);
      hold(memory, part.length);
      buffer.add(part);
    }
    if (buffer.sizeBytes < bytes && buffer.sizeBytes > 0) throw cutOff();
    return buffer.sizeBytes < bytes ? undefined : buffer.bytes;
  };
  const readOne = async (): Promise<{ readonly message: unknown } | undefined> => {
    using memory = new BodyMemoryLimit();
    const head = await take(HEADER_BYTES, memory);
    if (head === undefined) return undefined;
    const [flags = 0] = head;
    const bytes = head.readUInt32BE(1);
    assertFits(bytes, maxBytes);
    const message = await take(bytes, memory);
    if (message === undefined) throw cutOff();
    if ((flags & FLAG_END) !== 0) return undefined;
    if ((flags & FLAG_COMPRESSED) !== 0)
      throw new ConnectError('unimplemented', 'compressed messages are not supported');
    return { message: parseMessage(message) };
  };
  for (let read = await readOne(); read !== undefined; read = await readOne()) yield read.message;
}

/** A unary request. ConnectError. */
export async function readMessage(body: BodySource, maxBytes = MAX_JSON_BYTES): Promise<unknown> {
  using memory = new BodyMemoryLimit();
  const buffer = new GrowingBuffer();
  for (let chunk = await body.read(); chunk !== undefined; chunk = await body.read()) {
    assertFits(buffer.sizeBytes + chunk.length, maxBytes);
    hold(memory, chunk.length);
    buffer.add(chunk);
  }
  return buffer.sizeBytes === 0 ? {} : parseMessage(buffer.bytes);
}

function assertFits(bytes: number, maxBytes: number): void {
  if (bytes <= maxBytes) return;
  throw new ConnectError('resource_exhausted', `a message may have at most ${maxBytes} bytes`);
}

/** An AppError would look as if the guest was lost. */
function hold(memory: BodyMemoryLimit, bytes: number): void {
  try {
    memory.add(bytes);
  } catch (error) {
    throw new ConnectError('resource_exhausted', (error as Error).message);
  }
}

function cutOff(): ConnectError {
  return new ConnectError('invalid_argument', 'the last message is cut off');
}

function parseMessage(bytes: Buffer): unknown {
  if (isNestedTooDeep(bytes)) throw new ConnectError('invalid_argument', 'the message is nested too deep');
  try {
    return JSON.parse(bytes.toString());
  } catch {
    throw new ConnectError('invalid_argument', 'the message is not valid JSON');
  }
}

/**
 * A stream of messages as an answer. While there is none for `keepaliveMs`, it sends `keepalive`. A ConnectError is the
 * end of the stream; any other failure cuts the connection, which tells the SDKs to ask whether the sandbox lives.
 */
export class MessageStream implements PullStream {
  readonly #messages: AsyncGenerator<object, void>;
  readonly #keepaliveMs: number;
  readonly #keepalive: object;
  readonly #onCancel: () => void;
  #pending: Promise<IteratorResult<object, void>> | undefined;
  #isOver = false;

  constructor(
    messages: AsyncGenerator<object, void>,
    options: { readonly keepaliveMs: number; readonly keepalive: object; readonly onCancel: () => void },
  ) {
    this.#messages = messages;
    this.#keepaliveMs = options.keepaliveMs;
    this.#keepalive = options.keepalive;
    this.#onCancel = options.onCancel;
  }

  async next(): Promise<Chunk | undefined> {
    if (this.#isOver) return undefined;
    this.#pending ??= this.#messages.next();
    const silence = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => silence.resolve(undefined), this.#keepaliveMs);
    try {
      const result = await Promise.race([this.#pending, silence.promise]);
      if (result === undefined) return toChunk(encodeEnvelope(this.#keepalive));
      this.#pending = undefined;
      if (!result.done) return toChunk(encodeEnvelope(result.value));
      return this.#end();
    } catch (error) {
      if (error instanceof ConnectError) return this.#end(error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  cancel(): void {
    this.#isOver = true;
    this.#onCancel();
    this.#pending?.catch(() => undefined);
    // Not awaited: it may wait for the guest.
    this.#messages.return().catch(() => undefined);
  }

  #end(error?: ConnectError): Chunk {
    this.#isOver = true;
    return toChunk(encodeEnd(error));
  }
}

function toChunk(bytes: Buffer): Chunk {
  return { bytes, release: () => undefined };
}
