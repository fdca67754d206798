// Reads and parses a JSON body of limited size.
import { BODY_IDLE_MS, MAX_JSON_BYTES, MAX_JSON_DEPTH, show } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import { type HttpContext, headerOf } from '../context.ts';
import { HttpError } from '../errors.ts';
import { type BodySource, readBody } from './body-source.ts';

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

// Finds the position of a JSON syntax error. The message of JSON.parse often has no position.
type JsonError = { readonly line: number; readonly column: number; readonly reason: string };

const LITERAL = /true|false|null/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON strings may not hold them.
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y;
const SPACE = /[ \t\n\r]*/y;

/** Only for a text that JSON.parse refused. Iterative, so that deep nesting cannot exhaust the stack. */
export function findJsonError(text: string): JsonError {
  const stack: ('{' | '[')[] = [];
  let at = 0;
  let expects: 'value' | 'key' | 'key or }' | 'value or ]' | 'colon' | 'comma' = 'value';
  const match = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    if (!pattern.test(text)) return false;
    at = pattern.lastIndex;
    return true;
  };
  for (;;) {
    match(SPACE);
    const char = text[at];
    if (expects === 'comma') {
      const open = stack.at(-1);
      if (open === undefined) break;
      if (char === (open === '{' ? '}' : ']')) stack.pop();
      else if (char === ',') expects = open === '{' ? 'key' : 'value';
      else break;
      at++;
    } else if (expects === 'colon') {
      if (char !== ':') break;
      at++;
      expects = 'value';
    } else if ((expects === 'key or }' && char === '}') || (expects === 'value or ]' && char === ']')) {
      stack.pop();
      at++;
      expects = 'comma';
    } else if (expects === 'key' || expects === 'key or }') {
      if (!match(STRING)) break;
      expects = 'colon';
    } else if (char === '{' || char === '[') {
      stack.push(char);
      at++;
      expects = char === '{' ? 'key or }' : 'value or ]';
    } else if (match(STRING) || match(NUMBER) || match(LITERAL)) {
      expects = 'comma';
    } else break;
  }
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  return { line, column: at - before.lastIndexOf('\n'), reason: describe(text, at) };
}

function describe(text: string, at: number): string {
  const char = text[at];
  if (char === undefined) return 'unexpected end';
  if (char === '"') return 'unfinished or invalid string';
  return `unexpected ${JSON.stringify(char)}`;
}

// Whether a JSON text is nested deeper than any request needs: the time of parser and validation grows with the depth.
const [QUOTE, BACKSLASH, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = Buffer.from('"\\[]{}');

/** Of UTF-8; brackets in strings do not count. Whether the text is JSON otherwise is for the parser to say. */
export function isNestedTooDeep(bytes: Uint8Array): boolean {
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) isInString = !isInString;
    else if (isInString) {
      if (byte === BACKSLASH) at++;
    } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      if (++depth > MAX_JSON_DEPTH) return true;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth--;
  }
  return false;
}

// Limits the memory of JSON bodies that are being received, over all clients.
/** Each request may use this much, regardless of other requests. */
const FREE_BYTES = 64 * 1024;
/** Shared by all requests for what exceeds FREE_BYTES. */
export const SHARED_BYTES = 64 * 1024 * 1024;
const RETRY_AFTER_S = 5;

let sharedBytes = 0;

export class BodyMemoryLimit implements Disposable {
  #sizeBytes = 0;

  /** AppError exhausted if the shared memory is used up. */
  add(bytes: number): void {
    const before = Math.max(0, this.#sizeBytes - FREE_BYTES);
    const after = Math.max(0, this.#sizeBytes + bytes - FREE_BYTES);
    if (after > before && sharedBytes + after - before > SHARED_BYTES) {
      const message = 'too many large requests are on their way to this daemon; try again later';
      throw new AppError('exhausted', message, { stage: 'request', retryAfterS: RETRY_AFTER_S });
    }
    sharedBytes += after - before;
    this.#sizeBytes += bytes;
  }

  [Symbol.dispose](): void {
    sharedBytes -= Math.max(0, this.#sizeBytes - FREE_BYTES);
    this.#sizeBytes = 0;
  }
}

// Collects chunks in one growing buffer. An array of small chunks would cost hundreds of bytes of overhead per chunk.
const FIRST_BYTES = 1024;

export class GrowingBuffer {
  #block = Buffer.alloc(0);
  #sizeBytes = 0;

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** The collected bytes. Nothing may be added after this call. */
  get bytes(): Buffer {
    return this.#block.subarray(0, this.#sizeBytes);
  }

  add(chunk: Uint8Array): void {
    const neededBytes = this.#sizeBytes + chunk.length;
    if (neededBytes > this.#block.length) {
      const larger = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 * this.#sizeBytes, neededBytes));
      larger.set(this.bytes);
      this.#block = larger;
    }
    this.#block.set(chunk, this.#sizeBytes);
    this.#sizeBytes = neededBytes;
  }
}
