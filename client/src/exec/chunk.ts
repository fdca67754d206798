// A chunk of output.
import { EXEC_FRAME } from '@sandboxd/api/exec-frames';

export type Chunk = {
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
  /** The data as text; a character that is split over two chunks is damaged in both. */
  readonly text: string;
};

const decoder = new TextDecoder();

/** Undefined for frames without output, and for empty output, which the daemon sends as keepalive. */
export function toChunk(type: number, payload: Uint8Array): Chunk | undefined {
  if (payload.length === 0 || (type !== EXEC_FRAME.stdout && type !== EXEC_FRAME.stderr)) return undefined;
  // Copied, because the decoder may reuse the buffer of a payload.
  return makeChunk(type === EXEC_FRAME.stdout ? 'stdout' : 'stderr', payload.slice());
}

export function makeChunk(stream: Chunk['stream'], data: Uint8Array): Chunk {
  return {
    stream,
    data,
    get text() {
      return decoder.decode(data);
    },
  };
}
