// Byte streams within the daemon.
import { BlockPool, ByteQueue, type Chunk } from '@sandboxd/proto';

export type { ByteQueue, Chunk };

/** A block holds what one read of a link brings, 208 KiB. */
const pool = new BlockPool(256 * 1024, 64);

export function createByteQueue(): ByteQueue {
  return new ByteQueue(pool);
}

/** A stream of bytes that one reader pulls at its own pace. */
export interface PullStream {
  /** The next bytes; undefined at the end. Rejects if the stream fails. Must not be called concurrently. */
  next(): Promise<Chunk | undefined>;
  /** Discards the rest. */
  cancel(): void;
  /** Makes a waiting `next` return filler bytes: sending them shows whether the reader is still connected. */
  keepalive?(): void;
}

/** A text that needs no release. */
export function toChunk(text: string): Chunk {
  return { bytes: Buffer.from(text), release: () => undefined };
}

/** Calls `end` at the end of the stream, in every case. */
export function onEnd(stream: PullStream, end: () => void): PullStream {
  return {
    next: () =>
      stream.next().then(
        (chunk) => {
          if (chunk === undefined) end();
          return chunk;
        },
        (error) => {
          end();
          throw error;
        },
      ),
    cancel: () => {
      stream.cancel();
      end();
    },
  };
}
