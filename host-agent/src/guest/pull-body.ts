// The bytes of a pull as a web stream. What a guest sends is held to what it announced: more, or less, is an error and
// never reaches a client as if it were the next response.
import { AppError } from '../lib/errors.ts';

export type PullBodyOwner = {
  /** So many bytes were taken by the reader. */
  consumed(bytes: number): void;
  /** Nobody reads any more. */
  cancel(): void;
};

export class PullBody {
  readonly stream: ReadableStream<Uint8Array>;
  readonly #owner: PullBodyOwner;
  /** Bounded by the stream's credit, which goes back when the reader takes one. */
  #queue: Uint8Array[] = [];
  #wake: (() => void) | undefined;
  #end: { readonly error?: Error } | undefined;
  #expected: number | undefined;
  #left = Number.POSITIVE_INFINITY;

  constructor(owner: PullBodyOwner) {
    this.#owner = owner;
    this.stream = new ReadableStream<Uint8Array>(
      {
        pull: (controller) => this.#pull(controller),
        cancel: () => this.#cancel(),
      },
      { highWaterMark: 0 },
    );
  }

  /** How many bytes come: exactly `contentBytes`, or if that is undefined at most `maxBytes`. */
  expect(contentBytes: number | undefined, maxBytes: number): void {
    this.#expected = contentBytes;
    this.#left = contentBytes ?? maxBytes;
  }

  push(bytes: Uint8Array): void {
    if (this.#end !== undefined) {
      this.#owner.consumed(bytes.length);
      return;
    }
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

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    while (this.#queue.length === 0 && this.#end === undefined) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const bytes = this.#queue.shift();
    if (bytes !== undefined) {
      controller.enqueue(bytes);
      this.#owner.consumed(bytes.length);
    } else if (this.#end?.error !== undefined) controller.error(this.#end.error);
    else controller.close();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  #cancel(): void {
    if (this.#end === undefined) this.#owner.cancel();
    this.#end ??= {};
    this.#queue = [];
    this.#notify();
  }
}
