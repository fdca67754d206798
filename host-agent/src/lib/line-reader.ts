// Reads lines from an untrusted socket, with a maximum line length and a rate limit in bytes.
import type { Socket } from 'node:net';

/** After this many bytes in one interval, reading pauses until the next. */
const INTERVAL_BYTES = 1024 * 1024;
const INTERVAL_MS = 1000;

type LineReaderOptions = {
  /** Maximum length of one line. */
  readonly maxBytes: number;
  /** Gets lines without their line ends. */
  readonly onLine: (line: string) => void;
  /** Called once; nothing is read after it. */
  readonly onTooLong: () => void;
};

export class LineReader {
  readonly #socket: Socket;
  readonly #options: LineReaderOptions;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #intervalBytes = 0;
  #intervalEndsAt = 0;
  #isOver = false;

  constructor(socket: Socket, options: LineReaderOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.on('data', (bytes: Buffer) => this.#consume(bytes));
  }

  #consume(bytes: Buffer): void {
    let from = 0;
    for (let end = bytes.indexOf(10); end >= 0 && !this.#isOver; end = bytes.indexOf(10, from)) {
      this.#add(bytes.subarray(from, end));
      const line = Buffer.concat(this.#parts, this.#partBytes).toString('utf8');
      this.#parts = [];
      this.#partBytes = 0;
      if (!this.#isOver) this.#options.onLine(line.replace(/\r$/, ''));
      from = end + 1;
    }
    if (!this.#isOver) this.#add(bytes.subarray(from));
    this.#slowDown(bytes.length);
  }

  #add(part: Buffer): void {
    if (part.length === 0) return;
    this.#parts.push(part);
    this.#partBytes += part.length;
    if (this.#partBytes <= this.#options.maxBytes) return;
    this.#isOver = true;
    this.#parts = [];
    this.#options.onTooLong();
  }

  #slowDown(sizeBytes: number): void {
    const now = performance.now();
    if (now >= this.#intervalEndsAt) {
      this.#intervalEndsAt = now + INTERVAL_MS;
      this.#intervalBytes = 0;
    }
    this.#intervalBytes += sizeBytes;
    if (this.#intervalBytes <= INTERVAL_BYTES || this.#isOver) return;
    this.#socket.pause();
    setTimeout(() => this.#socket.resume(), this.#intervalEndsAt - now).unref();
  }
}
