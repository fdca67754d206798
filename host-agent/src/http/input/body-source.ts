// Reads a request body of any length, chunk by chunk. Only the idle timeout and minimum rate limit it.
import { IncomingMessage } from 'node:http';
import { finished, Readable } from 'node:stream';
import { BODY_IDLE_MS, MIN_BODY_BYTES_PER_S } from '@sandboxd/api';
import type { ByteSource } from '../../guest/files.ts';
import { AppError } from '../../lib/errors.ts';
import { connectionOf, type HttpContext } from '../context.ts';
import { HttpError } from '../errors.ts';

/** The queue pauses the connection at this many bytes. */
const QUEUE_BYTES = 256 * 1024;
/** The queue also pauses at this many chunks, because a client may send one-byte chunks. */
const QUEUE_CHUNKS = 1024;
/** Low-water mark as a share of both limits. Hysteresis avoids a pause and resume at every chunk. */
const LOW_SHARE = 1 / 4;

export type BodySource = {
  /** The timeout counts only while a read waits, so that a slow guest does not cause a timeout. */
  readonly read: ByteSource;
  /** Discards queued and further bytes. The server limits how long. */
  discard(): void;
};

export function readBody(c: HttpContext, idleMs = BODY_IDLE_MS): BodySource {
  return new QueuedBody(openBody(c), idleMs);
}

/**
 * Reads Node's stream directly if there is a connection, because a web stream costs several promises for each chunk. On
 * a hijacked connection the body was already read.
 */
function openBody(c: HttpContext): Readable | undefined {
  const { incoming, takeover } = connectionOf(c);
  if (incoming !== undefined && takeover === undefined) return incoming;
  const { body } = c.req.raw;
  return body === null ? undefined : Readable.from(body, { highWaterMark: 1 });
}

class QueuedBody implements BodySource {
  readonly #stream: Readable | undefined;
  readonly #pace: BodyPace;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #end: { readonly error?: Error } | undefined;
  #wake: (() => void) | undefined;
  #isDiscarding = false;

  constructor(stream: Readable | undefined, idleMs: number) {
    this.#stream = stream;
    this.#pace = new BodyPace(idleMs, (error) => this.#finish({ error }));
    if (stream === undefined) {
      this.#end = {};
      return;
    }
    stream.on('data', (chunk: Uint8Array) => this.#enqueue(chunk));
    finished(stream, { writable: false }, (cause) =>
      this.#finish(cause ? { error: disconnected(cause) } : {}),
    );
  }

  readonly read: ByteSource = async () => {
    if (this.#queue.length === 0 && this.#end === undefined) await this.#waitForChunk();
    const bytes = this.#queue.shift();
    if (bytes === undefined) {
      if (this.#end?.error !== undefined) throw this.#end.error;
      return undefined;
    }
    this.#queuedBytes -= bytes.length;
    const isLow =
      this.#queuedBytes <= QUEUE_BYTES * LOW_SHARE && this.#queue.length <= QUEUE_CHUNKS * LOW_SHARE;
    if (isLow && this.#stream?.isPaused()) this.#stream.resume();
    return bytes;
  };

  discard(): void {
    this.#isDiscarding = true;
    this.#queue = [];
    this.#queuedBytes = 0;
    // Without a connection no timeout limits further input.
    if (this.#stream instanceof IncomingMessage) this.#stream.resume();
    else this.#stream?.destroy();
  }

  #enqueue(chunk: Uint8Array): void {
    if (this.#isDiscarding) return;
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    this.#pace.received(chunk.length);
    if (this.#queuedBytes >= QUEUE_BYTES || this.#queue.length >= QUEUE_CHUNKS) this.#stream?.pause();
    this.#notify();
  }

  async #waitForChunk(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      this.#pace.wait();
    });
    this.#pace.stop();
  }

  #finish(end: { readonly error?: Error }): void {
    this.#end ??= end;
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

function disconnected(cause: Error): AppError {
  return new AppError('cancelled', 'the client left within its upload', { cause });
}

// Enforces the idle timeout and the minimum rate of a request body (slowloris).
/** Counts only while the daemon waits for the client, so that a slow guest does not cause a timeout. */
export class BodyPace {
  readonly #idleMs: number;
  readonly #onTimeout: (error: HttpError) => void;
  /** Remaining waiting time. Received bytes add to it at the minimum rate. */
  #leftMs: number;
  #waitingSince: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `onTimeout` is called once, with HttpError timeout. */
  constructor(idleMs: number, onTimeout: (error: HttpError) => void) {
    this.#idleMs = idleMs;
    this.#leftMs = idleMs;
    this.#onTimeout = onTimeout;
  }

  wait(): void {
    this.#waitingSince ??= performance.now();
    this.#timer ??= setTimeout(() => this.#onTimeout(this.#error()), this.#leftMs);
  }

  /** Bytes arrived; stops the timer. */
  received(sizeBytes: number): void {
    const waitedMs = this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince;
    this.#leftMs = Math.min(
      this.#idleMs,
      Math.max(0, this.#leftMs - waitedMs) + (sizeBytes * 1000) / MIN_BODY_BYTES_PER_S,
    );
    this.stop();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waitingSince = undefined;
  }

  #error(): HttpError {
    const message =
      `the body stopped for ${this.#idleMs} ms, or came at less than ${MIN_BODY_BYTES_PER_S} bytes a second; send ` +
      'it faster';
    return new HttpError('timeout', message);
  }
}
