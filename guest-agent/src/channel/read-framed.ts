// Frames of a source's bytes that the link cannot take now: read the ordinary way, to wait.
import type { PipedFrames } from '@sandboxd/proto';
import { addon, NOT_NOW } from '../native/addon.ts';

/** The frames but for their first `skipBytes`, which went before. */
export function readFramed(
  { source, length, frameBytes, header, lastHeader, trailer }: PipedFrames,
  skipBytes: number,
): Buffer[] {
  const rest: Buffer[] = [];
  let skip = skipBytes;
  const add = (sizeBytes: number, get: (missing: number) => Buffer): void => {
    if (skip < sizeBytes) rest.push(get(sizeBytes - skip));
    skip = Math.max(0, skip - sizeBytes);
  };
  for (let left = length; left > 0; left -= frameBytes) {
    const head = left <= frameBytes ? lastHeader : header;
    add(head.length, (missing) => head.subarray(-missing));
    add(Math.min(left, frameBytes), (missing) => readExactly(source, missing));
    add(trailer.length, (missing) => trailer.subarray(-missing));
  }
  return rest;
}

/** Zeros stand for bytes that are gone: a command may read its own output, a file become shorter. */
function readExactly(source: number, sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  for (let at = 0; at < sizeBytes; ) {
    const got = addon.read(source, bytes, at, sizeBytes - at);
    if (got === NOT_NOW || got === 0) break;
    at += got;
  }
  return bytes;
}
