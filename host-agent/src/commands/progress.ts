// Shows the progress of long steps on standard error. A terminal gets one line per step, rewritten every second. Other
// outputs get plain lines: one at the start, one every ten seconds, one at the end.
import type { ProgressEvent } from '@sandboxd/rootfs-builder';

/** Standard error, or a fake in tests. */
type Screen = {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
};

const TICK_MS = 1000;
const PLAIN_EVERY_TICKS = 10;
const DEFAULT_COLUMNS = 80;
const CLEAR_LINE = '\r\x1b[K';

type Step = { readonly name: string; readonly startedAt: number; ticks: number; note: string };

export class ProgressLine implements Disposable {
  readonly #screen: Screen;
  readonly #tickMs: number;
  #step: Step | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(screen: Screen = process.stderr, tickMs = TICK_MS) {
    this.#screen = screen;
    this.#tickMs = tickMs;
  }

  readonly show = (event: ProgressEvent): void => {
    if (event.kind === 'start') this.#begin(event.step);
    else if (event.kind === 'note') this.#note(event.text);
    else this.#end(`  ${event.step}: ${(event.durationMs / 1000).toFixed(1)} s\n`);
  };

  /** Ends a step that failed without an end event. */
  [Symbol.dispose](): void {
    this.#end('');
  }

  #begin(name: string): void {
    this.#end('');
    this.#step = { name, startedAt: performance.now(), ticks: 0, note: '' };
    this.#timer = setInterval(() => this.#tick(), this.#tickMs);
    this.#draw();
  }

  #note(text: string): void {
    if (this.#step === undefined) return;
    this.#step.note = text;
    if (this.#screen.isTTY) this.#draw();
  }

  #tick(): void {
    if (this.#step === undefined) return;
    this.#step.ticks++;
    if (this.#screen.isTTY || this.#step.ticks % PLAIN_EVERY_TICKS === 0) this.#draw();
  }

  #draw(): void {
    const { name = '', startedAt = 0, ticks = 0, note = '' } = this.#step ?? {};
    const seconds = ticks === 0 ? '' : ` ${((performance.now() - startedAt) / 1000).toFixed(0)} s`;
    const line = `  ${name} …${seconds}${note === '' ? '' : `: ${note}`}`;
    // A terminal of unknown width reports 0.
    const columns = this.#screen.columns || DEFAULT_COLUMNS;
    this.#screen.write(this.#screen.isTTY ? `${CLEAR_LINE}${line.slice(0, columns - 1)}` : `${line}\n`);
  }

  #end(line: string): void {
    clearInterval(this.#timer);
    if (this.#step !== undefined && this.#screen.isTTY) this.#screen.write(CLEAR_LINE);
    if (line !== '') this.#screen.write(line);
    this.#step = undefined;
  }
}
