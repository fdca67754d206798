// A screen of xterm.js that shows a command of a sandbox. It is loaded when the first terminal is opened.
import { type Command, ConnectionError, NotFoundError, UnavailableError } from '@sandboxd/client';
import { FitAddon } from '@xterm/addon-fit';
import { type ITheme, Terminal } from '@xterm/xterm';
import { pause, whileVisible } from '../../live/visibility.ts';
import { toSentence } from '../../session/session.ts';
import { openWithStyleSheets, withStyleSheets } from './style-sheets.ts';

const RETRY_MS = 1500;
const SCROLLBACK_LINES = 5000;
const DARK = matchMedia('(prefers-color-scheme: dark)');

/** What the terminal says beside the output: undefined while all is well. */
export type Report = (problem: string | undefined) => void;

export class Screen {
  readonly #terminal = new Terminal({
    fontFamily: 'ui-monospace, "Cascadia Mono", "DejaVu Sans Mono", Menlo, monospace',
    fontSize: 13,
    scrollback: SCROLLBACK_LINES,
    documentOverride: withStyleSheets(document),
    screenReaderMode: false,
    // Links in the output are the guest's: they open nothing.
    linkHandler: { activate: () => undefined },
    theme: readTheme(),
  });
  readonly #fit = new FitAddon();
  readonly #end: (() => void)[] = [];

  readonly #command: Command;

  constructor(element: HTMLElement, command: Command, report: Report) {
    this.#command = command;
    this.#terminal.loadAddon(this.#fit);
    openWithStyleSheets(() => this.#terminal.open(element));
    this.#fit.fit();
    const observer = new ResizeObserver(() => this.#fit.fit());
    observer.observe(element);
    const onTheme = (): void => {
      this.#terminal.options.theme = readTheme();
    };
    DARK.addEventListener('change', onTheme);
    this.#end.push(
      () => observer.disconnect(),
      () => DARK.removeEventListener('change', onTheme),
      whileVisible((signal) => this.#show(report, signal)),
      () => this.#terminal.dispose(),
    );
  }

  focus(): void {
    this.#terminal.focus();
  }

  /** Leaves the command, which continues. */
  close(): void {
    for (const end of this.#end) end();
  }

  /** Attaches again after a lost connection, from where the output was. */
  async #show(report: Report, signal: AbortSignal): Promise<void> {
    let from = 0;
    this.#terminal.reset();
    for (;;) {
      try {
        const attachment = await this.#command.attach({ from, input: 'take', signal });
        report(undefined);
        const { cols, rows } = this.#terminal;
        const send = (work: Promise<void>): void => void work.catch(() => undefined);
        using _ = disposeAll([
          this.#terminal.onData((text) => send(attachment.write(text))),
          this.#terminal.onBinary((text) =>
            send(attachment.write(Uint8Array.from(text, (each) => each.charCodeAt(0)))),
          ),
          this.#terminal.onResize((size) => send(attachment.resize({ cols: size.cols, rows: size.rows }))),
        ]);
        send(attachment.resize({ cols, rows }));
        for await (const { data } of attachment) {
          await new Promise<void>((resolve) => this.#terminal.write(data, resolve));
          from = attachment.position;
        }
        report(`It exited with ${attachment.result?.exit_code ?? '?'}.`);
        return;
      } catch (error) {
        if (signal.aborted) return;
        const isPassing = error instanceof ConnectionError || error instanceof UnavailableError;
        if (error instanceof NotFoundError) report('It has ended.');
        else report(isPassing ? 'The connection was lost; the command continues.' : toSentence(error));
        if (!isPassing) return;
      }
      await pause(RETRY_MS, signal);
    }
  }
}

function disposeAll(each: readonly { dispose(): void }[]): Disposable {
  return {
    [Symbol.dispose]: () => {
      for (const one of each) one.dispose();
    },
  };
}

/** The colours of the page, and sixteen that are readable on them. */
function readTheme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string): string => style.getPropertyValue(name).trim();
  const palette = DARK.matches
    ? ['#3b444c', '#f28b82', '#81c995', '#e3c26f', '#8ab4f8', '#c58af9', '#78d9ec', '#d5dbe0']
    : ['#1d242a', '#b3261e', '#1e6b3a', '#7a5900', '#1a56a8', '#7b3fa0', '#0b6b78', '#5a6570'];
  const [black = '', red = '', green = '', yellow = '', blue = '', magenta = '', cyan = '', white = ''] =
    palette;
  const faint = color('--faint');
  return {
    background: color('--terminal'),
    foreground: color('--text'),
    cursor: color('--accent'),
    selectionBackground: color('--selection'),
    ...{ black, red, green, yellow, blue, magenta, cyan, white },
    ...{ brightBlack: faint, brightRed: red, brightGreen: green, brightYellow: yellow },
    ...{ brightBlue: blue, brightMagenta: magenta, brightCyan: cyan, brightWhite: color('--text') },
  };
}
