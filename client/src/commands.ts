// Commands of a sandbox by id: detached ones, which do not depend on the program that started them.
import { HTTP_ERRORS, OPERATION_ERRORS } from '@sandboxd/api/errors';
import {
  EXEC_FRAME,
  ExecFrameDecoder,
  encodeExecFrame,
  MAX_EXEC_PAYLOAD_BYTES,
} from '@sandboxd/api/exec-frames';
import { readLines } from './connection/lines.ts';
import { Reconnect } from './connection/reconnect.ts';
import type { Requests } from './connection/requests.ts';
import type { Bytes, Duplex } from './connection/transport.ts';
import type { CallOptions, CommandInfo, ExecResult, TerminalSize } from './contract.ts';
import { ConnectionError, toApiError } from './errors.ts';
import { type Chunk, type ExecOptions, makeChunk, toChunk, toRequest } from './exec/exec.ts';
import type { Schemas } from './gen/schemas.ts';

/** Later daemons may add codes. */
const ERRORS: Readonly<Record<string, { readonly status: number } | undefined>> = {
  ...OPERATION_ERRORS,
  ...HTTP_ERRORS,
};

export type DetachOptions = Pick<ExecOptions, 'env' | 'cwd' | 'user' | 'timeoutS' | 'tty'> &
  CallOptions & {
    /** Keeps the input open for `write` and `attach`; with a terminal it always is. */
    readonly stdin?: boolean;
    /** Bytes of the newest output that the guest stores. */
    readonly outputBufferBytes?: number;
  };

/** A chunk of stored output. `seq` + 1 is the position after it. */
export type StoredChunk = Chunk & {
  readonly seq: number;
  /** Bytes that were dropped before this chunk, because the buffer was full. */
  readonly droppedBytes: number;
};

export type AttachOptions = Pick<CallOptions, 'signal'> & {
  /** Position of the first output; default: the oldest stored. */
  readonly from?: number;
  /** `take` replaces a client that writes, `none` only reads. Default: `write`. */
  readonly input?: 'write' | 'take' | 'none';
};

export class Commands {
  readonly #requests: Requests;
  readonly #id: string;

  constructor(requests: Requests, id: string) {
    this.#requests = requests;
    this.#id = id;
  }

