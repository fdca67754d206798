// Reads and parses a JSON body of limited size.
import { BODY_IDLE_MS, MAX_JSON_BYTES, MAX_JSON_DEPTH, show } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import { GrowingBuffer } from '../../lib/growing-buffer.ts';
import { type HttpContext, headerOf } from '../context.ts';
import { HttpError } from '../errors.ts';
import { BodyMemoryLimit } from './body-memory-limit.ts';
import { type BodySource, readBody } from './body-source.ts';
import { isNestedTooDeep } from './json-depth.ts';
import { findJsonError } from './json-error.ts';

/** The parsed body; undefined if it is empty. AppError invalid_argument, too_large; HttpError. */
export async function readJson(c: HttpContext, idleMs = BODY_IDLE_MS): Promise<unknown> {
  const coding = headerOf(c, 'content-encoding') ?? 'identity';
  if (coding.toLowerCase() !== 'identity') {
    const message = `content-encoding ${show(coding)} is not known here; send the JSON as it is`;
    throw new HttpError('unsupported_media', message);
  }
  if (Number(headerOf(c, 'content-length')) > MAX_JSON_BYTES) throw tooLarge();
  return parseJson(await readAll(readBody(c, idleMs)));
}

/** UTF-8 JSON → value; undefined for white space only. AppError invalid_argument names line and column. */
export function parseJson(bytes: Uint8Array): unknown {
  if (isNestedTooDeep(bytes)) {
    const message = `the body is nested more than ${MAX_JSON_DEPTH} levels deep; no request needs so many`;
    throw new AppError('invalid_argument', message);
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new AppError('invalid_argument', 'the body is not valid UTF-8; send JSON text');
  }
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    const { line, column, reason } = findJsonError(text);
    throw new AppError(
      'invalid_argument',
      `the body is not valid JSON: ${reason} at line ${line}, column ${column}`,
    );
  }
}

async function readAll(body: BodySource): Promise<Buffer> {
  const buffer = new GrowingBuffer();
  using memory = new BodyMemoryLimit();
  try {
    for (let chunk = await body.read(); chunk !== undefined; chunk = await body.read()) {
      if (buffer.sizeBytes + chunk.length > MAX_JSON_BYTES) throw tooLarge();
      memory.add(chunk.length);
      buffer.add(chunk);
    }
  } catch (error) {
    // The server discards the rest of the body after the response.
    body.discard();
    throw error;
  }
  return buffer.bytes;
}

function tooLarge(): AppError {
  return new AppError('too_large', `the body is over ${MAX_JSON_BYTES} bytes; a JSON body may not be larger`);
}
