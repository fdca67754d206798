// Replaces byte strings in a stream, also where they span chunks. It holds back only what may be the beginning of one,
// so its memory is the longest of them. What is held back shows what is looked for: see redactor.ts for values.

export type Replacement = {
  readonly find: Buffer;
  readonly by: Buffer;
  readonly onFound?: (() => void) | undefined;
};

type Pattern = Replacement & {
  /** Of Knuth, Morris and Pratt: the longest own prefix that ends at each byte. */
  readonly borders: Int32Array;
};

/** Of what is not in a chunk. */
const NONE = Number.POSITIVE_INFINITY;

export class StreamReplacer {
  readonly #patterns: readonly Pattern[];
  #held: Buffer = Buffer.alloc(0);

  constructor(replacements: readonly Replacement[]) {
    this.#patterns = replacements
      .filter(({ find }) => find.length > 0)
      // Of two that begin at one byte, the longer is taken.
      .toSorted((a, b) => b.find.length - a.find.length)
      .map((replacement) => ({ ...replacement, borders: toBorders(replacement.find) }));
  }

  /** What can be sent on. It may share memory with the chunk. */
  push(chunk: Buffer): Buffer {
    const data = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const { parts, end } = this.#replace(data);
    const heldFrom = Math.max(end, data.length - this.#countOpen(data.subarray(end)));
    parts.push(data.subarray(end, heldFrom));
    // A copy: the chunk belongs to the caller.
    this.#held = Buffer.from(data.subarray(heldFrom));
    return join(parts);
  }

  /** What was held back, at the end of the stream. */
  end(): Buffer {
    const rest = this.#held;
    this.#held = Buffer.alloc(0);
    return rest;
  }

  /** Bytes that are held back. */
  get heldBytes(): number {
    return this.#held.length;
  }

  /** `end`: behind the last one that was replaced. */
  #replace(data: Buffer): { parts: Buffer[]; end: number } {
    const parts: Buffer[] = [];
    const next = this.#patterns.map(({ find }) => indexOf(data, find, 0));
    let end = 0;
    for (;;) {
      let first = NONE;
      let found: Pattern | undefined;
      for (const [at, pattern] of this.#patterns.entries()) {
        if ((next[at] ?? NONE) < end) next[at] = indexOf(data, pattern.find, end);
        if ((next[at] ?? NONE) >= first) continue;
        first = next[at] ?? NONE;
        found = pattern;
      }
      if (found === undefined) return { parts, end };
      parts.push(data.subarray(end, first), found.by);
      found.onFound?.();
      end = first + found.find.length;
    }
  }

  /** Length of the longest end of `data` with which one of them begins. */
  #countOpen(data: Buffer): number {
    let longest = 0;
    for (const { find, borders } of this.#patterns) {
      let length = 0;
      for (let at = Math.max(0, data.length - find.length + 1); at < data.length; at++) {
        const byte = data[at];
        while (length > 0 && find[length] !== byte) length = borders[length - 1] ?? 0;
        if (find[length] === byte) length += 1;
      }
      longest = Math.max(longest, length);
    }
    return longest;
  }
}

function indexOf(data: Buffer, find: Buffer, from: number): number {
  const at = data.indexOf(find, from);
  return at === -1 ? NONE : at;
}

function toBorders(find: Buffer): Int32Array {
  const borders = new Int32Array(find.length);
  let length = 0;
  for (let at = 1; at < find.length; at++) {
    while (length > 0 && find[length] !== find[at]) length = borders[length - 1] ?? 0;
    if (find[length] === find[at]) length += 1;
    borders[at] = length;
  }
  return borders;
}

function join(parts: readonly Buffer[]): Buffer {
  const filled = parts.filter(({ length }) => length > 0);
  return filled.length === 1 && filled[0] !== undefined ? filled[0] : Buffer.concat(filled);
}
