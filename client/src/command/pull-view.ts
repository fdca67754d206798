// Progress of a pull: a bar for each layer on a terminal, a line for each step elsewhere.
import type { WriteStream } from 'node:tty';
import type { PullProgress } from '../images.ts';
import { canRedraw, DEFAULT_COLUMNS, DEFAULT_ROWS, formatBytes, renderBar } from './terminal.ts';
import { toVisible } from './visible.ts';
import { startOf } from './width.ts';

const REDRAW_MS = 100;

type Layer = { readonly bytes?: number | undefined; readonly totalBytes?: number | undefined };

export class PullView implements Disposable {
  readonly #target: WriteStream;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #layers = new Map<string, Layer>();
  #step = '';
  #all: Layer = {};
  /** Number of lines on the terminal that the next update overwrites. */
  #drawn = 0;

  constructor(target: WriteStream) {
    this.#target = target;
    if (canRedraw(target)) this.#timer = setInterval(() => this.#draw(), REDRAW_MS);
  }

  readonly update = ({ text, layer, bytes, totalBytes }: PullProgress): void => {
    const isPart = bytes !== undefined && (layer === undefined || bytes !== totalBytes);
    if (this.#timer === undefined && !isPart && text !== this.#step)
      this.#target.write(`${toVisible(text)}\n`);
    if (layer === undefined || this.#timer === undefined) this.#step = text;
    if (layer === undefined) this.#all = { bytes, totalBytes };
    else this.#layers.set(layer, { bytes, totalBytes });
  };

  /** Clears the bars. */
  [Symbol.dispose](): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#target.write(this.#toTop());
  }

  #draw(): void {
    const columns = this.#target.columns || DEFAULT_COLUMNS;
    const maxBars = Math.max(1, (this.#target.rows || DEFAULT_ROWS) - 2);
    const bars = [...this.#layers].map(([name, layer]) => `${name}  ${describe(layer)}`);
    // Lines beyond the screen cannot be overwritten, so only the newest layers are shown.
    const all = this.#all.bytes === undefined ? this.#step : `${this.#step}  ${describe(this.#all)}`;
    const lines = [all, ...bars.slice(-maxBars)].filter((line) => line !== '');
    const text = lines.map((line) => `${startOf(toVisible(line), columns - 1)}\n`).join('');
    this.#target.write(`${this.#toTop()}${text}`);
    this.#drawn = lines.length;
  }

  #toTop(): string {
    return this.#drawn === 0 ? '' : `\x1b[${this.#drawn}A\r\x1b[J`;
  }
}

function describe({ bytes, totalBytes }: Layer): string {
  if (bytes === undefined || totalBytes === undefined) return 'fetching';
  return `${renderBar(bytes, totalBytes)}  ${formatBytes(bytes)} / ${formatBytes(totalBytes)}`;
}
