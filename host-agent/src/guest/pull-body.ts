// The bytes of a pull. What a guest sends is held to what it announced: more, or less, is an error and
// never reaches a client as if it were the next response.
import { ByteQueue, type Chunk, type PullStream } from '../lib/byte-queue.ts';
import { AppError } from '../lib/errors.ts';

export type PullBodyOwner = {
  /** So many bytes were taken by the reader. */
  consumed(bytes: number): void;
  /** Nobody reads any more: nothing is pushed from here on. */
  cancel(): void;
};

export class PullBody implements PullStream {
  readonly #owner: PullBodyOwner;
  /** Bounded by the stream's credit, which goes back when the reader is done with a piece. */
  readonly #queue = new ByteQueue();
  #wake: (() => void) | undefined;
  #end: { readonly error?: Error } | undefined;
  #expected: number | undefined;
  #left = Number.POSITIVE_INFINITY;

  constructor(owner: PullBodyOwner) {
    this.#owner = owner;
  }

  /** How many bytes come: exactly `contentBytes`, or if that is undefined at most `maxBytes`. */
  expect(contentBytes: number | undefined, maxBytes: number): void {
    this.#expected = contentBytes;
    this.#left = contentBytes ?? maxBytes;
  }

  /** `bytes` are lent. */
  push(bytes: Uint8Array): void {
    this.#left -= bytes.length;
    if (this.#left < 0) {
      this.fail(new AppError('guest_unreachable', 'the guest agent sent more bytes than it had announced'));
      this.#owner.cancel();
      return;
    }
    this.#queue.push(bytes);
    this.#notify();
  }

  end(): void {
    if (this.#expected !== undefined && this.#left > 0)
      this.fail(new AppError('guest_unreachable', 'the guest agent sent fewer bytes than it had announced'));
    else this.#finish({});
  }

  fail(error: Error): void {
    this.#finish({ error });
  }

  #finish(end: { readonly error?: Error }): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#notify();
  }

  async next(): Promise<Chunk | undefined> {
    while (this.#queue.sizeBytes === 0 && this.#end === undefined) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const chunk = this.#queue.take();
    if (chunk === undefined) {
      if (this.#end?.error !== undefined) throw this.#end.error;
      return undefined;
    }
    return {
      bytes: chunk.bytes,
      release: () => {
        chunk.release();
        this.#owner.consumed(chunk.bytes.length);
      },
    };
  }

  /** Nobody wants the rest. */
  cancel(): void {
    if (this.#end === undefined) this.#owner.cancel();
    this.#end ??= {};
    this.#queue.clear();
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
