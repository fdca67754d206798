// The beginning and the end of a text of any length, for models whose context is small.

export class Excerpt {
  readonly #headChars: number;
  readonly #tailChars: number;
  #head = '';
  #tail = '';
  #chars = 0;

  constructor(headChars: number, tailChars: number) {
    this.#headChars = headChars;
    this.#tailChars = tailChars;
  }

  get chars(): number {
    return this.#chars;
  }

  push(text: string): void {
    this.#chars += text.length;
    const missing = this.#headChars - this.#head.length;
    this.#head += text.slice(0, missing);
    const rest = missing > 0 ? text.slice(missing) : text;
    // Cut only sometimes, as each cut copies.
    this.#tail += rest;
    if (this.#tail.length > 2 * this.#tailChars) this.#tail = this.#tail.slice(-this.#tailChars);
  }

  get isCut(): boolean {
    return this.#chars > this.#headChars + this.#tailChars;
  }

  toString(): string {
    const tail = this.#tail.slice(-this.#tailChars);
    const leftOut = this.#chars - this.#head.length - tail.length;
    return leftOut === 0 ? this.#head + tail : `${this.#head}\n[… ${leftOut} characters left out …]\n${tail}`;
  }
}
