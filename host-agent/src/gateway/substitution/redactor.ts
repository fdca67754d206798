// Stars in place of byte strings in a stream, also where they span chunks. What it holds back depends on lengths and
// on bytes that no value has, never on a likeness to a value: else the delay of an echo would confirm a guess of its
// first characters.

const STAR = '*'.charCodeAt(0);
const SPACE = 0x20;
const TILDE = 0x7e;

export class Redactor {
  readonly #forms: readonly Buffer[];
  readonly #longest: number;
  #held: Buffer = Buffer.alloc(0);
  /** Bytes of what is held that are stars already. */
  #decided = 0;

  /** `forms`: printable ASCII, the longest first: of two that begin at one byte, the longer is taken. */
  constructor(forms: readonly Buffer[]) {
    this.#forms = forms;
    this.#longest = forms[0]?.length ?? 1;
  }

  /** What can be sent on. */
  push(chunk: Buffer): Buffer {
    // A copy: the chunk belongs to the caller.
    const data = Buffer.concat([this.#held, chunk]);
    const ready = Math.max(data.length - this.#longest + 1, findBorder(data, this.#held.length), 0);
    return this.#release(data, ready);
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
    const decided = this.#redact(data, this.#decided, ready);
    this.#held = data.subarray(ready);
    this.#decided = Math.max(0, decided - ready);
    return data.subarray(0, ready);
  }

  /** In place; returns the end of the last one. */
  #redact(data: Buffer, from: number, to: number): number {
    const next = this.#forms.map((form) => indexOf(data, form, from, to));
    let end = from;
    for (;;) {
      let first = Number.POSITIVE_INFINITY;
      let found: Buffer | undefined;
      for (const [at, form] of this.#forms.entries()) {
        if ((next[at] ?? to) < end) next[at] = indexOf(data, form, end, to);
        const start = next[at] ?? first;
        if (start >= first) continue;
        first = start;
        found = form;
      }
      if (found === undefined) return end;
      end = first + found.length;
      data.fill(STAR, first, end);
    }
  }
}

/** Of one that begins between `from` and `to`; infinite without. */
function indexOf(data: Buffer, form: Buffer, from: number, to: number): number {
  if (from >= to) return Number.POSITIVE_INFINITY;
  const at = data.subarray(from, to + form.length - 1).indexOf(form);
  return at === -1 ? Number.POSITIVE_INFINITY : from + at;
}

/** Behind the last byte that no form has, as the end of a line. */
function findBorder(data: Buffer, from: number): number {
  for (let at = data.length - 1; at >= from; at--) {
    const byte = data[at] ?? 0;
    if (byte < SPACE || byte > TILDE) return at + 1;
  }
  return 0;
}
