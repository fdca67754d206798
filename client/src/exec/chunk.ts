// A piece of output.
import { EXEC_FRAME } from '@sandboxd/api/exec-frames';

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
