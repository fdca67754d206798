// The last bytes of an output of any length, copied only as far as they may still be the last.

export class OutputTail {
  readonly #maxBytes: number;
  #bytes: Buffer | undefined;
  #filled = 0;
  #seen = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that were pushed and are not kept. */
  get omittedBytes(): number {
    return this.#seen - this.#filled;
  }

  push(chunk: Buffer): void {
    this.#seen += chunk.length;
    this.#bytes ??= Buffer.allocUnsafeSlow(this.#maxBytes);
    const keep = chunk.length > this.#maxBytes ? chunk.subarray(-this.#maxBytes) : chunk;
    const drop = Math.max(0, this.#filled + keep.length - this.#maxBytes);
    if (drop > 0) this.#bytes.copyWithin(0, drop, this.#filled);
    this.#filled -= drop;
    keep.copy(this.#bytes, this.#filled);
    this.#filled += keep.length;
  }

  /** What is kept, from its first whole character on where something is missing before it. */
  take(): Buffer {
    const kept = this.#bytes?.subarray(0, this.#filled) ?? Buffer.alloc(0);
    if (this.omittedBytes === 0) return kept;
    let start = 0;
    while (start < Math.min(3, kept.length) && ((kept[start] ?? 0) & 0xc0) === 0x80) start++;
    this.#filled -= start;
    return kept.subarray(start);
  }
}
