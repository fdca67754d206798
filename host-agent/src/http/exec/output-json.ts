// The output of a one-way exec as JSON, for clients without a decoder of frames.
import { isUtf8 } from 'node:buffer';
import { EXEC_FRAME, ExecFrameDecoder, type ExecOutput, type ExecPiece } from '@sandboxd/api';
import type { Chunk, PullStream } from '../../lib/byte-queue.ts';
import { joinText, NOTHING, unfinishedBytes } from '../../lib/utf8-joiner.ts';

type Stream = 'stdout' | 'stderr';

/** A stream's beginning. */
class Beginning {
  readonly #room: number;
  readonly #chunks: Buffer[] = [];
  #sizeBytes = 0;
  isCut = false;

  constructor(room: number) {
    this.#room = room;
  }

  push(payload: Buffer): void {
    const left = this.#room - this.#sizeBytes;
    if (payload.length > left) this.isCut = true;
    if (left === 0 || payload.length === 0) return;
    // A copy: what it is a view of is used again.
    const kept = Buffer.from(payload.subarray(0, left));
    this.#sizeBytes += kept.length;
    this.#chunks.push(kept);
  }

  /** No character is cut in two: half of one would make base64 of a text. */
  toText(): { readonly text: string; readonly isBase64: boolean } {
    const all = Buffer.concat(this.#chunks);
    return toText(this.isCut ? all.subarray(0, all.length - unfinishedBytes(all)) : all);
  }
}

/** Reads frames to their end. `maxBytes`, of each stream; the rest is read and forgotten. Rejects as the frames do. */
export async function collectOutput(frames: PullStream, maxBytes: number): Promise<ExecOutput> {
  const streams = { stdout: new Beginning(maxBytes), stderr: new Beginning(maxBytes) };
  const decoder = new ExecFrameDecoder();
  let result: unknown;
  for (let chunk = await frames.next(); chunk !== undefined; chunk = await frames.next()) {
    for (const { type, payload } of decoder.push(chunk.bytes)) {
      if (type === EXEC_FRAME.exit) result = JSON.parse(payload.toString());
      else streams[toStream(type)].push(payload);
    }
    chunk.release();
  }
  const [stdout, stderr] = [streams.stdout.toText(), streams.stderr.toText()];
  return {
    stdout: stdout.text,
    stderr: stderr.text,
    ...(stdout.isBase64 && { stdout_base64: true as const }),
    ...(stderr.isBase64 && { stderr_base64: true as const }),
    ...(streams.stdout.isCut && { stdout_truncated: true as const }),
    ...(streams.stderr.isCut && { stderr_truncated: true as const }),
    ...(result as Pick<ExecOutput, 'exit_code' | 'duration_ms'>),
  };
}

/** Frames as lines of JSON, at the pace of whoever reads them. */
export class OutputLines implements PullStream {
  readonly #frames: PullStream;
  readonly #decoder = new ExecFrameDecoder();
  /** Beginnings of characters whose rest has not come. */
  readonly #held: Record<Stream, Buffer> = { stdout: NOTHING, stderr: NOTHING };

  constructor(frames: PullStream) {
    this.#frames = frames;
  }

  async next(): Promise<Chunk | undefined> {
    for (;;) {
      const chunk = await this.#frames.next();
      if (chunk === undefined) return undefined;
      const lines = this.#decoder
        .push(chunk.bytes)
        .flatMap(({ type, payload }) => this.#toLines(type, payload));
      if (lines.length > 0) {
        const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
        return { bytes, release: () => chunk.release() };
      }
      chunk.release();
    }
  }

  cancel(): void {
    this.#frames.cancel();
  }

  keepalive(): void {
    this.#frames.keepalive?.();
  }

  #toLines(type: number, payload: Buffer): ExecPiece[] {
    if (type === EXEC_FRAME.exit) return [...this.#takeHeld(), { result: JSON.parse(payload.toString()) }];
    const stream = toStream(type);
    const { whole, held } = joinText(this.#held[stream], payload);
    this.#held[stream] = held;
    return whole.length > 0 || payload.length === 0 ? [toPiece(stream, whole)] : [];
  }

  #takeHeld(): ExecPiece[] {
    return (['stdout', 'stderr'] as const)
      .filter((stream) => this.#held[stream].length > 0)
      .map((stream) => toPiece(stream, this.#held[stream]));
  }
}

function toPiece(stream: Stream, bytes: Buffer): ExecPiece {
  const { text, isBase64 } = toText(bytes);
  return { stream, data: text, ...(isBase64 && { base64: true as const }) };
}

function toText(bytes: Buffer): { text: string; isBase64: boolean } {
  const isBase64 = !isUtf8(bytes);
  return { text: bytes.toString(isBase64 ? 'base64' : 'utf8'), isBase64 };
}

function toStream(type: number): Stream {
  return type === EXEC_FRAME.stderr ? 'stderr' : 'stdout';
}
