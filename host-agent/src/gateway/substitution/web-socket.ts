// Frames from a WebSocket server: messages are redacted across their frames, and each frame keeps its length.
import { Transform, type TransformCallback } from 'node:stream';
import { toError } from '../../lib/errors.ts';
import type { Redactor } from './redactor.ts';

const FIN = 0x80;
const OPCODE = 0x0f;
const RESERVED = 0x70;
const MASKED = 0x80;
const LENGTH = 0x7f;
const FIRST_CONTROL = 0x8;
/** What waits for the rest of its message; frames may be empty. */
const MAX_PIECES = 256 * 1024;

/** What is sent on in this order; a payload by its length, as its bytes come from the redactor. */
type Chunk = { readonly bytes: Buffer } | { payload: number };

/** Error: the server sends what a client that asked for no extension does not understand. */
export class FrameRedaction {
  readonly #data: Redactor;
  readonly #createRedactor: () => Redactor;
  #head: Buffer = Buffer.alloc(0);
  /** Bytes of the current frame that are to come. */
  #left = 0;
  /** Whether the current frame ends a message. */
  #isLast = false;
  #control: Buffer[] | undefined;
  readonly #chunks: Chunk[] = [];
  #ready: Buffer = Buffer.alloc(0);
  #arrived: Buffer[] = [];

  constructor(createRedactor: () => Redactor) {
    this.#createRedactor = createRedactor;
    this.#data = createRedactor();
  }

  /** What can be sent on. */
  push(chunk: Buffer): Buffer {
    for (let at = 0; at < chunk.length; ) {
      if (this.#left === 0) at = this.#readHead(chunk, at);
      const payload = chunk.subarray(at, at + this.#left);
      at += payload.length;
      if (payload.length > 0) this.#take(payload);
    }
    return this.#drain();
  }

  /** The rest, when the server has ended. */
  end(): Buffer {
    this.#arrived.push(this.#data.end());
    return Buffer.concat([this.#drain(), this.#head]);
  }

  /** Behind what it used of the chunk. */
  #readHead(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      this.#head = Buffer.concat([this.#head, chunk.subarray(at, at + 1)]);
      at += 1;
      const length = readLength(this.#head);
      if (length === undefined) continue;
      const [first = 0] = this.#head;
      if ((first & RESERVED) !== 0)
        throw new Error('a frame of the WebSocket has an extension that nothing asked for');
      const isControl = (first & OPCODE) >= FIRST_CONTROL;
      if (isControl && length > 125) throw new Error('a control frame of the WebSocket is too long');
      if (this.#chunks.length >= MAX_PIECES) throw new Error('the WebSocket has too many small frames');
      this.#chunks.push({ bytes: this.#head });
      this.#head = Buffer.alloc(0);
      this.#left = length;
      this.#control = isControl ? [] : undefined;
      this.#isLast = !isControl && (first & FIN) !== 0;
      if (length === 0) this.#endMessage();
      break;
    }
    return at;
  }

  #take(payload: Buffer): void {
    this.#left -= payload.length;
    if (this.#control === undefined) {
      this.#chunks.push({ payload: payload.length });
      this.#arrived.push(this.#data.push(payload));
      if (this.#left === 0) this.#endMessage();
      return;
    }
    // Whole, as it is short; it may be between the parts of a message.
    this.#control.push(Buffer.from(payload));
    if (this.#left > 0) return;
    const redactor = this.#createRedactor();
    const bytes = Buffer.concat([redactor.push(Buffer.concat(this.#control)), redactor.end()]);
    this.#chunks.push({ bytes });
  }

  /** Nothing of it waits for the next. */
  #endMessage(): void {
    if (this.#isLast) this.#arrived.push(this.#data.end());
  }

  #drain(): Buffer {
    this.#ready = Buffer.concat([this.#ready, ...this.#arrived]);
    this.#arrived = [];
    const parts: Buffer[] = [];
    for (;;) {
      const [chunk] = this.#chunks;
      if (chunk === undefined) break;
      if ('bytes' in chunk) {
        parts.push(chunk.bytes);
        this.#chunks.shift();
        continue;
      }
      const bytes = this.#ready.subarray(0, chunk.payload);
      parts.push(bytes);
      this.#ready = this.#ready.subarray(bytes.length);
      chunk.payload -= bytes.length;
      if (chunk.payload > 0) break;
      this.#chunks.shift();
    }
    return Buffer.concat(parts);
  }
}

/** Undefined until the head of the frame is whole. */
function readLength(head: Buffer): number | undefined {
  const [, second] = head;
  if (second === undefined) return undefined;
  if ((second & MASKED) !== 0) throw new Error('a frame of the WebSocket’s server is masked');
  const short = second & LENGTH;
  if (short < 126) return short;
  if (short === 126) return head.length < 4 ? undefined : head.readUInt16BE(2);
  if (head.length < 10) return undefined;
  const length = head.readBigUInt64BE(2);
  if (length > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error('a frame of the WebSocket is too long');
  return Number(length);
}

/** The same as a stream. */
export class RedactingFrames extends Transform {
  readonly #redaction: FrameRedaction;

  constructor(createRedactor: () => Redactor) {
    super();
    this.#redaction = new FrameRedaction(createRedactor);
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      done(null, this.#redaction.push(chunk));
    } catch (error) {
      done(toError(error));
    }
  }

  override _flush(done: TransformCallback): void {
    done(null, this.#redaction.end());
  }
}
