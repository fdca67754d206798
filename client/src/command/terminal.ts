// Output of the program: tables and progress bars on a terminal, plain lines in a pipe.
import type { ReadStream, WriteStream } from 'node:tty';
import { toVisible, toVisibleJson } from './visible.ts';
import { endOf, startOf, widthOf } from './width.ts';

const BAR_COLUMNS = 24;
const REDRAW_MS = 100;
/** Used when a terminal does not report its size. */
export const DEFAULT_COLUMNS = 80;
export const DEFAULT_ROWS = 24;
const CLEAR = '\r\x1b[K';

export class Terminal {
  readonly stdin = process.stdin as ReadStream;
  readonly stdout = process.stdout as WriteStream;
  readonly stderr = process.stderr as WriteStream;

  get size(): { readonly cols: number; readonly rows: number } {
    return { cols: this.stdout.columns || DEFAULT_COLUMNS, rows: this.stdout.rows || DEFAULT_ROWS };
  }

  /** Resolves when the stream accepts more data (backpressure). */
  async write(bytes: Uint8Array | string, stream: 'stdout' | 'stderr' = 'stdout'): Promise<void> {
    const target = this[stream];
    if (target.destroyed || target.write(bytes)) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        target.off('drain', done).off('close', done);
        resolve();
      };
      target.on('drain', done).on('close', done);
    });
  }

  print(line: string): void {
    this.stdout.write(`${toVisible(line)}\n`);
  }

  printJson(value: unknown): void {
    this.stdout.write(`${toVisibleJson(value, this.stdout.isTTY ? 2 : undefined)}\n`);
  }

  /** Writes one record of a stream; resolves when the stream accepts more data. */
  writeJson(value: unknown): Promise<void> {
    return this.write(`${toVisibleJson(value)}\n`);
  }

  /** Prints an error. */
  complain(message: string): void {
    this.stderr.write(`sandbox: ${toVisible(message)}\n`);
  }

  /** Prints a line of debug output (SANDBOXD_DEBUG). */
  debug(line: string): void {
    this.stderr.write(`${toVisible(line)}\n`);
  }

  /** Prints a hint, only on a terminal. */
  note(line: string): void {
    if (this.stderr.isTTY) this.stderr.write(`${toVisible(line)}\n`);
  }

  table(head: readonly string[], rows: readonly (readonly string[])[]): void {
    const all = [head, ...rows].map((row) => row.map(toVisible));
    const widths = head.map((_, column) => Math.max(...all.map((row) => widthOf(row[column] ?? ''))));
    const pad = (cell: string, column: number): string =>
      cell + ' '.repeat((widths[column] ?? 0) - widthOf(cell));
    for (const row of all) this.print(row.map(pad).join('   ').trimEnd());
  }

  /** A progress line that is redrawn as bytes or time pass; hidden unless standard error is a terminal. */
  progress(label: string, totalBytes?: number): Progress {
    return new Progress(canRedraw(this.stderr) ? this.stderr : undefined, label, totalBytes);
  }
}

/** Whether the stream is a terminal that supports cursor movement. */
export function canRedraw(target: WriteStream): boolean {
  return target.isTTY && process.env.TERM !== 'dumb';
}

export class Progress implements Disposable {
  readonly #target: WriteStream | undefined;
  readonly #label: string;
  readonly #totalBytes: number | undefined;
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout | undefined;
  #bytes = 0;

  constructor(target: WriteStream | undefined, label: string, totalBytes?: number) {
    this.#target = target;
    this.#label = toVisible(label);
    this.#totalBytes = totalBytes;
    if (target !== undefined) this.#timer = setInterval(() => this.#draw(), REDRAW_MS);
  }

  /** Sets the total bytes so far. */
  readonly update = (bytes: number): void => {
    this.#bytes = bytes;
  };

  [Symbol.dispose](): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#target?.write(CLEAR);
  }

  #draw(): void {
    const seconds = (performance.now() - this.#startedAt) / 1000;
    const speed = this.#bytes > 0 ? `  ${formatBytes(this.#bytes / seconds)}/s` : '';
    const amount = this.#bytes > 0 ? `  ${formatBytes(this.#bytes)}` : '';
    const bar = this.#totalBytes === undefined ? '' : renderBar(this.#bytes, this.#totalBytes);
    const state = `  ${bar}${amount}${speed}  ${seconds.toFixed(0)} s`;
    // A wrapped line cannot be overwritten, so the label is shortened.
    const columns = this.#target?.columns || DEFAULT_COLUMNS;
    const label = endOf(this.#label, columns - 1 - state.length);
    this.#target?.write(`${CLEAR}${startOf(`${label}${state}`, columns - 1)}`);
  }
}

export function renderBar(bytes: number, totalBytes: number): string {
  const share = totalBytes === 0 ? 1 : Math.min(1, bytes / totalBytes);
  const full = Math.floor(share * BAR_COLUMNS);
  return `[${'#'.repeat(full)}${' '.repeat(BAR_COLUMNS - full)}] ${Math.floor(share * 100)} %`;
}

export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${units[unit]}`;
}

/** Age in one unit, such as `5 min ago`. */
export function formatAge(createdAt: string): string {
  const seconds = Math.max(0, (Date.now() - Date.parse(createdAt)) / 1000);
  const steps = [
    ['s', 60],
    ['min', 60],
    ['h', 24],
    ['d', Number.POSITIVE_INFINITY],
  ] as const;
  let value = seconds;
  for (const [unit, size] of steps) {
    if (value < size) return `${Math.floor(value)} ${unit} ago`;
    value /= size;
  }
  return createdAt;
}
