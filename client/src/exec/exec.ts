// A running command: output, input, result.
import {
  EXEC_FRAME,
  type ExecFrame,
  ExecFrameDecoder,
  encodeExecFrame,
  MAX_EXEC_PAYLOAD_BYTES,
} from '@sandboxd/api/exec-frames';
import type { Requests } from '../connection/requests.ts';
import type { Bytes, Duplex } from '../connection/transport.ts';
import type { ExecResult, TerminalSize } from '../contract.ts';
import { CommandError, ConnectionError } from '../errors.ts';

/** Input of the command: the whole input, or `true` for `write` and `closeStdin`. */
export type Stdin = string | Uint8Array | Bytes | true;

export type ExecOptions = {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** `name|uid[:group|gid]`; default: root. */
  readonly user?: string;
  /** After this many seconds, the command and its child processes are killed. */
  readonly timeoutS?: number;
  readonly stdin?: Stdin;
  /** Allocates a terminal of this size instead of pipes. */
  readonly tty?: TerminalSize;
  /** Called with the reason when a signal or a resize was refused. */
  readonly onRefused?: (problem: string) => void;
  /** Kills the command. */
  readonly signal?: AbortSignal;
  /** Maximum wait for the start of the command. */
  readonly timeoutMs?: number;
};

/** Length of the standard error in a CommandError. */
const MAX_STDERR_CHARS = 4096;
const EMPTY = new Uint8Array();

/**
 * The command starts at once. Its output is read by one loop, or by `text`, `output` or `result`. If the output is not
 * read, flow control blocks the command. Leaving the loop early kills the command, and so does the end of an `await
 * using` block.
 */
export class Exec implements AsyncIterable<Chunk>, AsyncDisposable {
  readonly cmd: readonly string[];
  readonly #abort = new AbortController();
  readonly #duplex: Promise<Duplex> | undefined;
  readonly #chunks: AsyncGenerator<Chunk, void>;
  readonly #onRefused: ((problem: string) => void) | undefined;
  #result: ExecResult | undefined;
  readonly #id: Promise<string | undefined>;
  #resolveId: (id: string | undefined) => void = () => {};

