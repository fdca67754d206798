// One reader of the output of a service or of a detached command, at its own speed: copies the ring, and the rings of
// later specs, into a stream. A reader that is too slow is informed of the number of missed records.
import {
  encodeGap,
  encodeRingStart,
  FLOW,
  MAX_DATA_BYTES,
  type ResultInput,
  SERVICE_HEADER_BYTES,
  type Stream,
} from '@sandboxd/proto';
import type { OutputRing, RingPlace } from './ring.ts';

/** Shared by all readers: the link has copied the bytes before a stream asks for more. */
const scratch = Buffer.allocUnsafeSlow(MAX_DATA_BYTES - 32);

export type ReaderOptions = {
  readonly stream: Stream;
  readonly ring: OutputRing;
  readonly place: RingPlace;
  readonly isFollowing: boolean;
  /** Output bytes after which the stream ends; 0: no limit. */
  readonly maxBytes: number;
  /** Dropped records between the requested position and `place`. */
  readonly missed: { readonly records: number; readonly bytes: number };
  /** No ring follows: the stream ends after the last record of a sealed one. */
  readonly isLastRing?: boolean;
  readonly toResult: (ring: OutputRing, nextSeq: number) => ResultInput;
};

export class OutputReader {
  readonly #stream: Stream;
  readonly #isFollowing: boolean;
  readonly #isLastRing: boolean;
  readonly #toResult: ReaderOptions['toResult'];
  #ring: OutputRing;
  #place: RingPlace;
  #leftBytes: number;
  #hasGiven = false;
  #isDone = false;
  /** Encoded bytes that were not sent yet. */
  #rest: Buffer;
  #unwatch: () => void;

  /** Starts to send. Ends the stream after the last record. */
  constructor({ stream, ring, place, isFollowing, maxBytes, missed, ...options }: ReaderOptions) {
    this.#stream = stream;
    this.#isLastRing = options.isLastRing === true;
    this.#toResult = options.toResult;
    this.#ring = ring;
    this.#place = place;
    this.#isFollowing = isFollowing;
    this.#leftBytes = maxBytes === 0 ? Number.POSITIVE_INFINITY : maxBytes;
    const start = [encodeRingStart(place.seq, ring.id)];
    if (missed.records > 0) start.push(encodeGap(place.seq, missed.records, missed.bytes));
    this.#rest = Buffer.concat(start);
    this.#unwatch = ring.watch(() => this.#wake());
    stream.handlers = { cancel: () => this.#finish(), lost: () => this.#unwatch() };
    stream.setSource(FLOW.out, (maxBytes) => this.#take(maxBytes));
    this.#wake();
  }

  #wake(): void {
    this.#stream.ready(FLOW.out);
  }

  #take(maxBytes: number): Uint8Array | null {
    if (this.#rest.length === 0 && !this.#isDone) this.#refill();
    if (this.#rest.length > 0) {
      const chunk = this.#rest.subarray(0, maxBytes);
      this.#rest = this.#rest.subarray(chunk.length);
      // Bytes that stay for the next call must not lie in the shared buffer.
      if (this.#rest.length > 0 && this.#rest.buffer === scratch.buffer) this.#rest = Buffer.from(this.#rest);
      return chunk;
    }
    if (this.#isDone) this.#finish();
    return null;
  }

  #refill(): void {
    const { first, end, next, isSealed } = this.#ring;
    if (this.#place.seq < first.seq) {
      const records = first.seq - this.#place.seq;
      const bytes = first.at - this.#place.at - records * SERVICE_HEADER_BYTES;
      this.#rest = encodeGap(first.seq, records, bytes);
      this.#place = first;
    } else if (this.#place.seq < end.seq) this.#copy();
    else if (!this.#isFollowing || (this.#isLastRing && isSealed)) this.#isDone = true;
    else if (isSealed && next !== undefined) this.#moveTo(next);
  }

  #copy(): void {
    const { next, copiedBytes, outputBytes } = this.#ring.copy(this.#place, scratch, this.#leftBytes);
    if (this.#hasGiven && outputBytes > this.#leftBytes) {
      this.#isDone = true;
      return;
    }
    this.#hasGiven = true;
    this.#leftBytes -= outputBytes;
    this.#rest = scratch.subarray(0, copiedBytes);
    this.#place = next;
    if (this.#leftBytes <= 0) this.#isDone = true;
  }

  #moveTo(ring: OutputRing): void {
    this.#unwatch();
    this.#ring = ring;
    this.#place = { seq: 0, at: 0 };
    this.#unwatch = ring.watch(() => this.#wake());
    this.#rest = encodeRingStart(0, ring.id);
  }

  #finish(): void {
    this.#unwatch();
    this.#stream.finish(this.#toResult(this.#ring, this.#place.seq));
  }
}
