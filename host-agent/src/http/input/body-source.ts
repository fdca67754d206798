// A request's body as bytes in turn, of any length: only a client that falls silent is given up.
import { IncomingMessage } from 'node:http';
import { finished, Readable } from 'node:stream';
import { BODY_IDLE_MS } from '@sandboxd/api';
import type { ByteSource } from '../../guest/files.ts';
import { AppError } from '../../lib/errors.ts';
import type { HttpContext } from '../context.ts';
import { BodyPace } from './body-pace.ts';

/** Bytes that may wait here for the guest. */
const QUEUE_BYTES = 256 * 1024;
/** Pieces likewise: a client may send them of single bytes. */
const QUEUE_CHUNKS = 1024;
/** Shares of both from which on the client may go on: not at every chunk, as stopping and starting costs more than it. */
const LOW_SHARE = 1 / 4;

export type BodySource = {
  /** The time limit counts only while bytes are waited for, so that a slow guest is not taken for a slow client. */
  readonly read: ByteSource;
  /** Throws away what is here and what still comes; for how long is the server's to say. */
  discard(): void;
};

export function readBody(c: HttpContext, idleMs = BODY_IDLE_MS): BodySource {
  return new QueuedBody(openBody(c), idleMs);
}

/**
 * The connection's own stream where there is one: a web stream around it would cost several promises a chunk, and a request that
 * nobody else needs. A connection that may be taken over was read already.
 */
function openBody(c: HttpContext): Readable | undefined {
  const env: Partial<HttpContext['env']> | undefined = c.env;
  if (env?.incoming !== undefined && env.takeover === undefined) return env.incoming;
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
    stream.on('data', (chunk: Uint8Array) => this.#take(chunk));
    finished(stream, { writable: false }, (cause) => this.#finish(cause ? { error: leftWithin(cause) } : {}));
  }

  readonly read: ByteSource = async () => {
    if (this.#queue.length === 0 && this.#end === undefined) await this.#more();
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
    // Without a connection nobody bounds what would still come.
    if (this.#stream instanceof IncomingMessage) this.#stream.resume();
    else this.#stream?.destroy();
  }

  #take(chunk: Uint8Array): void {
    if (this.#isDiscarding) return;
    this.#queue.push(chunk);
    this.#queuedBytes += chunk.length;
    this.#pace.took(chunk.length);
    if (this.#queuedBytes >= QUEUE_BYTES || this.#queue.length >= QUEUE_CHUNKS) this.#stream?.pause();
    this.#notify();
  }

  async #more(): Promise<void> {
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

function leftWithin(cause: Error): AppError {
  return new AppError('cancelled', 'the client left within its upload', { cause });
}
