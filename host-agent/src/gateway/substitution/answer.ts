// Answers to requests that carried a secret: its value is replaced by stars, so every length stays. A server can hide a
// value in ways that are not looked for; what is found here is what servers echo by habit.
import { Transform, type TransformCallback } from 'node:stream';
import {
  type BrotliDecompress,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  type Gunzip,
  type Inflate,
  type ZstdDecompress,
} from 'node:zlib';
import type { UsableSecret } from './bound-secret.ts';
import { encodingsOf } from './encodings.ts';
import type { Headers } from './request-head.ts';
import { type Replacement, StreamReplacer } from './stream-replacer.ts';

const DECODERS: Readonly<Record<string, () => BrotliDecompress | Gunzip | Inflate | ZstdDecompress>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};
const STAR = '*'.charCodeAt(0);

export type RedactedAnswer = {
  readonly kind: 'pass';
  readonly headers: Headers;
  /** The body goes through them, in this order; an error of one ends the answer. */
  readonly body: readonly Transform[];
};

/** It cannot be read: the gateway answers 502. */
export type UnreadableAnswer = { readonly kind: 'unreadable'; readonly reason: string };

export class Redaction {
  readonly #replacements: readonly Replacement[];
  readonly #texts: readonly string[];

  /**
   * `secrets`: all that the host may have, as an earlier request may have left one there. `pairs`: Basic credentials as
   * they were sent.
   */
  constructor(secrets: readonly Pick<UsableSecret, 'value'>[], pairs: readonly string[] = []) {
    const found = [
      ...secrets.flatMap(({ value }) => encodingsOf(value)),
      ...pairs.map((pair) => Buffer.from(pair)),
    ];
    this.#replacements = found.map((find) => ({ find, by: Buffer.alloc(find.length, STAR) }));
    this.#texts = found.map((find) => find.toString('latin1')).toSorted((a, b) => b.length - a.length);
  }

  /** A header, trailer or status text; `latin1`. */
  text(text: string): string {
    return this.#texts.reduce(
      (redacted, find) =>
        redacted.includes(find) ? redacted.replaceAll(find, () => '*'.repeat(find.length)) : redacted,
      text,
    );
  }

  /** Headers or trailers. One whose name has a value, in any case, is dropped. */
  headers(headers: Headers): Headers {
    const lower = this.#texts.map((text) => text.toLowerCase());
    return headers
      .filter(([name]) => !lower.some((text) => name.toLowerCase().includes(text)))
      .map(([name, value]) => [name, this.text(value)] as const);
  }

  /** For what is a stream of its own, as the payload of a WebSocket. */
  replacer(): StreamReplacer {
    return new StreamReplacer(this.#replacements);
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
      return { kind: 'pass', headers: this.headers(headers), body: [new ReplacingStream(this.replacer())] };
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
      body: [decoder(), new ReplacingStream(this.replacer())],
    };
  }
}

function unreadable(what: string): UnreadableAnswer {
  return { kind: 'unreadable', reason: `the answer to a request with a secret cannot be read: ${what}` };
}

/** Replaces in a stream. */
export class ReplacingStream extends Transform {
  readonly #replacer: StreamReplacer;

  constructor(replacer: StreamReplacer) {
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
