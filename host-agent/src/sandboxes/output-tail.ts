// Keeps the last bytes of an output of any length, and copies only bytes that may still be needed.

export class OutputTail {
  readonly #maxBytes: number;
  #bytes: Buffer | undefined;
  #filled = 0;
  #seen = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that were pushed and dropped. */
  get omittedBytes(): number {
    return this.#seen - this.#filled;
  }

  push(chunk: Buffer): void {
    this.#seen += chunk.length;
    this.#bytes ??= Buffer.allocUnsafeSlow(this.#maxBytes);
    const retained = chunk.length > this.#maxBytes ? chunk.subarray(-this.#maxBytes) : chunk;
    const drop = Math.max(0, this.#filled + retained.length - this.#maxBytes);
    if (drop > 0) this.#bytes.copyWithin(0, drop, this.#filled);
    this.#filled -= drop;
    retained.copy(this.#bytes, this.#filled);
    this.#filled += retained.length;
  }

  /** The retained bytes, starting at a whole character if bytes before it were dropped. */
  take(): Buffer {
    const tail = this.#bytes?.subarray(0, this.#filled) ?? Buffer.alloc(0);
    if (this.omittedBytes === 0) return tail;
    let start = 0;
    while (start < Math.min(3, tail.length) && ((tail[start] ?? 0) & 0xc0) === 0x80) start++;
    this.#filled -= start;
    return tail.subarray(start);
  }
}
