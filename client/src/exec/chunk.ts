// A piece of output.
import { EXEC_FRAME, ExecFrameDecoder } from '@sandboxd/api/exec-frames';
import type { Bytes } from '../connection/transport.ts';

export type Chunk = {
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
  /** The data as text; a character that comes in two pieces is not whole in either. */
  readonly text: string;
};

const decoder = new TextDecoder();

/** Undefined for what is no output, or has none: the daemon only asks whether somebody listens. */
export function toChunk(type: number, payload: Uint8Array): Chunk | undefined {
  if (payload.length === 0 || (type !== EXEC_FRAME.stdout && type !== EXEC_FRAME.stderr)) return undefined;
  // What a frame's payload is a view of may be used again.
  const data = payload.slice();
  return {
    stream: type === EXEC_FRAME.stdout ? 'stdout' : 'stderr',
    data,
    get text() {
      return decoder.decode(data);
    },
  };
}

/** Output of a stream that has no result. */
export async function* readChunks(bytes: Bytes): AsyncGenerator<Chunk, void> {
  const frames = new ExecFrameDecoder();
  for await (const some of bytes) {
    for (const { type, payload } of frames.push(some)) {
      const chunk = toChunk(type, payload);
      if (chunk !== undefined) yield chunk;
    }
  }
}
