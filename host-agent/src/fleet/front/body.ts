// The JSON body of a request, which the gateway reads whole: it has the size of the place, and a second try sends it
// again.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BODY_IDLE_MS, MAX_JSON_BYTES } from '@sandboxd/api';
import { BodyMemoryLimit, GrowingBuffer } from '../../http/input/json-body.ts';
import { AppError } from '../../lib/errors.ts';

export type JsonBody = Disposable & {
  readonly bytes: Buffer;
  /** Undefined for what is no JSON object: a host says what is wrong with it. */
  readonly value: Readonly<Record<string, unknown>> | undefined;
};

/** AppError too_large, cancelled. */
export async function readJsonBody(request: IncomingMessage, response: ServerResponse): Promise<JsonBody> {
  if (request.headers.expect !== undefined) response.writeContinue();
  const buffer = new GrowingBuffer();
  const memory = new BodyMemoryLimit();
  const silent = setTimeout(() => request.destroy(), BODY_IDLE_MS);
  try {
    for await (const chunk of request) {
      silent.refresh();
      if (buffer.sizeBytes + chunk.length > MAX_JSON_BYTES)
        throw new AppError(
          'too_large',
          `the body is over ${MAX_JSON_BYTES} bytes; a JSON body may not be larger`,
        );
      memory.add(chunk.length);
      buffer.add(chunk);
    }
    if (!request.complete) throw new AppError('cancelled', 'the client left within its request');
    const bytes = Buffer.from(buffer.bytes);
    return { bytes, value: parseObject(request, bytes), [Symbol.dispose]: () => memory[Symbol.dispose]() };
  } catch (error) {
    memory[Symbol.dispose]();
    throw error;
  } finally {
    clearTimeout(silent);
  }
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
