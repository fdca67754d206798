// Reads a JSON body of bounded size: at most the limit is ever held, and silence in its middle ends it.
import { BODY_IDLE_MS, MAX_JSON_BYTES, show } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import type { HttpContext } from '../context.ts';
import { HttpError } from '../errors.ts';
import { BodyPace } from './body-pace.ts';
import { BodyRoom } from './body-room.ts';
import { findJsonError } from './json-error.ts';

/** The parsed body; undefined when it is empty. */
export async function readJson(c: HttpContext, idleMs = BODY_IDLE_MS): Promise<unknown> {
  const coding = c.req.header('content-encoding') ?? 'identity';
  if (coding.toLowerCase() !== 'identity') {
    const message = `content-encoding ${show(coding)} is not known here; send the JSON as it is`;
    throw new HttpError('unsupported_encoding', message);
  }
  if (Number(c.req.header('content-length')) > MAX_JSON_BYTES) throw tooLarge();
  const { body } = c.req.raw;
  return body === null ? undefined : parseJson(await readAll(body, idleMs));
}

/** UTF-8 JSON → value; undefined for nothing but white space. AppError invalid_argument says where it is wrong. */
export function parseJson(bytes: Uint8Array): unknown {
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

async function readAll(body: ReadableStream<Uint8Array>, idleMs: number): Promise<Buffer> {
  // Not cancelled on failure: that would end the connection before the answer; the server drains what is left.
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  let onLate: (error: Error) => void = () => {};
  const late = new Promise<never>((_, reject) => {
    onLate = reject;
  });
  const pace = new BodyPace(idleMs, (error) => onLate(error));
  using room = new BodyRoom();
  try {
    for (;;) {
      pace.wait();
      const { done, value } = await Promise.race([reader.read(), late]);
      if (done) return Buffer.concat(chunks, sizeBytes);
      pace.took(value.length);
      sizeBytes += value.length;
      if (sizeBytes > MAX_JSON_BYTES) throw tooLarge();
      room.add(value.length);
      chunks.push(value);
    }
  } finally {
    pace.stop();
  }
}

function tooLarge(): AppError {
  return new AppError('too_large', `the body is over ${MAX_JSON_BYTES} bytes; a JSON body may not be larger`);
}
