// The JSON body of a request, which the gateway reads whole: it has the size of the place, and a second try sends it
// again.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BODY_IDLE_MS, MAX_JSON_BYTES } from '@sandboxd/api';
import { BodyPace } from '../../http/input/body-source.ts';
import { BodyMemoryLimit, GrowingBuffer, SHARED_BYTES } from '../../http/input/json-body.ts';
import { AppError, toError } from '../../lib/errors.ts';
import type { Caller } from './callers.ts';
import { Shares } from './shares.ts';

export type JsonBody = Disposable & {
  readonly bytes: Buffer;
  /** Undefined for what is not a JSON object: a host says what is wrong with it. */
  readonly value: Readonly<Record<string, unknown>> | undefined;
};

/** Of one key, so that others have the rest. */
const MAX_BYTES_OF_EACH = 16 * 2 ** 20;
/** `BodyMemoryLimit` counts those of all. */
const shares = new Shares(Number.POSITIVE_INFINITY, MAX_BYTES_OF_EACH, SHARED_BYTES / 2);

/** AppError too_large, cancelled, exhausted; HttpError timeout. */
export async function readJsonBody(
  request: IncomingMessage,
  response: ServerResponse,
  caller: Caller,
): Promise<JsonBody> {
  if (Number(request.headers['content-length']) > MAX_JSON_BYTES) throw tooLarge();
  if (request.headers.expect !== undefined) response.writeContinue();
  const memory = new BodyMemory(caller);
  try {
    const bytes = Buffer.from(await readAll(request, memory));
    return new HeldBody(bytes, parseObject(request, bytes), memory);
  } catch (error) {
    memory[Symbol.dispose]();
    throw error;
  }
}

class HeldBody implements JsonBody {
  #bytes: Buffer | undefined;
  #value: JsonBody['value'];
  readonly #memory: Disposable;

  constructor(bytes: Buffer, value: JsonBody['value'], memory: Disposable) {
    this.#bytes = bytes;
    this.#value = value;
    this.#memory = memory;
  }

  get bytes(): Buffer {
    if (this.#bytes !== undefined) return this.#bytes;
    throw new Error('the body of the request is not kept any more');
  }

  get value(): JsonBody['value'] {
    return this.#value;
  }

  [Symbol.dispose](): void {
    this.#bytes = undefined;
    this.#value = undefined;
    this.#memory[Symbol.dispose]();
  }
}

class BodyMemory implements Disposable {
  readonly #all = new BodyMemoryLimit();
  readonly #caller: Caller;
  #sizeBytes = 0;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** AppError exhausted. */
  add(bytes: number): void {
    if (!shares.take(this.#caller, bytes))
      throw new AppError('exhausted', 'your requests on their way are too large together; try again later', {
        retryAfterS: 5,
      });
    this.#sizeBytes += bytes;
    this.#all.add(bytes);
  }

  [Symbol.dispose](): void {
    this.#all[Symbol.dispose]();
    shares.giveBack(this.#caller, this.#sizeBytes);
    this.#sizeBytes = 0;
  }
}

/** One body to several hosts, once to each. It is not kept when all have it, or will not get it. */
export class Sending {
  readonly #body: Disposable;
  #left: number;

  constructor(body: Disposable, count: number) {
    this.#body = body;
    this.#left = count;
  }

  /** Of one host; disposing of it also ends it. */
  begin(): Disposable & { readonly onSent: () => void } {
    let isOpen = true;
    const onSent = (): void => {
      if (!isOpen) return;
      isOpen = false;
      this.#left -= 1;
      if (this.#left === 0) this.#body[Symbol.dispose]();
    };
    return { onSent, [Symbol.dispose]: onSent };
  }
}

/** The connection stays, so that the client hears what is wrong. */
function readAll(request: IncomingMessage, memory: BodyMemory): Promise<Buffer> {
  const buffer = new GrowingBuffer();
  return new Promise((resolve, reject) => {
    const finish = (settle: () => void): void => {
      pace.stop();
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      settle();
    };
    const fail = (error: Error): void =>
      finish(() => {
        request.pause();
        reject(error);
      });
    const onData = (chunk: Buffer): void => {
      pace.received(chunk.length);
      pace.wait();
      try {
        if (buffer.sizeBytes + chunk.length > MAX_JSON_BYTES) throw tooLarge();
        memory.add(chunk.length);
        buffer.add(chunk);
      } catch (error) {
        fail(toError(error));
      }
    };
    const onEnd = (): void => finish(() => resolve(buffer.bytes));
    const onClose = (): void => fail(new AppError('cancelled', 'the client left within its request'));
    const pace = new BodyPace(BODY_IDLE_MS, fail);
    if (request.destroyed && !request.complete) return onClose();
    pace.wait();
    // An end that is too early is also an error.
    request.on('error', () => undefined);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

function tooLarge(): AppError {
  return new AppError('too_large', `the body is over ${MAX_JSON_BYTES} bytes; a JSON body may not be larger`);
}

function parseObject({ headers }: IncomingMessage, bytes: Buffer): JsonBody['value'] {
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') return undefined;
  const text = bytes.toString();
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
