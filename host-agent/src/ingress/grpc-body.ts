// Bodies of gRPC in both directions. A frame of HTTP/2 may have one byte, for which Node queues an object of hundreds:
// what waits for a slow reader is merged here, and bounded in bytes and objects.
import type { ClientHttp2Stream, Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import { takeChunks } from '../http/server/node-internals.ts';

/** Of one answer, beyond the window of its stream. */
const MAX_HELD_BYTES = 32 * 1024;
/** Of all answers of a connection to a guest; beyond it each is read only when nothing of it is held. */
const MAX_SESSION_BYTES = 1024 * 1024;
const MAX_WRITES = 4;
const MIN_BLOCK_BYTES = 256;

/** What the answers of one connection to a guest hold. */
export type Budget = { heldBytes: number };

/** Passes an answer from `begin` on; until then no more than the window is held. Ends the answer at its end. */
export class AnswerBody {
  readonly #source: ClientHttp2Stream;
  readonly #sink: Http2ServerResponse;
  readonly #budget: Budget;
  readonly #resume: () => void;
  #block = Buffer.alloc(0);
  #mergedBytes = 0;
  /** With what is written and not yet sent. */
  #heldBytes = 0;
  #writeCount = 0;
  #isBegun = false;
  #isPaused = false;
  #isScheduled = false;
  #isClosed = false;
  #onEnd: (() => void) | undefined;

  constructor(source: ClientHttp2Stream, sink: Http2ServerResponse, budget: Budget) {
    this.#source = source;
    this.#sink = sink;
    this.#budget = budget;
    this.#resume = takeChunks(source, {
      take: (chunk) => this.#take(chunk),
      end: (emitEnd) => this.#end(emitEnd),
    });
    // What is written to a closed stream may get no callback.
    sink.once('close', () => {
      this.#isClosed = true;
      this.#hold(-this.#heldBytes);
    });
  }

  begin(): void {
    this.#isBegun = true;
    this.#source.resume();
    this.#write();
    this.#onEnd?.();
  }

  #take(chunk: Buffer): boolean {
    this.#merge(chunk);
    this.#hold(chunk.length);
    // What comes in the same turn of the event loop goes together.
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      setImmediate(() => {
        this.#isScheduled = false;
        if (this.#writeCount < MAX_WRITES) this.#write();
      });
    }
    this.#isPaused = !this.#mayRead();
    return !this.#isPaused;
  }

  #end(emitEnd: () => void): void {
    this.#onEnd = () => {
      this.#write();
      emitEnd();
    };
    if (this.#isBegun) this.#onEnd();
  }

  #merge(chunk: Buffer): void {
    const neededBytes = this.#mergedBytes + chunk.length;
    if (neededBytes > this.#block.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(neededBytes, this.#mergedBytes * 2, MIN_BLOCK_BYTES));
      this.#block.copy(larger, 0, 0, this.#mergedBytes);
      this.#block = larger;
    }
    chunk.copy(this.#block, this.#mergedBytes);
    this.#mergedBytes = neededBytes;
  }

  #write(): void {
    if (!this.#isBegun || this.#mergedBytes === 0) return;
    const merged = this.#block.subarray(0, this.#mergedBytes);
    this.#block = Buffer.alloc(0);
    this.#mergedBytes = 0;
    this.#writeCount += 1;
    this.#sink.write(merged, 'utf8', () => {
      this.#writeCount -= 1;
      this.#hold(-merged.length);
      this.#write();
      if (!this.#isPaused || !this.#mayRead()) return;
      this.#isPaused = false;
      this.#resume();
    });
  }

  #hold(bytes: number): void {
    if (this.#isClosed && bytes > 0) return;
    const change = Math.max(bytes, -this.#heldBytes);
    this.#heldBytes += change;
    this.#budget.heldBytes += change;
  }

  #mayRead(): boolean {
    if (this.#heldBytes === 0) return true;
    return this.#heldBytes < MAX_HELD_BYTES && this.#budget.heldBytes < MAX_SESSION_BYTES;
  }
}

/** Passes a request; as `pipe`, but with few writes at a time, which may be of one byte each. */
export function passRequest(request: Http2ServerRequest, sink: ClientHttp2Stream): void {
  let writeCount = 0;
  request.on('data', (chunk: Buffer) => {
    writeCount += 1;
    sink.write(chunk, () => {
      writeCount -= 1;
      if (request.isPaused() && !sink.destroyed) request.resume();
    });
    if (writeCount >= MAX_WRITES || sink.destroyed) request.pause();
  });
  request.once('end', () => sink.end());
}
