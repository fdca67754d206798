// The byte stream of a pull. The guest must send exactly what it announced: more or fewer bytes are an error, and are
// never passed to a client as part of the next response.
import { type Chunk, createByteQueue, type PullStream } from '../lib/byte-queue.ts';
import { AppError } from '../lib/errors.ts';

type PullBodyOwner = {
  /** The reader has taken this many bytes. */
  consumed(bytes: number): void;
  /** The reader is gone: nothing is pushed after this. */
  cancel(): void;
};

export class PullBody implements PullStream {
  readonly #owner: PullBodyOwner;
  /** Bounded by the stream's credit, which is returned when the reader releases a chunk. */
  readonly #queue = createByteQueue();
  #wake: (() => void) | undefined;
  #end: { readonly error?: Error } | undefined;
  #expected: number | undefined;
  #left = Number.POSITIVE_INFINITY;

  constructor(owner: PullBodyOwner) {
    this.#owner = owner;
  }

  /** Sets the expected length: exactly `contentBytes`, or if that is undefined, at most `maxBytes`. */
  expect(contentBytes: number | undefined, maxBytes: number): void {
    this.#expected = contentBytes;
    this.#left = contentBytes ?? maxBytes;
  }

  /** `bytes` are valid only during the call. */
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

  /** Discards the rest. */
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
