// The log of a build, which clients fetch by offset while it runs. Long output is cut.
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export type LogEntry = {
  readonly timestamp: string;
  readonly message: string;
  readonly level: LogLevel;
  readonly step?: string;
};

const MAX_ENTRIES = 2000;
const MAX_CHARS = 128 * 1024;
const MAX_MESSAGE_CHARS = 4096;

export class BuildLog {
  readonly #entries: LogEntry[] = [];
  #chars = 0;
  #isCut = false;

  add(message: string, level: LogLevel = 'info', step?: string): void {
    const text = message.slice(0, MAX_MESSAGE_CHARS);
    const isFull = this.#entries.length >= MAX_ENTRIES || this.#chars + text.length > MAX_CHARS;
    // How it ended is always logged.
    if (isFull && level !== 'error') {
      if (!this.#isCut) this.#push('the rest of the output is left out', 'warn', step);
      this.#isCut = true;
    } else this.#push(text, level, step);
  }

  page(offset: number, limit: number): readonly LogEntry[] {
    return this.#entries.slice(offset, offset + limit);
  }

  #push(message: string, level: LogLevel, step: string | undefined): void {
    this.#chars += message.length;
    const timestamp = new Date().toISOString();
    this.#entries.push({ timestamp, message, level, ...(step !== undefined && { step }) });
  }
}