  /** Starts a detached command; resolves when it has started. */
  async start(
    cmd: readonly string[],
    { stdin, outputBufferBytes, signal, timeoutMs, ...options }: DetachOptions = {},
  ): Promise<Command> {
    const body = {
      ...toRequest(cmd, options),
      detach: true,
      ...(stdin !== undefined && { stdin }),
      ...(outputBufferBytes !== undefined && { output_buffer_bytes: outputBufferBytes }),
    };
    const call = { params: { id: this.#id }, body, signal, timeoutMs };
    const { id } = (await this.#requests.call('exec', call)) as unknown as CommandInfo;
    return this.get(id);
  }

  /** Running commands, and those that have ended within the last hour; oldest first. */
  async list(options: CallOptions = {}): Promise<readonly CommandInfo[]> {
    return (await this.#requests.call('listCommands', { params: { id: this.#id }, ...options })).commands;
  }

  /** A command by its id, without a request. */
  get(id: string): Command {
    return new Command(this.#requests, this.#id, id);
  }
}

export class Command {
  readonly id: string;
  readonly #requests: Requests;
  readonly #params: { readonly id: string; readonly cid: string };

  constructor(requests: Requests, sandboxId: string, id: string) {
    this.id = id;
    this.#requests = requests;
    this.#params = { id: sandboxId, cid: id };
  }

  /** NotFoundError when it does not exist, or ended long ago. */
  info(options: CallOptions = {}): Promise<CommandInfo> {
    return this.#requests.call('getCommand', { params: this.#params, ...options });
  }

  /** Resolves with the result when it has ended, also over restarts of the daemon. */
  async wait({ signal }: Pick<CallOptions, 'signal'> = {}): Promise<ExecResult> {
    const reconnect = new Reconnect();
    for (;;) {
      let failure: unknown;
      try {
        const { result } = await this.#requests.call('waitCommand', { params: this.#params, signal });
        if (result !== undefined) return result;
        reconnect.answered();
      } catch (error) {
        failure = error;
        reconnect.answered();
      }
      await reconnect.wait(failure, signal);
    }
  }

  /**
   * The stored output from `from` on, and with `follow` (default) new output until the command ends, over restarts of
   * the daemon, without a gap and without duplicates.
   */
  async *output({
    from = 0,
    follow = true,
    signal,
  }: Pick<CallOptions, 'signal'> & {
    readonly from?: number;
    readonly follow?: boolean;
  } = {}): AsyncGenerator<StoredChunk, void> {
    const reconnect = new Reconnect();
    let next = from;
    let droppedBytes = 0;
    for (;;) {
      let failure: unknown;
      try {
        const query = { from: next, follow: follow ? 1 : undefined };
        const call = { params: this.#params, query, accept: 'application/x-ndjson', signal };
        const { body } = await this.#requests.stream('readCommandOutput', call);
        reconnect.answered();
        for await (const text of readLines(body)) {
          if (text === '') continue;
          const line = JSON.parse(text) as Schemas['CommandLine'];
          reconnect.progressed();
          if (line.state !== undefined) return;
          droppedBytes += line.dropped_bytes ?? 0;
          next = line.data === undefined ? line.seq : line.seq + 1;
          if (line.stream === undefined || line.data === undefined) continue;
          yield Object.assign(makeChunk(line.stream, toBytes(line)), { seq: line.seq, droppedBytes });
          droppedBytes = 0;
        }
      } catch (error) {
        failure = error;
      }
      await reconnect.wait(failure, signal);
    }
  }

  /** Writes to its input; resolves when the command has taken the bytes. `close`: no more input follows. */
  async write(
    data: string | Uint8Array,
    { close = false, ...options }: CallOptions & { readonly close?: boolean } = {},
  ): Promise<void> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    const query = close ? { close: 1 } : {};
    await this.#requests.call('writeCommandInput', { params: this.#params, query, bytes, ...options });
  }

  /** Sends a signal, such as `SIGINT`, to the process group. */
  async signal(signal: string, options: CallOptions = {}): Promise<void> {
    const body = { signal: signal as Schemas['SignalFrame']['signal'] };
    await this.#requests.call('signalCommand', { params: this.#params, body: body as never, ...options });
  }

  /** Resizes the terminal. The size that it has makes programs draw it again. */
  async resize({ cols, rows }: TerminalSize, options: CallOptions = {}): Promise<void> {
    await this.#requests.call('resizeCommand', { params: this.#params, body: { cols, rows }, ...options });
  }

  /** Ends it with all that it started: SIGTERM, and SIGKILL after `graceS` (default: 10). */
  async kill({ graceS, ...options }: CallOptions & { readonly graceS?: number } = {}): Promise<CommandInfo> {
    const query = { grace_s: graceS };
    return this.#requests.call('endCommand', { params: this.#params, query, isIdempotent: true, ...options });
  }

  /** A connection to its output and input. Its end does not end the command. */
  async attach({ from, input, signal }: AttachOptions = {}): Promise<Attachment> {
    const call = { params: this.#params, query: { stdin: 1, from, input }, signal };
    return new Attachment(await this.#requests.open('attachCommand', call));
  }
}

/** Output is read by one loop. Leaving the loop leaves the command, which continues. */
export class Attachment implements AsyncIterable<Chunk> {
  readonly #duplex: Duplex;
  readonly #chunks: AsyncGenerator<Chunk, void>;
  #position = 0;
  #result: ExecResult | undefined;

  constructor(duplex: Duplex) {
    this.#duplex = duplex;
    this.#chunks = this.#read(duplex.output);
  }

  /** For `from` of a later `attach` or `output`. */
  get position(): number {
    return this.#position;
  }

  /** Undefined until the command has ended. */
  get result(): ExecResult | undefined {
    return this.#result;
  }

  [Symbol.asyncIterator](): AsyncIterator<Chunk> {
    return this.#chunks;
  }

  async write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data;
    for (let at = 0; at < bytes.length; at += MAX_EXEC_PAYLOAD_BYTES)
      await this.#send(EXEC_FRAME.stdin, bytes.subarray(at, at + MAX_EXEC_PAYLOAD_BYTES));
  }

  closeStdin(): Promise<void> {
    return this.#send(EXEC_FRAME.stdinClose, new Uint8Array());
  }

  resize({ cols, rows }: TerminalSize): Promise<void> {
    return this.#send(EXEC_FRAME.resize, toJson({ cols, rows }));
  }

  signal(signal: string): Promise<void> {
    return this.#send(EXEC_FRAME.signal, toJson({ signal }));
  }

  /** Closes the connection. */
  leave(): void {
    this.#duplex.close();
  }

  async *#read(output: Bytes): AsyncGenerator<Chunk, void> {
    const decoder = new ExecFrameDecoder();
    /** Of a WebSocket, which is open before the guest refuses. */
    let refusal: Schemas['ErrorResponse'] | undefined;
    let hasBegun = false;
    try {
      for await (const bytes of output) {
        for (const { type, payload } of decoder.push(bytes)) {
          if (type === EXEC_FRAME.error && !hasBegun) refusal = fromJson(payload) as Schemas['ErrorResponse'];
          hasBegun = true;
          if (type === EXEC_FRAME.exit) this.#result = fromJson(payload) as ExecResult;
          if (type === EXEC_FRAME.position) this.#position = (fromJson(payload) as { seq: number }).seq;
          const chunk = toChunk(type, payload);
          if (chunk !== undefined) yield chunk;
        }
        if (this.#result !== undefined) return;
      }
      throw new ConnectionError('the connection ended, and the command continues');
    } catch (error) {
      if (refusal === undefined || !(error instanceof ConnectionError)) throw error;
      throw toApiError(ERRORS[refusal.code]?.status ?? 500, refusal.error, undefined, refusal.code);
    } finally {
      this.leave();
    }
  }

  async #send(type: number, payload: Uint8Array): Promise<void> {
    await this.#duplex.write(encodeExecFrame(type, payload));
  }
}

function toBytes({ data = '', base64 }: Schemas['CommandLine']): Uint8Array {
  return base64 ? Uint8Array.from(atob(data), (each) => each.charCodeAt(0)) : new TextEncoder().encode(data);
}

function toJson(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

function fromJson(payload: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(payload));
}
