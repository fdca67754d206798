// Frames of a source's bytes that the link cannot take now: read the ordinary way, to wait.
import { MAX_DATA_BYTES, type PipedFrames } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';

/** One for all: whoever is given the bytes copies them. */
const scratch = Buffer.allocUnsafeSlow(MAX_DATA_BYTES);

/** Gives the frames piece by piece, but for their first `skipBytes`, which went before. The pieces are lent. */
export function readFramed(
  { source, length, frameBytes, header, lastHeader, trailer }: PipedFrames,
  skipBytes: number,
  take: (bytes: Buffer) => void,
): void {
  let skip = skipBytes;
  const add = (sizeBytes: number, get: (missing: number) => Buffer): void => {
    if (skip < sizeBytes) take(get(sizeBytes - skip));
    skip = Math.max(0, skip - sizeBytes);
  };
  for (let left = length; left > 0; left -= frameBytes) {
    const head = left <= frameBytes ? lastHeader : header;
    add(head.length, (missing) => head.subarray(-missing));
    add(Math.min(left, frameBytes), (missing) => readExactly(source, missing));
    add(trailer.length, (missing) => trailer.subarray(-missing));
  }
}

/**
 * Zeros stand for bytes that are gone: a command may read its own output, a file become shorter or unreadable. The frames
 * were announced; whoever named the source finds out how far it was read.
 */
function readExactly(source: number, sizeBytes: number): Buffer {
  const bytes = scratch.subarray(0, sizeBytes);
  for (let at = 0; at < sizeBytes; ) {
    const got = readSome(source, bytes, at);
    if (got <= 0) {
      bytes.fill(0, at);
      break;
    }
    at += got;
  }
  return bytes;
}

function readSome(source: number, bytes: Buffer, at: number): number {
  try {
    return addon.read(source, bytes, at, bytes.length - at);
  } catch {
    return 0;
  }
}
