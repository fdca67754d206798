// The JSON body of a request, which the gateway reads whole: it has the size of the place, and a second try sends it
// again.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BODY_IDLE_MS, MAX_JSON_BYTES } from '@sandboxd/api';
import { BodyPace } from '../../http/input/body-source.ts';
import { BodyMemoryLimit, GrowingBuffer } from '../../http/input/json-body.ts';
import { AppError, toError } from '../../lib/errors.ts';

export type JsonBody = Disposable & {
  readonly bytes: Buffer;
  /** Undefined for what is no JSON object: a host says what is wrong with it. */
  readonly value: Readonly<Record<string, unknown>> | undefined;
};

/** AppError too_large, cancelled, exhausted; HttpError timeout. */
export async function readJsonBody(request: IncomingMessage, response: ServerResponse): Promise<JsonBody> {
  if (Number(request.headers['content-length']) > MAX_JSON_BYTES) throw tooLarge();
  if (request.headers.expect !== undefined) response.writeContinue();
  const memory = new BodyMemoryLimit();
  try {
    const bytes = Buffer.from(await readAll(request, memory));
    return { bytes, value: parseObject(request, bytes), [Symbol.dispose]: () => memory[Symbol.dispose]() };
  } catch (error) {
    memory[Symbol.dispose]();
    throw error;
  }
}

/** The connection stays, so that the client hears what is wrong. */
function readAll(request: IncomingMessage, memory: BodyMemoryLimit): Promise<Buffer> {
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
