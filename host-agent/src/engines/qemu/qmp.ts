// A QMP client: JSON commands and events, one per line, over a Unix socket.
import type { Socket } from 'node:net';
import { AppError } from '../../lib/errors.ts';
import { loadScaledTimeout } from '../../lib/load-scaled-timeout.ts';
import { VmmRefusal } from '../control.ts';

export type QmpEvent = { readonly event: string; readonly data: Readonly<Record<string, unknown>> };

type Pending = {
  readonly command: string;
  readonly resolve: (value: unknown) => void;
  readonly reject: (cause: Error) => void;
};

/** The longest real answer has some KiB. */
const MAX_LINE_BYTES = 256 * 1024;
/** Maximum length of an error's text. */
const MAX_DESCRIPTION = 2000;

/** The VMM violated the protocol: it cannot be trusted any more. */
export class QmpViolation extends Error {
  override readonly name = 'QmpViolation';
}

/** The VMM refused a command. */
export class QmpError extends VmmRefusal {
  override readonly name = 'QmpError';
  readonly className: string;
  readonly description: string;

  constructor(command: string, className: string, description: string) {
    super(`${command}: ${description}`);
    this.className = className;
    this.description = description;
  }
}

export class QmpClient {
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  readonly #onEvent: (event: QmpEvent) => void;
  readonly #greeting = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<void>();
  #lastId = 0;
  #closed: Error | undefined;

  private constructor(socket: Socket, onEvent: (event: QmpEvent) => void) {
    this.#socket = socket;
    this.#onEvent = onEvent;
    new LineReader(socket, {
      maxBytes: MAX_LINE_BYTES,
      onLine: (line) => this.#receive(line),
      onTooLong: () =>
        this.#close(new QmpViolation(`the VMM sent more than ${MAX_LINE_BYTES} bytes without a line's end`)),
    });
    socket.on('error', (cause) => this.#close(new Error('the VMM closed its control socket', { cause })));
    socket.on('close', () => this.#close(new Error('the VMM closed its control socket')));
  }

  /** Performs the handshake on a connected socket; waits for the greeting until `signal` fires. */
  static async open(
    socket: Socket,
    onEvent: (event: QmpEvent) => void,
    signal: AbortSignal,
  ): Promise<QmpClient> {
    const client = new QmpClient(socket, onEvent);
    const onAbort = (): void => client.#close(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await client.#greeting.promise;
      if (client.#closed !== undefined) throw client.#closed;
      await client.execute('qmp_capabilities');
    } catch (error) {
      // QEMU serves one connection at a time: without the close, the next attempt would wait.
      client.close();
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
    return client;
  }

  /**
   * Runs a command. Rejects with QmpError, with AppError `internal` after `timeoutMs` (scaled with the load; the VMM
   * may still run the command), or when the socket closes.
   */
  execute(
    command: string,
    args: Readonly<Record<string, unknown>> = {},
    timeoutMs = 30_000,
  ): Promise<unknown> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const limit = loadScaledTimeout({
      timeoutMs,
      reason: (waitedMs) =>
        new AppError('internal', `the VMM did not answer ${command} within ${waitedMs} ms`),
    });
    limit.signal.addEventListener('abort', () => reject(limit.signal.reason));
    this.#pending.set(id, { command, resolve, reject });
    this.#socket.write(`${JSON.stringify({ execute: command, arguments: args, id })}\n`);
    return promise.finally(() => {
      limit[Symbol.dispose]();
      this.#pending.delete(id);
    });
  }

  /** Resolves when the connection is closed. */
  get closed(): Promise<void> {
    return this.#end.promise;
  }

  /** The protocol violation that closed the connection, if that is why. */
  get violation(): QmpViolation | undefined {
    return this.#closed instanceof QmpViolation ? this.#closed : undefined;
  }

  get isOpen(): boolean {
    return this.#closed === undefined;
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(line: string): void {
    let message: Readonly<Record<string, unknown>>;
    try {
      message = toObject(JSON.parse(line));
    } catch {
      return;
    }
    const { event, data, id, error } = message;
    if ('QMP' in message) {
      this.#greeting.resolve();
    } else if (typeof event === 'string') {
      this.#onEvent({ event, data: toObject(data) });
    } else if (typeof id === 'number') {
      const pending = this.#pending.get(id);
      if (error === undefined) pending?.resolve(message.return);
      else pending?.reject(toQmpError(pending.command, toObject(error)));
    }
  }

  #close(cause: Error): void {
    if (this.#closed !== undefined) return;
    this.#closed = cause;
    this.#socket.destroy();
    this.#greeting.resolve();
    this.#end.resolve();
    for (const pending of this.#pending.values()) pending.reject(cause);
  }
}

function toQmpError(command: string, { class: name, desc }: Readonly<Record<string, unknown>>): QmpError {
  const description = (toText(desc) ?? 'no description').slice(0, MAX_DESCRIPTION);
  return new QmpError(command, toText(name) ?? 'GenericError', description);
}

/** Returns an empty object for anything else: a VMM may send any value. */
export function toObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export function toText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

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

class LineReader {
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
