// Finds the end of a request body on a connection that HTTP's own parser has been taken from.
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../../lib/errors.ts';
import { GrowingBuffer } from '../../lib/growing-buffer.ts';

/** Longest line of a chunked body (a size with its extensions), and longest trailer section. */
const MAX_LINE_BYTES = 4096;
const MAX_TRAILER_LINES = 64;

type State = 'size' | 'data' | 'data end' | 'trailer' | 'done';

/** Collects one body, given split anyhow. AppError invalid_argument or too_large. */
export class BodyCollector {
  readonly #isChunked: boolean;
  readonly #maxBytes: number;
  readonly #gathered = new GrowingBuffer();
  #state: State;
  #missingBytes: number;
  #line: Buffer = Buffer.alloc(0);
  #trailerLines = 0;

  constructor(headers: IncomingHttpHeaders, maxBytes: number) {
    const coding = headers['transfer-encoding'];
    if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
      throw new AppError(
        'invalid_argument',
        `transfer-encoding ${JSON.stringify(coding)} is not known; use chunked`,
      );
    }
    this.#isChunked = coding !== undefined;
    this.#maxBytes = maxBytes;
    this.#missingBytes = this.#isChunked ? 0 : Number(headers['content-length'] ?? 0);
    this.#state = this.#isChunked ? 'size' : this.#missingBytes === 0 ? 'done' : 'data';
    if (this.#missingBytes > maxBytes) throw this.#tooLarge();
  }

  get isDone(): boolean {
    return this.#state === 'done';
  }

  get body(): Buffer {
    return this.#gathered.bytes;
  }

  /** Takes what belongs to the body; returns the bytes behind its end. */
  push(bytes: Buffer): Buffer {
    let rest = bytes;
    while (rest.length > 0 && this.#state !== 'done') {
      rest = this.#state === 'data' ? this.#takeData(rest) : this.#takeLine(rest);
    }
    return rest;
  }

  #takeData(bytes: Buffer): Buffer {
    const part = bytes.subarray(0, this.#missingBytes);
    this.#gathered.add(part);
    this.#missingBytes -= part.length;
    if (this.#missingBytes === 0) this.#state = this.#isChunked ? 'data end' : 'done';
    return bytes.subarray(part.length);
  }

  #takeLine(bytes: Buffer): Buffer {
    const end = bytes.indexOf('\n');
    this.#line = Buffer.concat([this.#line, end === -1 ? bytes : bytes.subarray(0, end)]);
    if (this.#line.length > MAX_LINE_BYTES) throw malformed('a line of it is too long');
    if (end === -1) return bytes.subarray(bytes.length);
    if (this.#line.at(-1) !== 0x0d) throw malformed('a line does not end in CR LF');
    const line = this.#line.subarray(0, -1).toString('latin1');
    this.#line = Buffer.alloc(0);
    this.#onLine(line);
    return bytes.subarray(end + 1);
  }

  #onLine(line: string): void {
    if (this.#state === 'data end') {
      if (line !== '') throw malformed('a chunk is longer than its size');
      this.#state = 'size';
    } else if (this.#state === 'trailer') {
      if (line === '') this.#state = 'done';
      else if (++this.#trailerLines > MAX_TRAILER_LINES) throw malformed('it has too many trailers');
    } else {
      const size = /^([\da-f]{1,8})[ \t]*(?:;.*)?$/i.exec(line)?.[1];
      if (size === undefined) throw malformed('a chunk size is not hexadecimal');
      this.#missingBytes = Number.parseInt(size, 16);
      if (this.#gathered.sizeBytes + this.#missingBytes > this.#maxBytes) throw this.#tooLarge();
      this.#state = this.#missingBytes === 0 ? 'trailer' : 'data';
    }
  }

  #tooLarge(): AppError {
    return new AppError(
      'too_large',
      `the body is over ${this.#maxBytes} bytes; a JSON body may not be larger`,
    );
  }
}

function malformed(what: string): AppError {
  return new AppError('invalid_argument', `the chunked body is malformed: ${what}`);
}
