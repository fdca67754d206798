// Reads a JSON body of bounded size: little more than the limit is ever held, and silence in its middle ends it.
import { BODY_IDLE_MS, MAX_JSON_BYTES, MAX_JSON_DEPTH, show } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import { GrowingBuffer } from '../../lib/growing-buffer.ts';
import { type HttpContext, headerOf } from '../context.ts';
import { HttpError } from '../errors.ts';
import { BodyMemoryLimit } from './body-memory-limit.ts';
import { type BodySource, readBody } from './body-source.ts';
import { isNestedTooDeep } from './json-depth.ts';
import { findJsonError } from './json-error.ts';

/** The parsed body; undefined when it is empty. */
export async function readJson(c: HttpContext, idleMs = BODY_IDLE_MS): Promise<unknown> {
  const coding = headerOf(c, 'content-encoding') ?? 'identity';
  if (coding.toLowerCase() !== 'identity') {
    const message = `content-encoding ${show(coding)} is not known here; send the JSON as it is`;
    throw new HttpError('unsupported_media', message);
  }
  if (Number(headerOf(c, 'content-length')) > MAX_JSON_BYTES) throw tooLarge();
  return parseJson(await readAll(readBody(c, idleMs)));
}

/** UTF-8 JSON → value; undefined for nothing but white space. AppError invalid_argument says where it is wrong. */
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
  const gathered = new GrowingBuffer();
  using room = new BodyMemoryLimit();
  try {
    for (let chunk = await body.read(); chunk !== undefined; chunk = await body.read()) {
      if (gathered.sizeBytes + chunk.length > MAX_JSON_BYTES) throw tooLarge();
      room.add(chunk.length);
      gathered.add(chunk);
    }
  } catch (error) {
    // The rest is taken behind the answer, for as long as the server waits for it.
    body.discard();
    throw error;
  }
  return gathered.bytes;
}

function tooLarge(): AppError {
  return new AppError('too_large', `the body is over ${MAX_JSON_BYTES} bytes; a JSON body may not be larger`);
}
