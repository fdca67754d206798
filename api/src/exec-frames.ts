// The codec of exec frames: type, three reserved bytes, big-endian size, payload. It also runs in browsers, which have
// no Buffer: there each `Buffer` is a plain Uint8Array.
import { MAX_EXEC_PAYLOAD_BYTES } from './limits.ts';

export { MAX_EXEC_PAYLOAD_BYTES };

export const EXEC_FRAME = {
  stdout: 1,
  stderr: 2,
  exit: 3,
  stdin: 4,
  stdinClose: 5,
  resize: 6,
  signal: 7,
  error: 8,
  position: 9,
  started: 10,
} as const;
const EXEC_FRAME_HEADER_BYTES = 8;

/** Copying a smaller payload is cheaper than an object of its own. */
const SHORT_BYTES = 4096;

/** A scratch buffer that all decoders share. It is empty whenever `push` returns. */
const joint = allocate(MAX_EXEC_PAYLOAD_BYTES);

export type ExecFrame = { readonly type: number; readonly payload: Buffer };

/** A frame that declares a payload of more than 65,536 bytes. */
export class ExecFrameError extends Error {
  override readonly name = 'ExecFrameError';
}

/** The 8-byte header of a frame. */
export function execFrameHeader(type: number, payloadBytes: number): Buffer {
  if (payloadBytes > MAX_EXEC_PAYLOAD_BYTES)
    throw new ExecFrameError(`a payload of ${payloadBytes} bytes is over 65536`);
  const header = allocate(EXEC_FRAME_HEADER_BYTES).fill(0);
  header[0] = type;
  viewOf(header).setUint32(4, payloadBytes);
  return header;
}

/** One whole frame. The payload must have at most 65,536 bytes. */
export function encodeExecFrame(type: number, payload: Uint8Array): Buffer {
  const frame = allocate(EXEC_FRAME_HEADER_BYTES + payload.length);
  frame.set(execFrameHeader(type, payload.length));
  frame.set(payload, EXEC_FRAME_HEADER_BYTES);
  return frame;
}

/** Decodes a stream of exec frames. Chunk boundaries have no meaning. Buffers at most one frame. */
export class ExecFrameDecoder {
  readonly #joinedType: number | undefined;
  /** Bytes of short payloads in `joint`. */
  #jointBytes = 0;
  readonly #header = allocate(EXEC_FRAME_HEADER_BYTES);
  readonly #headerView = viewOf(this.#header);
  #headerFilled = 0;
  #payload: Buffer | undefined;
  #payloadFilled = 0;

  /**
   * Merges consecutive short frames of type `joined` into frames of at most the maximum size. Otherwise a client that
   * packs thousands of one-byte frames into a chunk would cause one object for each.
   */
  constructor(joined?: number) {
    this.#joinedType = joined;
  }

  /** Whether the input so far ends between two frames. If not, an end of input is a truncation. */
  get isAtBoundary(): boolean {
    return this.#headerFilled === 0;
  }

  /**
   * Returns the frames that `chunk` completes. Payloads may be views of `chunk`, so copy a payload that you store for
   * long. Throws ExecFrameError for an oversized frame, and on each later call.
   */
  push(chunk: Uint8Array): ExecFrame[] {
    const bytes = toBuffer(chunk);
    const frames: ExecFrame[] = [];
    this.#jointBytes = 0;
    let at = 0;
    for (;;) {
      const need = EXEC_FRAME_HEADER_BYTES - this.#headerFilled;
      if (need > 0) {
        const took = copy(bytes, this.#header, this.#headerFilled, at, at + need);
        this.#headerFilled += took;
        at += took;
        if (took < need) break;
      }
      const sizeBytes = this.#headerView.getUint32(4);
      if (sizeBytes > MAX_EXEC_PAYLOAD_BYTES)
        throw new ExecFrameError(`a frame of ${sizeBytes} bytes, which is over ${MAX_EXEC_PAYLOAD_BYTES}`);
      if (this.#payload === undefined && bytes.length - at >= sizeBytes) {
        at += sizeBytes;
        if (this.#isJoined(sizeBytes)) {
          this.#join(frames, bytes, at - sizeBytes, at);
          continue;
        }
        this.#endJoint(frames);
        frames.push(this.#finish(bytes.subarray(at - sizeBytes, at)));
        continue;
      }
      this.#payload ??= allocate(sizeBytes);
      const took = copy(bytes, this.#payload, this.#payloadFilled, at);
      this.#payloadFilled += took;
      at += took;
      if (this.#payloadFilled < sizeBytes) break;
      this.#endJoint(frames);
      frames.push(this.#finish(this.#payload));
    }
    this.#endJoint(frames);
    return frames;
  }

  #isJoined(sizeBytes: number): boolean {
    return this.#header[0] === this.#joinedType && sizeBytes > 0 && sizeBytes < SHORT_BYTES;
  }

  #join(frames: ExecFrame[], bytes: Buffer, start: number, end: number): void {
    if (this.#jointBytes + end - start > MAX_EXEC_PAYLOAD_BYTES) this.#endJoint(frames);
    this.#jointBytes += copy(bytes, joint, this.#jointBytes, start, end);
    this.#headerFilled = 0;
  }

  #endJoint(frames: ExecFrame[]): void {
    if (this.#jointBytes === 0 || this.#joinedType === undefined) return;
    const payload = allocate(this.#jointBytes);
    copy(joint, payload, 0, 0, this.#jointBytes);
    frames.push({ type: this.#joinedType, payload });
    this.#jointBytes = 0;
  }

  #finish(payload: Buffer): ExecFrame {
    this.#headerFilled = 0;
    this.#payload = undefined;
    this.#payloadFilled = 0;
    return { type: this.#header[0] ?? 0, payload };
  }
}

function toBuffer(chunk: Uint8Array): Buffer {
  if (typeof Buffer === 'undefined') return chunk as Buffer;
  return Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

/** Without zero-filling, if the platform supports that. */
function allocate(sizeBytes: number): Buffer {
  return typeof Buffer === 'undefined'
    ? (new Uint8Array(sizeBytes) as Buffer)
    : Buffer.allocUnsafeSlow(sizeBytes);
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

/** Copies `source` from `start` to `end` as far as `target` has space; returns the number of bytes copied. */
function copy(source: Buffer, target: Buffer, at: number, start: number, end = source.length): number {
  if (typeof Buffer !== 'undefined') return source.copy(target, at, start, end);
  const part = source.subarray(start, Math.min(end, start + target.length - at));
  target.set(part, at);
  return part.length;
}
