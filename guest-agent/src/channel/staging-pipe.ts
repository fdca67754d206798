// Where frames of piped bytes are put together before they go to the host: a pipe of the agent's own. The bytes' pages
// move from the command's pipe to here and on to the port, and are never copied.
import type { PipedFrames } from '@sandboxd/proto';
import { addon } from '../native/addon.ts';
import { readFramed } from './read-framed.ts';

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

  /** For the relay, which has it for itself: the ends for reading and writing. */
  get ends(): readonly [number, number] {
    return [this.#out, this.#in];
  }

  /** The relay left frames in it. */
  fill(): void {
    this.#isEmpty = false;
  }

  /** Takes the frames, to be flushed; what of them did not fit goes to `takeRest`. Only when empty. */
  stage(frames: PipedFrames, takeRest: (bytes: Uint8Array) => void): void {
    const { source, length, frameBytes, header, lastHeader, trailer } = frames;
    const staged = addon.stagePiped(this.#in, source, length, frameBytes, header, lastHeader, trailer);
    this.#isEmpty = staged === 0;
    const frameCount = Math.ceil(length / frameBytes);
    const total = length + (frameCount - 1) * header.length + lastHeader.length + frameCount * trailer.length;
    if (staged !== total) readFramed(frames, staged, takeRest);
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
