// A QMP client: JSON commands and events, one per line, over a Unix socket.

import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { AppError } from '../../lib/errors.ts';
import { patientDeadline } from '../../lib/patience.ts';
import { VmmRefusal } from '../control.ts';

export type QmpEvent = { readonly event: string; readonly data: Readonly<Record<string, unknown>> };

type Pending = { readonly resolve: (value: unknown) => void; readonly reject: (cause: Error) => void };

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
  readonly #greeting: Promise<void>;
  /** Resolves when the connection is over. */
  readonly closed: Promise<void>;
  #onClosed: () => void = () => undefined;
  #lastId = 0;
  #closed: Error | undefined;
  #greeted: () => void = () => undefined;

  private constructor(socket: Socket, onEvent: (event: QmpEvent) => void) {
    this.#socket = socket;
    this.#onEvent = onEvent;
    this.#greeting = new Promise((resolve) => {
      this.#greeted = resolve;
    });
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
    const lines = createInterface({ input: socket, crlfDelay: Number.POSITIVE_INFINITY });
    lines.on('line', (line) => this.#receive(line));
    lines.on('error', () => undefined);
    socket.on('error', (cause) => this.#close(new Error('the VMM closed its control socket', { cause })));
    socket.on('close', () => this.#close(new Error('the VMM closed its control socket')));
  }

  /** Shakes hands on a connected socket; waits for the greeting as long as `signal` allows. */
  static async open(
    socket: Socket,
    onEvent: (event: QmpEvent) => void,
    signal: AbortSignal,
  ): Promise<QmpClient> {
    const client = new QmpClient(socket, onEvent);
    const onAbort = (): void => client.#close(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await client.#greeting;
      if (client.#closed !== undefined) throw client.#closed;
      await client.execute('qmp_capabilities');
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
    return client;
  }

  /**
   * Runs a command. Rejects with QmpError, with AppError `internal` after `timeoutMs` (longer on a busy host; the VMM does
   * it all the same when it comes to it), or when the socket closes.
   */
  execute(
    command: string,
    args: Readonly<Record<string, unknown>> = {},
    timeoutMs = 30_000,
  ): Promise<unknown> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const limit = patientDeadline({
        timeoutMs,
        reason: (waitedMs) =>
          new AppError('internal', `the VMM did not answer ${command} within ${waitedMs} ms`),
      });
      limit.signal.addEventListener('abort', () => {
        this.#pending.delete(id);
        reject(limit.signal.reason);
      });
      const settle = (): void => {
        limit[Symbol.dispose]();
        this.#pending.delete(id);
      };
      this.#pending.set(id, {
        resolve: (value) => {
          settle();
          resolve(value);
        },
        reject: (cause) => {
          settle();
          reject(
            cause instanceof QmpError ? new QmpError(command, cause.className, cause.description) : cause,
          );
        },
      });
      this.#socket.write(`${JSON.stringify({ execute: command, arguments: args, id })}\n`);
    });
  }

  get isOpen(): boolean {
    return this.#closed === undefined;
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(line: string): void {
    let message: Record<string, unknown>;
    try {
      message = JSON.parse(line);
    } catch {
      return;
    }
    if ('QMP' in message) {
      this.#greeted();
    } else if (typeof message.event === 'string') {
      this.#onEvent({ event: message.event, data: (message.data ?? {}) as Record<string, unknown> });
    } else if (typeof message.id === 'number') {
      const pending = this.#pending.get(message.id);
      const error = message.error as { class?: string; desc?: string } | undefined;
      if (error === undefined) pending?.resolve(message.return);
      else pending?.reject(new QmpError('', error.class ?? 'GenericError', error.desc ?? 'no description'));
    }
  }

  #close(cause: Error): void {
    if (this.#closed !== undefined) return;
    this.#closed = cause;
    this.#socket.destroy();
    this.#greeted();
    this.#onClosed();
    for (const pending of [...this.#pending.values()]) pending.reject(cause);
  }
}
