// The chunks of a log as lines of plain text: escape sequences of the guest have no effect and are not shown.
import type { LogRecord } from '@sandboxd/client';

export type LogLine = {
  readonly id: number;
  readonly timeMs: number;
  readonly stream: LogRecord['stream'];
  readonly text: string;
};

const MAX_LINES = 2000;
const MAX_LINE_CHARS = 4000;
/** CSI, OSC and two-character sequences. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it removes
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
/** Other characters that move the cursor or reorder text; tabs stay. */
const UNSEEN = /(?!\t)[\p{Cc}\p{Cf}]/gu;

export class LogLines {
  #lines: LogLine[] = [];
  /** By stream: the line that has no end yet. */
  readonly #open = new Map<string, number>();
  #count = 0;

  get all(): readonly LogLine[] {
    return [...this.#lines];
  }

  push({ source, stream, text, time_ms }: LogRecord): void {
    const parts = text.split('\n');
    const key = `${source} ${stream}`;
    for (const [at, part] of parts.entries()) {
      const isLast = at === parts.length - 1;
      if (isLast && part === '') break;
      this.#append(key, part, { timeMs: time_ms, stream });
      if (!isLast || stream === 'event') this.#open.delete(key);
    }
    if (this.#lines.length > MAX_LINES) this.#lines = this.#lines.slice(-MAX_LINES);
  }

  #append(key: string, part: string, about: Pick<LogLine, 'timeMs' | 'stream'>): void {
    const clean = part.replace(ESCAPES, '').replace(UNSEEN, '');
    const id = this.#open.get(key);
    const at = id === undefined ? -1 : this.#lines.findLastIndex((line) => line.id === id);
    const line = this.#lines[at];
    if (line !== undefined) {
      this.#lines[at] = { ...line, text: `${line.text}${clean}`.slice(0, MAX_LINE_CHARS) };
      return;
    }
    this.#open.set(key, this.#count);
    this.#lines.push({ id: this.#count++, ...about, text: clean.slice(0, MAX_LINE_CHARS) });
  }
}
