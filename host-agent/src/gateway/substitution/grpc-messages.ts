// Messages of gRPC in an answer: each is redacted alone, so none waits for the next.
import { Transform, type TransformCallback } from 'node:stream';
import type { Redactor } from './redactor.ts';

/** Whether it is compressed, and its length. */
const HEAD_BYTES = 5;

export class RedactingMessages extends Transform {
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