  constructor(requests: Requests, id: string, cmd: readonly string[], options: ExecOptions = {}) {
    this.cmd = cmd;
    this.#id = new Promise((resolve) => {
      this.#resolveId = resolve;
    });
    this.#onRefused = options.onRefused;
    const { signal, timeoutMs, stdin, tty } = options;
    const onAbort = (): void => this.#abort.abort(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    const call = {
      params: { id },
      body: toRequest(cmd, options),
      signal: this.#abort.signal,
      ...(timeoutMs !== undefined && { timeoutMs }),
    };
    const isInteractive = stdin !== undefined || tty !== undefined;
    if (isInteractive) this.#duplex = requests.open('exec', { ...call, query: { stdin: 1, command_id: 1 } });
    const opening =
      this.#duplex ??
      requests.stream('exec', call).then(({ body, header }) => ({
        output: body,
        requestId: header('x-request-id'),
        commandId: header('x-command-id'),
      }));
    // Reading the output reports the error.
    opening.then(
      ({ commandId }) => commandId !== undefined && this.#resolveId(commandId),
      () => this.#resolveId(undefined),
    );
    this.#chunks = this.#read(opening, () => signal?.removeEventListener('abort', onAbort));
    if (stdin !== undefined && stdin !== true) this.#feed(stdin).catch(() => {});
  }

  [Symbol.asyncIterator](): AsyncIterator<Chunk> {
    return this.#chunks;
  }

  /**
   * Id of the command, for `sandbox.commands`, once it has started; undefined if it did not, or if its guest lists no
   * commands. In a browser, a command with input must be read before.
   */
  get id(): Promise<string | undefined> {
    return this.#id;
  }

  /** Resolves with the result; discards unread output. ConnectionError when the connection broke. */
  async result(): Promise<ExecResult> {
    for await (const _ of this.#chunks);
    if (this.#result === undefined) throw new ConnectionError(`the end of ${this.cmd[0]} was not heard of`);
    return this.#result;
  }

  /** Resolves with the whole output and the result. */
  async output(): Promise<{ readonly stdout: string; readonly stderr: string; readonly result: ExecResult }> {
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    const texts = { stdout: '', stderr: '' };
    for await (const { stream, data } of this.#chunks)
      texts[stream] += decoders[stream].decode(data, { stream: true });
    return { ...texts, result: await this.result() };
  }

  /** Resolves with the standard output. CommandError unless the command exits with 0. */
  async text(): Promise<string> {
    const { stdout, stderr, result } = await this.output();
    if (result.exit_code !== 0) throw new CommandError(this.cmd, result, stderr.slice(-MAX_STDERR_CHARS));
    return stdout;
  }

  /**
   * Writes to standard input; resolves when more data is accepted (backpressure). Needs `stdin: true` or a terminal.
   */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += MAX_EXEC_PAYLOAD_BYTES)
      await this.#send(EXEC_FRAME.stdin, bytes.subarray(at, at + MAX_EXEC_PAYLOAD_BYTES));
  }

  /** Closes standard input. */
  closeStdin(): Promise<void> {
    return this.#send(EXEC_FRAME.stdinClose, EMPTY);
  }

  /** Resizes the terminal. */
  resize({ cols, rows }: TerminalSize): Promise<void> {
    return this.#send(EXEC_FRAME.resize, toBytes({ cols, rows }));
  }

  /** Sends a signal, such as `SIGINT`, to the process group. Needs `stdin` or a terminal. */
  signal(signal: string): Promise<void> {
    return this.#send(EXEC_FRAME.signal, toBytes({ signal }));
  }

  /** Closes the connection; the daemon kills the command and its child processes. */
  kill(): void {
    this.#abort.abort(new ConnectionError(`${this.cmd[0]} was left`));
    this.#duplex?.then(
      (duplex) => duplex.close(),
      () => {},
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#result === undefined) this.kill();
    await this.#chunks.return().catch(() => undefined);
  }

  async *#read(
    opening: Promise<Pick<Duplex, 'output' | 'requestId'>>,
    done: () => void,
  ): AsyncGenerator<Chunk, void> {
    const decoder = new ExecFrameDecoder();
    let opened: Awaited<typeof opening> | undefined;
    try {
      opened = await opening;
      for await (const bytes of opened.output) {
        for (const frame of decoder.push(bytes)) {
          const chunk = this.#handle(frame);
          if (chunk !== undefined) yield chunk;
        }
        if (this.#result !== undefined) return;
      }
      throw new ConnectionError('the daemon ended the connection');
    } catch (error) {
      if (this.#abort.signal.aborted) throw this.#abort.signal.reason;
      if (opened === undefined || !(error instanceof ConnectionError)) throw error;
      const message = `${error.message}; ${this.cmd[0]} was running, and is ended with it`;
      throw new ConnectionError(message, { cause: error, requestId: opened.requestId });
    } finally {
      this.#resolveId(undefined);
      done();
      this.#duplex?.then(
        (duplex) => duplex.close(),
        () => {},
      );
      if (this.#result === undefined) this.kill();
    }
  }

  #handle({ type, payload }: ExecFrame): Chunk | undefined {
    if (type === EXEC_FRAME.started) this.#resolveId((fromBytes(payload) as { id: string }).id);
    if (type === EXEC_FRAME.exit) this.#result = fromBytes(payload) as ExecResult;
    if (type === EXEC_FRAME.error) this.#onRefused?.((fromBytes(payload) as { error: string }).error);
    return toChunk(type, payload);
  }

  async #send(type: number, payload: Uint8Array): Promise<void> {
    if (this.#duplex === undefined) throw new TypeError(`${this.cmd[0]} was started without stdin: true`);
    await (await this.#duplex).write(encodeExecFrame(type, payload));
  }

  async #feed(stdin: Exclude<Stdin, true>): Promise<void> {
    if (typeof stdin === 'string' || stdin instanceof Uint8Array) await this.write(stdin);
    else for await (const bytes of stdin) await this.write(bytes);
    await this.closeStdin();
  }
}

export function toRequest(
  cmd: readonly string[],
  { env, cwd, user, timeoutS, tty }: Pick<ExecOptions, 'env' | 'cwd' | 'user' | 'timeoutS' | 'tty'>,
) {
  return {
    cmd,
    ...(env !== undefined && { env }),
    ...(cwd !== undefined && { cwd }),
    ...(user !== undefined && { user }),
    ...(timeoutS !== undefined && { timeout_s: timeoutS }),
    ...(tty !== undefined && { tty }),
  };
}

function fromBytes(payload: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(payload));
}

function toBytes(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

// A chunk of output.
export type Chunk = {
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
  /** The data as text; a character that is split over two chunks is damaged in both. */
  readonly text: string;
};

const decoder = new TextDecoder();

/** Undefined for frames without output, and for empty output, which the daemon sends as keepalive. */
export function toChunk(type: number, payload: Uint8Array): Chunk | undefined {
  if (payload.length === 0 || (type !== EXEC_FRAME.stdout && type !== EXEC_FRAME.stderr)) return undefined;
  // Copied, because the decoder may reuse the buffer of a payload.
  return makeChunk(type === EXEC_FRAME.stdout ? 'stdout' : 'stderr', payload.slice());
}

export function makeChunk(stream: Chunk['stream'], data: Uint8Array): Chunk {
  return {
    stream,
    data,
    get text() {
      return decoder.decode(data);
    },
  };
}
