// What was written into a file, by windows of 64 KiB: a guest that changes every other page makes as many writes as its
// memory has pages, and one entry for each would fill the memory of this process.
import { CHUNK_BYTES } from './chunk.ts';

/** As checksums of memory files have them. */
const WINDOW_BYTES = CHUNK_BYTES / 16;

export type Range = { readonly offset: number; readonly length: number };

export class WrittenWindows {
  /** By the number of the chunk: a bit for each window. */
  readonly #chunks = new Map<number, number>();

  add(offset: number, length: number): void {
    const end = offset + length;
    for (let at = offset - (offset % WINDOW_BYTES); at < end; at += WINDOW_BYTES) {
      const chunk = Math.floor(at / CHUNK_BYTES);
      const bit = 1 << ((at % CHUNK_BYTES) / WINDOW_BYTES);
      this.#chunks.set(chunk, (this.#chunks.get(chunk) ?? 0) | bit);
    }
  }

  /** Whole windows, in the order of the file; the last may reach behind its end. */
  ranges(): Range[] {
    const ranges: { readonly offset: number; length: number }[] = [];
    for (const [chunk, bits] of [...this.#chunks].sort(([a], [b]) => a - b))
      for (let window = 0; window * WINDOW_BYTES < CHUNK_BYTES; window++) {
        if ((bits & (1 << window)) === 0) continue;
        const offset = chunk * CHUNK_BYTES + window * WINDOW_BYTES;
        const last = ranges.at(-1);
        if (last !== undefined && last.offset + last.length === offset) last.length += WINDOW_BYTES;
        else ranges.push({ offset, length: WINDOW_BYTES });
      }
    return ranges;
  }
}
