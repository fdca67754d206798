// Stars in place of values in a stream, in each of their forms, also where they span chunks. What it holds back depends
// on lengths and on bytes that no value has, never on a likeness to a value: else the delay of an echo would confirm a
// guess of its first characters.
import { base64Cores } from './encodings.ts';
import { type Escaping, escapingsFor, MAX_ESCAPE_BYTES, readEscapes } from './escapes.ts';

const STAR = '*'.charCodeAt(0);
const SPACE = 0x20;
const TILDE = 0x7e;

/** What is looked for, and where: in the bytes themselves, in any case, or in what their escapes mean. */
type Search = {
  readonly finds: readonly Buffer[];
  readonly within: 'bytes' | 'lower' | Escaping;
  /** 1 for each byte that any of them has. */
  readonly counts: Uint8Array;
};

/** What a redactor looks for, made once for many streams. */
export type SearchedForms = {
  readonly searches: readonly Search[];
  /** Of any form, in bytes. */
  readonly longest: number;
};

/** Of copies of the values, which are printable ASCII. */
export function toSearchedForms(values: readonly Buffer[]): SearchedForms {
  const hex = values.map((value) => Buffer.from(value.toString('hex')));
  const cores = values.flatMap((value) => base64Cores(value).map((core) => Buffer.from(core)));
  const lengths = values.map(({ length }) => length * MAX_ESCAPE_BYTES);
  return {
    searches: [
      toSearch('bytes', [...values, ...cores]),
      toSearch('lower', hex),
      ...escapingsFor(values).map((within) => toSearch(within, values)),
    ],
    longest: Math.max(1, ...lengths),
  };
}

/** With texts that are looked for as they are. */
export function withTexts({ searches, longest }: SearchedForms, texts: readonly string[]): SearchedForms {
  const finds = texts.map((text) => Buffer.from(text));
  return {
    searches: [...searches, toSearch('bytes', finds)],
    longest: Math.max(longest, ...finds.map(({ length }) => length)),
  };
}

function toSearch(within: Search['within'], all: readonly Buffer[]): Search {
  const finds = toDistinct(all);
  const counts = new Uint8Array(256);
  for (const find of finds) for (const byte of find) counts[byte] = 1;
  return { finds, within, counts };
}

function toDistinct(finds: readonly Buffer[]): Buffer[] {
  const texts = new Set(finds.map((find) => find.toString('latin1')));
  return [...texts].filter((text) => text !== '').map((text) => Buffer.from(text, 'latin1'));
}

/** Where a search of a stream is, in bytes from the first that is held back. */
type Position = {
  /** Each form is looked for behind the one before it. */
  readonly from: number[];
  /** Of an escape that began before. */
  skipped: number;
};

export class Redactor {
  readonly #forms: SearchedForms;
  readonly #positions: readonly Position[];
  #held: Buffer = Buffer.alloc(0);
  /** Bytes of what is held that become stars, as a form that began before has them. */
  #decided = 0;

  constructor(forms: SearchedForms) {
    this.#forms = forms;
    this.#positions = forms.searches.map(({ finds }) => ({ from: finds.map(() => 0), skipped: 0 }));
  }

  /** What can be sent on. */
  push(chunk: Buffer): Buffer {
    // A copy: the chunk belongs to the caller.
    const data = Buffer.concat([this.#held, chunk]);
    const whole = Math.max(0, data.length - this.#forms.longest + 1);
    const border = findBorder(data, Math.max(whole, this.#held.length));
    return this.#release(data, Math.max(whole, border));
  }

  /** What was held back, at the end of the stream or of a message in it. */
  end(): Buffer {
    return this.#release(this.#held, this.#held.length);
  }

  /** Bytes that are held back. */
  get heldBytes(): number {
    return this.#held.length;
  }

  /** All that begins before `ready` is in the data as a whole, or cannot become one. */
  #release(data: Buffer, ready: number): Buffer {
    if (ready === 0) {
      this.#held = data;
      return data.subarray(0, 0);
    }
    const found: (readonly [start: number, end: number])[] = [[0, this.#decided]];
    for (const [at, search] of this.#forms.searches.entries()) {
      const position = this.#positions[at];
      if (position !== undefined) searchIn(data, ready, search, position, found);
    }
    const decided = found.reduce((most, [, end]) => Math.max(most, end), 0);
    for (const [start, end] of found) data.fill(STAR, start, Math.min(end, ready));
    this.#decided = Math.max(0, decided - ready);
    this.#held = data.subarray(ready);
    return data.subarray(0, ready);
  }
}

/** Adds what begins before `ready`, and moves the position to there. */
function searchIn(
  data: Buffer,
  ready: number,
  { finds, within, counts }: Search,
  position: Position,
  found: (readonly [number, number])[],
): void {
  const { from } = position;
  const { unescaped: read, resumed } =
    typeof within === 'object'
      ? readEscapes(data, { from: position.skipped, ready }, within, counts)
      : { unescaped: undefined, resumed: ready };
  const text = within === 'lower' ? Buffer.from(data.toString('latin1').toLowerCase(), 'latin1') : data;
  const isSearched = read !== undefined || typeof within === 'string';
  for (const [at, find] of finds.entries()) {
    let next = from[at] ?? 0;
    while (isSearched && next < ready) {
      const range = read === undefined ? findIn(text, find, next, ready) : findRead(read, find, next, ready);
      if (range === undefined) break;
      found.push(range);
      next = range[1];
    }
    from[at] = Math.max(0, next - ready);
  }
  position.skipped = resumed - ready;
}

type Range = readonly [start: number, end: number];

function findIn(text: Buffer, find: Buffer, from: number, ready: number): Range | undefined {
  const at = text.subarray(0, ready + find.length - 1).indexOf(find, from);
  return at === -1 ? undefined : [at, at + find.length];
}

function findRead(
  { text, starts }: { readonly text: Buffer; readonly starts: Uint32Array },
  find: Buffer,
  from: number,
  ready: number,
): Range | undefined {
  const last = lowerBound(starts, ready);
  const at = text.subarray(0, last + find.length - 1).indexOf(find, lowerBound(starts, from));
  return at === -1 ? undefined : [starts[at] ?? 0, starts[at + find.length] ?? 0];
}

/** Index of the first that is not less. */
function lowerBound(sorted: Uint32Array, wanted: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Behind the last byte that no form has, as the end of a line. */
function findBorder(data: Buffer, from: number): number {
  for (let at = data.length - 1; at >= from; at--) {
    const byte = data[at] ?? 0;
    if (byte < SPACE || byte > TILDE) return at + 1;
  }
  return 0;
}
