// An established connection to a server in this guest, joined to a stream: bytes in both directions as credit allows,
// their two ends, and resets.

import { constants } from 'node:os';
import { ByteQueue, FLOW, MAX_DATA_BYTES, type Stream } from '@sandboxd/proto';
import { blockPool } from '../lib/block-pool.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';

/** A connection that its client has left is reset when its server takes no bytes for this long. */
const FLUSH_MS = 10_000;
const BROKEN_PIPE = -constants.errno.EPIPE;

/** Shared by all: the link has copied the bytes before a stream asks for more. */
const scratch = Buffer.allocUnsafeSlow(MAX_DATA_BYTES);

type PortSocketOptions = {
  readonly poller: Poller;
  readonly stream: Stream;
  readonly fd: number;
  readonly onClose: () => void;
};

export class PortSocket {
  readonly #options: PortSocketOptions;
  /** Bytes for the server that the socket has not taken; the stream's credit bounds them. */
  readonly #held = new ByteQueue(blockPool);
  #watch: Watch | undefined;
  #flushTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** The host has sent its last byte. */
  #hasInputEnded = false;
  /** The server knows that. */
  #hasSentEnd = false;
  #hasOutputEnded = false;
  /** The server takes no more bytes. */
  #isDeaf = false;
  /** The kernel has reported the reset to a write, and would report an end to a read. */
  #isReset = false;

  constructor(options: PortSocketOptions) {
    this.#options = options;
  }

  start(): void {
    const { poller, stream, fd } = this.#options;
    stream.handlers = {
      data: (_flow, chunk) => this.#push(chunk),
      end: () => {
        this.#hasInputEnded = true;
        this.#endInput();
      },
      cancel: () => this.#leave(),
      lost: () => this.#reset(),
    };
    stream.setSource(FLOW.out, (maxBytes) => this.#take(maxBytes));
    stream.started(0);
    this.#watch = poller.watch(fd, POLL.in | POLL.out | POLL.edge, (mask) => this.#onReady(mask));
  }

  #onReady(mask: number): void {
    if (mask & POLL.out) this.#flush();
    // Without an end in both directions, only a reset hangs up.
    if (mask & POLL.hangUp && this.#hasOutputEnded && !this.#hasSentEnd) this.#finishReset();
    else if (mask & ~POLL.out) this.#options.stream.ready(FLOW.out);
  }

  /** `chunk` is borrowed. */
  #push(chunk: Buffer): void {
    const { stream } = this.#options;
    const written = this.#held.sizeBytes === 0 ? this.#send(chunk) : 0;
    const done = this.#isDeaf ? chunk.length : written;
    if (done < chunk.length) this.#held.push(chunk.subarray(done));
    if (done > 0) stream.consumed(done);
  }

  #flush(): void {
    for (let first = this.#held.first(); first !== undefined; first = this.#held.first()) {
      const written = this.#send(first);
      if (this.#isDeaf || this.#isClosed) return;
      if (written === 0) return;
      this.#held.drop(written);
      this.#flushTimer?.refresh();
      this.#options.stream.consumed(written);
    }
    this.#endInput();
  }

  /** Bytes that the server took. */
  #send(bytes: Buffer): number {
    if (this.#isDeaf || this.#isClosed) return 0;
    const result = addon.send(this.#options.fd, bytes, 0, bytes.length);
    if (result >= 0) return result;
    if (result !== NOT_NOW) this.#becomeDeaf(result);
    return 0;
  }

  #becomeDeaf(result: number): void {
    this.#isDeaf = true;
    const lost = this.#held.clear();
    if (lost > 0) this.#options.stream.consumed(lost);
    // After an end (EPIPE) the kernel reports the end to reads, too, and the reset to none.
    this.#isReset ||= result !== BROKEN_PIPE;
    if (this.#hasOutputEnded || this.#options.stream.isOver) this.#finishReset();
    // What the server sent before is read first.
    else this.#options.stream.ready(FLOW.out);
  }

  #endInput(): void {
    if (!this.#hasInputEnded || this.#hasSentEnd || this.#isClosed || this.#held.sizeBytes > 0) return;
    this.#hasSentEnd = true;
    if (!this.#isDeaf) addon.endSending(this.#options.fd);
    this.#closeIfDone();
  }

  #take(maxBytes: number): Buffer | null {
    if (this.#hasOutputEnded || this.#isClosed) return null;
    const got = addon.receive(this.#options.fd, scratch, 0, maxBytes);
    if (got > 0) return got === MAX_DATA_BYTES ? scratch : scratch.subarray(0, got);
    if (got === NOT_NOW) return null;
    if (got < 0 || this.#isReset) {
      this.#finishReset();
      return null;
    }
    this.#hasOutputEnded = true;
    this.#options.stream.end(FLOW.out);
    // Within the stream's call for bytes an end is sent after it, and a result would overtake it.
    queueMicrotask(() => (this.#isDeaf ? this.#finishReset() : this.#closeIfDone()));
    return null;
  }

  #closeIfDone(): void {
    if (this.#isClosed) return;
    if (this.#options.stream.isOver) {
      if (this.#hasSentEnd) this.#close();
    } else if (this.#hasOutputEnded && this.#hasSentEnd) {
      this.#close();
      this.#options.stream.finish({ portConnect: {} });
    }
  }

  /** The host's client has left: after its end, the server still gets what was sent. */
  #leave(): void {
    this.#options.stream.finish({ error: { code: 'cancelled', message: 'the connection was left' } });
    if (!this.#hasInputEnded || this.#isDeaf) {
      this.#reset();
      return;
    }
    this.#flushTimer = setTimeout(() => this.#reset(), FLUSH_MS);
    this.#closeIfDone();
  }

  #finishReset(): void {
    if (this.#isClosed) return;
    this.#reset();
    this.#options.stream.finish({ portConnect: { isReset: true } });
  }

  #reset(): void {
    this.#release((fd) => addon.resetAndClose(fd));
  }

  #close(): void {
    this.#release((fd) => addon.close(fd));
  }

  #release(close: (fd: number) => void): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#flushTimer);
    this.#watch?.close();
    this.#held.clear();
    close(this.#options.fd);
    this.#options.onClose();
  }
}
