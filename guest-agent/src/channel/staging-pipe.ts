// Where frames of piped bytes are put together before they go to the host: a pipe of the agent's own. The bytes' pages
// move from the command's pipe to here and on to the port, and are never copied.
import type { PipedFrames } from '@sandboxd/proto';
import { addon, NOT_NOW } from '../native/addon.ts';

/** Room for the pages of one turn even where each holds little. */
const STAGING_BYTES = 2 * 1024 * 1024;

export class StagingPipe {
  readonly #out: number;
  readonly #in: number;
  #isEmpty = true;

  constructor() {
    [this.#out, this.#in] = addon.pipe(1, STAGING_BYTES);
  }

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Takes the frames, to be flushed; returns the rest of them that did not fit. Only when empty. */
  stage(frames: PipedFrames): Uint8Array[] {
    const { pipe, length, frameBytes, header, lastHeader, trailer } = frames;
    const staged = addon.stagePiped(this.#in, pipe, length, frameBytes, header, lastHeader, trailer);
    this.#isEmpty = staged === 0;
    const frameCount = Math.ceil(length / frameBytes);
    const total = length + (frameCount - 1) * header.length + lastHeader.length + frameCount * trailer.length;
    return staged === total ? [] : this.readRest(frames, staged);
  }

  /** The frames but for their first `skipBytes`, which are staged already, read the ordinary way. */
  readRest(
    { pipe, length, frameBytes, header, lastHeader, trailer }: PipedFrames,
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
      add(Math.min(left, frameBytes), (missing) => readExactly(pipe, missing));
      add(trailer.length, (missing) => trailer.subarray(-missing));
    }
    return rest;
  }

  /** Writes what is staged; false when there is no more room now. Throws what the link's descriptor says. */
  flush(fd: number): boolean {
    if (!this.#isEmpty) this.#isEmpty = addon.flushStaged(this.#out, fd);
    return this.#isEmpty;
  }

  close(): void {
    addon.close(this.#in);
    addon.close(this.#out);
  }
}

/** Zeros stand for bytes that are gone: a command may read its own output. */
function readExactly(pipe: number, sizeBytes: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  for (let at = 0; at < sizeBytes; ) {
    const got = addon.read(pipe, bytes, at, sizeBytes - at);
    if (got === NOT_NOW || got === 0) break;
    at += got;
  }
  return bytes;
}
