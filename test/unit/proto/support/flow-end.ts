// A producer and a consumer of one byte flow. Each byte depends on its offset, so that every loss, repetition and
// reordering is detected.
import type { Flow, Stream } from '@sandboxd/proto';

/** The byte at `offset` of a flow. */
function byteAt(streamId: number, flow: number, offset: number): number {
  return (offset * 31 + (offset >> 8) * 7 + streamId * 13 + flow * 101) & 0xff;
}

export class FlowEnd {
  readonly flow: Flow;
  readonly #windowBytes: number;
  stream: Stream | undefined;
  /** Counts of bytes to send, sent, received, consumed. */
  offered = 0;
  sent = 0;
  received = 0;
  consumed = 0;
  isEnded = false;
  problem: string | undefined;

  constructor(flow: Flow, windowBytes: number) {
    this.flow = flow;
    this.#windowBytes = windowBytes;
  }

  /** Sender's side. */
  attach(stream: Stream): void {
    stream.setSource(this.flow, (maxBytes) => {
      const length = Math.min(maxBytes, this.offered - this.sent);
      if (length === 0) return null;
      const bytes = Buffer.alloc(length);
      for (let index = 0; index < length; index += 1)
        bytes[index] = byteAt(stream.id, this.flow, this.sent + index);
      this.sent += length;
      if (this.sent - this.consumed > this.#windowBytes) this.problem ??= 'more in flight than the window';
      return bytes;
    });
    this.stream = stream;
  }

  offer(bytes: number): void {
    this.offered += bytes;
    this.stream?.ready(this.flow);
  }

  /** Receiver's side. */
  take(streamId: number, chunk: Buffer): void {
    for (const [index, byte] of chunk.entries()) {
      if (byte !== byteAt(streamId, this.flow, this.received + index)) {
        this.problem ??= `byte ${this.received + index} of flow ${this.flow} is wrong`;
        break;
      }
    }
    if (this.isEnded) this.problem ??= 'bytes behind the end';
    this.received += chunk.length;
  }

  /** Receiver's side; returns the credit to give back. */
  consume(bytes: number): number {
    const passed = Math.min(bytes, this.received - this.consumed);
    this.consumed += passed;
    return passed;
  }
}
