// Answers to requests that carried a secret: its value is replaced by stars, so every length stays. A server can hide a
// value in ways that are not looked for; what is found here is what servers echo by habit.
import { Transform, type TransformCallback } from 'node:stream';
import type { BrotliDecompress, Gunzip, Inflate, ZstdDecompress } from 'node:zlib';
import type { UsableSecret } from './bound-secret.ts';
import { lowerFormsOf } from './encodings.ts';
import { Redactor, type SearchedForms, toSearchedForms, withTexts } from './redactor.ts';
import type { Headers } from './request-head.ts';
import type { StreamReplacer } from './stream-replacer.ts';

const DECODERS: Readonly<Record<string, () => BrotliDecompress | Gunzip | Inflate | ZstdDecompress>> = {
  gzip: () => zlib().createGunzip(),
  'x-gzip': () => zlib().createGunzip(),
  deflate: () => zlib().createInflate(),
  br: () => zlib().createBrotliDecompress(),
  zstd: () => zlib().createZstdDecompress(),
};

/** Few gateways need it, and it takes 4 MiB. */
function zlib() {
  return process.getBuiltinModule('node:zlib');
}

/** Of a message of gRPC: whether it is compressed, and its length. */
const HEAD_BYTES = 5;

export type RedactedAnswer = {
  readonly kind: 'pass';
  readonly headers: Headers;
  /** The body goes through them, in this order; an error of one ends the answer. */
  readonly body: readonly Transform[];
};

/** It cannot be read: the gateway answers 502. */
export type UnreadableAnswer = { readonly kind: 'unreadable'; readonly reason: string };

export class Redaction {
  readonly #forms: SearchedForms;
  /** Lower case. */
  readonly #names: readonly string[];

  private constructor(forms: SearchedForms, names: readonly string[]) {
    this.#forms = forms;
    this.#names = names;
  }

  /** `secrets`: all that the host may have, as an earlier request may have left one there. Their values are copied. */
  static of(secrets: readonly Pick<UsableSecret, 'value'>[]): Redaction {
    const values = secrets.map(({ value }) => value);
    return new Redaction(toSearchedForms(values), values.flatMap(lowerFormsOf));
  }

  /** `pairs`: Basic credentials as they were sent. */
  with(pairs: readonly string[]): Redaction {
    return pairs.length === 0 ? this : new Redaction(withTexts(this.#forms, pairs), this.#names);
  }

  /** A header, trailer or status text; `latin1`. */
  text(text: string): string {
    const redactor = this.redactor();
    const ready = redactor.push(Buffer.from(text, 'latin1'));
    return ready.toString('latin1') + redactor.end().toString('latin1');
  }

  /** Headers or trailers. One whose name has a value, in any case, is dropped. */
  headers(headers: Headers): Headers {
    return headers
      .filter(([name]) => !this.#names.some((text) => name.toLowerCase().includes(text)))
      .map(([name, value]) => [name, this.text(value)] as const);
  }

  /** For what is a stream of its own, as the payload of a WebSocket. */
  redactor(): Redactor {
    return new Redactor(this.#forms);
  }

  /** `status`: an answer in parts, which nothing asked for, cannot be read. */
  answer(status: number, headers: Headers): RedactedAnswer | UnreadableAnswer {
    const valuesOf = (wanted: string) =>
      headers.flatMap(([name, value]) => (name.toLowerCase() === wanted ? [value] : []));
    if (status === 206) return unreadable('it is a part, and the whole was asked for');
    const codings = valuesOf('content-encoding')
      .flatMap((value) => value.split(','))
      .map((coding) => coding.trim().toLowerCase())
      .filter((coding) => coding !== '' && coding !== 'identity');
    if (codings.length === 0)
      return { kind: 'pass', headers: this.headers(headers), body: [this.#body(valuesOf('content-type'))] };
    const [coding = ''] = codings;
    const decoder = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined;
    if (codings.length > 1 || decoder === undefined)
      return unreadable(
        `it has the content coding ${codings.join(', ').slice(0, 64)}, though identity was asked for`,
      );
    const plain = headers.filter(
      ([name]) => !['content-encoding', 'content-length'].includes(name.toLowerCase()),
    );
    return {
      kind: 'pass',
      headers: this.headers(plain),
      body: [decoder(), this.#body(valuesOf('content-type'))],
    };
  }

  #body([type = '']: readonly string[]): Transform {
    const redactor = this.redactor();
    return /^application\/grpc(?:$|[;+])/i.test(type.trim())
      ? new RedactingMessages(redactor)
      : new ReplacingStream(redactor);
  }
}

function unreadable(what: string): UnreadableAnswer {
  return { kind: 'unreadable', reason: `the answer to a request with a secret cannot be read: ${what}` };
}

/** Replaces in a stream. */
export class ReplacingStream extends Transform {
  readonly #replacer: Redactor | StreamReplacer;

  constructor(replacer: Redactor | StreamReplacer) {
    super();
    this.#replacer = replacer;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const ready = this.#replacer.push(chunk);
    if (ready.length > 0) this.push(ready);
    done();
  }

  override _flush(done: TransformCallback): void {
    const rest = this.#replacer.end();
    if (rest.length > 0) this.push(rest);
    done();
  }
}

/** Messages of gRPC in an answer: each is redacted alone, so none waits for the next. */
class RedactingMessages extends Transform {
  readonly #redactor: Redactor;
  #head = Buffer.alloc(0);
  /** Bytes of the current message that are to come. */
  #left = 0;

  constructor(redactor: Redactor) {
    super();
    this.#redactor = redactor;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const parts: Buffer[] = [];
    for (let at = 0; at < chunk.length; ) {
      if (this.#left > 0) {
        const piece = chunk.subarray(at, at + this.#left);
        at += piece.length;
        this.#left -= piece.length;
        parts.push(this.#redactor.push(piece));
        if (this.#left === 0) parts.push(this.#redactor.end());
        continue;
      }
      const piece = chunk.subarray(at, at + HEAD_BYTES - this.#head.length);
      at += piece.length;
      this.#head = Buffer.concat([this.#head, piece]);
      if (this.#head.length < HEAD_BYTES) break;
      parts.push(this.#head);
      this.#left = this.#head.readUInt32BE(1);
      this.#head = Buffer.alloc(0);
    }
    done(null, Buffer.concat(parts));
  }

  override _flush(done: TransformCallback): void {
    done(null, Buffer.concat([this.#head, this.#redactor.end()]));
  }
}
