// A screen of xterm.js that shows a command of a sandbox. It is loaded when the first terminal is opened.
import {
  type Command,
  ConflictError,
  ConnectionError,
  type ExecResult,
  NotFoundError,
  UnavailableError,
  UpstreamError,
} from '@sandboxd/client';
import { FitAddon } from '@xterm/addon-fit';
import { type ITheme, Terminal } from '@xterm/xterm';
import { pause, whileVisible } from '../../live/visibility.ts';
import { toSentence } from '../../session/session.ts';
import { openWithStyleSheets, withStyleSheets } from './style-sheets.ts';

const RETRY_MS = 1500;
/** How far the output is arrives apart from it. */
const STORED_POLL_MS = 20;
const SCROLLBACK_LINES = 5000;
/** Of the input that this page had, before it reads only. */
const MAX_REFUSALS = 3;
const PASSING = [ConnectionError, UnavailableError, UpstreamError];
const CONFLICT = 'conflict';
const READ_ONLY: Note = { text: 'Another client types in this terminal.', canTakeOver: true };
const DARK = matchMedia('(prefers-color-scheme: dark)');

/** What the terminal says beside the output: undefined while all is well. */
export type Note = {
  readonly text: string;
  /** Another client has the input, and can be replaced. */
  readonly canTakeOver?: boolean;
};

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
  readonly #report: (note: Note | undefined) => void;
  /** Of the first output that is not on the screen. */
  #position = 0;
  /** What the next attachment asks for. Only the user takes the input of another client. */
  #input: 'write' | 'take' | 'none' = 'write';
  #hadInput = false;
  #attached = new AbortController();

  constructor(element: HTMLElement, command: Command, report: (note: Note | undefined) => void) {
    this.#command = command;
    this.#report = report;
    this.#terminal.loadAddon(this.#fit);
    openWithStyleSheets(() => this.#terminal.open(element));
    this.#fit.fit();
    const observer = new ResizeObserver(() => {
      // Another client has the size, too.
      if (this.#input !== 'none') this.#fit.fit();
    });
    observer.observe(element);
    const onTheme = (): void => {
      this.#terminal.options.theme = readTheme();
    };
    DARK.addEventListener('change', onTheme);
    this.#end.push(
      () => observer.disconnect(),
      () => DARK.removeEventListener('change', onTheme),
      whileVisible((signal) => this.#show(signal)),
      () => this.#terminal.dispose(),
    );
  }

  focus(): void {
    this.#terminal.focus();
  }

  /** Types in the place of the client that does now. */
  takeOver(): void {
    this.#input = 'take';
    this.#attached.abort();
    this.#fit.fit();
    this.focus();
  }

  /** Leaves the command, which continues. */
  close(): void {
    for (const end of this.#end) end();
  }

  /** Attaches again after a lost connection, from where the output was. */
  async #show(signal: AbortSignal): Promise<void> {
    let refusals = 0;
    for (;;) {
      this.#attached = new AbortController();
      const left = AbortSignal.any([signal, this.#attached.signal]);
      try {
        const result = await this.#attach(left);
        if (result?.code !== undefined && result.code !== CONFLICT)
          throw new ConnectionError(result.error ?? 'the guest was lost');
        if (result?.code !== CONFLICT) {
          this.#report({ text: `It exited with ${result?.exit_code ?? '?'}.` });
          return;
        }
        this.#yield();
        continue;
      } catch (error) {
        if (signal.aborted) return;
        if (left.aborted) continue;
        if (error instanceof ConflictError) {
          // The end of this page's own last connection may not have reached the guest yet.
          const isOwn = this.#hadInput && this.#input === 'write' && refusals++ < MAX_REFUSALS;
          if (!isOwn) {
            if (this.#input === 'none') return this.#report({ text: toSentence(error) });
            this.#yield();
            continue;
          }
        } else {
          const isPassing = PASSING.some((kind) => error instanceof kind);
          if (error instanceof NotFoundError) this.#report({ text: 'It has ended.' });
          else
            this.#report({
              text: isPassing ? 'The connection was lost; the command continues.' : toSentence(error),
            });
          if (!isPassing) return;
        }
      }
      await pause(RETRY_MS, signal);
    }
  }

  /** Leaves the input to another client. */
  #yield(): void {
    this.#input = 'none';
    this.#hadInput = false;
  }

  /** Resolves with the result of the command, or with a conflict when another client took its input. */
  async #attach(signal: AbortSignal): Promise<ExecResult | undefined> {
    const { output, tty } = await this.#command.info({ signal });
    const storedEnd = output?.next_seq ?? 0;
    const from = this.#position;
    const input = this.#input;
    const attachment = await this.#command.attach({ from, input, signal });
    // Later attachments do not take it again.
    if (input === 'take') this.#input = 'write';
    const isStored = (): boolean => Math.max(from, attachment.position) < storedEnd;
    let isOver = false;
    /** Until then the former note stays: what is typed would be lost. */
    const reportReady = async (): Promise<void> => {
      while (isStored() && !isOver) await pause(STORED_POLL_MS, signal);
      if (!isOver) this.#report(input === 'none' ? READ_ONLY : undefined);
    };
    reportReady().catch(() => undefined);
    if (input === 'none' && tty !== undefined) this.#terminal.resize(tty.cols, tty.rows);
    const send = (work: Promise<void>): void => void work.catch(() => undefined);
    /** The terminal answers queries in the output. The programs of the stored output have their answers. */
    const type = (data: string | Uint8Array): void => {
      if (!isStored()) send(attachment.write(data));
    };
    using _ = disposeAll(
      input === 'none'
        ? []
        : [
            this.#terminal.onData(type),
            this.#terminal.onBinary((text) => type(Uint8Array.from(text, (each) => each.charCodeAt(0)))),
            this.#terminal.onResize(({ cols, rows }) => send(attachment.resize({ cols, rows }))),
          ],
    );
    if (input !== 'none') send(attachment.resize({ cols: this.#terminal.cols, rows: this.#terminal.rows }));
    try {
      for await (const { data } of attachment) {
        this.#hadInput = input !== 'none';
        await new Promise<void>((resolve) => this.#terminal.write(data, resolve));
      }
      return attachment.result;
    } finally {
      isOver = true;
      this.#position = Math.max(from, attachment.position);
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
