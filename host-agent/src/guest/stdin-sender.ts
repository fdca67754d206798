// Sends the input of a command over a stream, as far as there is credit.
import { FLOW, type Stream } from '@sandboxd/proto';
import { createByteQueue } from '../lib/byte-queue.ts';

/** Maximum bytes of stdin that are queued while there is no credit. */
const STDIN_QUEUE_BYTES = 256 * 1024;

export class StdinSender {
  readonly #stream: Stream;
  readonly #onDrain: () => void;
  readonly #queue = createByteQueue();
  #isClosed = false;

  /** `onDrain` is called when there is capacity again after `write` returned false. */
  constructor(stream: Stream, onDrain: () => void) {
    this.#stream = stream;
    this.#onDrain = onDrain;
    stream.setSource(FLOW.in, (maxBytes) => this.#take(maxBytes));
  }

  /** False if the caller should wait. */
  write(chunk: Uint8Array): boolean {
    if (this.#isClosed || this.#stream.isOver) return true;
    this.#queue.push(chunk);
    this.#stream.ready(FLOW.in);
    return this.#queue.sizeBytes < STDIN_QUEUE_BYTES;
  }

  close(): void {
    this.#isClosed = true;
    this.#endWhenSent();
  }

  clear(): void {
    this.#queue.clear();
  }

  #take(maxBytes: number): Uint8Array | null {
    const wasFull = this.#queue.sizeBytes >= STDIN_QUEUE_BYTES;
    const chunk = this.#queue.take(maxBytes);
    if (chunk === undefined) return null;
    // The link keeps it until the socket has taken it.
    const bytes = Buffer.from(chunk.bytes);
    chunk.release();
    queueMicrotask(() => this.#endWhenSent());
    if (wasFull && this.#queue.sizeBytes < STDIN_QUEUE_BYTES) queueMicrotask(() => this.#onDrain());
    return bytes;
  }

  #endWhenSent(): void {
    if (this.#isClosed && this.#queue.sizeBytes === 0) this.#stream.end(FLOW.in);
  }
}
