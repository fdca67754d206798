// Interactive exec as clients use it: over a hijacked HTTP connection, and over a WebSocket.
import { connect, type Socket } from 'node:net';
import { EXEC_FRAME, type ExecFrame, ExecFrameDecoder, encodeExecFrame } from '@sandboxd/api';
import { WebSocket } from 'ws';
import { checkBody } from './answers.ts';
import type { ExecResultJson } from './api.ts';
import { scaled } from './time-scale.ts';

export const REPLY = 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n';
const EMPTY = Buffer.alloc(0);

/** The client's side of a running interactive command, for each transport. */
export abstract class InteractiveExec {
  readonly #decoder = new ExecFrameDecoder();
  readonly #waiting = new Set<() => void>();
  /** Output so far, stdout and stderr separately; not stored when `isCounting`. */
  stdout: Buffer = EMPTY;
  stderr: Buffer = EMPTY;
  outputBytes = 0;
  isCounting = false;
  result: ExecResultJson | undefined;
  isEnded = false;
  /** The next record, as the last position frame of an attached command has it. */
  position = 0;
  hasPosition = false;

  /** Resolves when `bytes` were passed to the operating system, with its backpressure. */
  abstract send(bytes: Uint8Array): Promise<void>;
  abstract pause(): void;
  abstract resume(): void;
  /** Disconnects without a close handshake. */
  abstract destroy(): void;

  frame(type: number, payload: string | Uint8Array = ''): Promise<void> {
    return this.send(encodeExecFrame(type, Buffer.from(payload)));
  }

  stdin(text: string | Uint8Array): Promise<void> {
    return this.frame(EXEC_FRAME.stdin, text);
  }

  closeStdin(): Promise<void> {
    return this.frame(EXEC_FRAME.stdinClose);
  }

  signal(signal: string): Promise<void> {
    return this.frame(EXEC_FRAME.signal, JSON.stringify({ signal }));
  }

  resize(cols: number, rows: number): Promise<void> {
    return this.frame(EXEC_FRAME.resize, JSON.stringify({ cols, rows }));
  }

  get text(): string {
    return this.stdout.toString();
  }

  /** Resolves once `condition` holds; rejects when the connection closes before, or after a minute. */
  async until(condition: () => boolean, what: string): Promise<void> {
    const limit = setTimeout(() => this.destroy(), scaled(120_000));
    while (!condition()) {
      if (this.isEnded) throw new Error(`the exec ended before ${what}: ${this.text.slice(-500)}`);
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
    clearTimeout(limit);
  }

  /** The result, after the peer has closed. */
  async ended(): Promise<ExecResultJson> {
    await this.until(() => this.isEnded, 'its end');
    if (this.result === undefined) throw new Error(`no exit frame; output: ${this.text.slice(-500)}`);
    return this.result;
  }

  protected receive(bytes: Uint8Array): void {
    for (const frame of this.#decoder.push(bytes)) this.#take(frame);
    this.wake();
  }

  protected wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  #moveTo(seq: number): void {
    this.position = seq;
    this.hasPosition = true;
  }

  #take({ type, payload }: ExecFrame): void {
    if (this.result !== undefined) throw new Error('a frame behind the exit frame');
    if (type === EXEC_FRAME.exit) this.result = JSON.parse(payload.toString()) as ExecResultJson;
    else if (type === EXEC_FRAME.position)
      this.#moveTo((JSON.parse(payload.toString()) as { seq: number }).seq);
    else {
      this.outputBytes += payload.length;
      if (this.isCounting) return;
      if (type === EXEC_FRAME.stdout) this.stdout = Buffer.concat([this.stdout, payload]);
      else this.stderr = Buffer.concat([this.stderr, payload]);
    }
  }
}

export type ExecFields = { readonly cmd: readonly string[] } & Readonly<Record<string, unknown>>;

/** POST …?stdin=1. `behind` is sent in the same packet, directly after the request. */
export class RawExec extends InteractiveExec {
  readonly socket: Socket;
  /** Bytes before the frames; for an error, the whole response. */
  head = '';

  constructor(
    url: string,
    id: string,
    fields: ExecFields | Readonly<Record<string, never>>,
    behind: Uint8Array = EMPTY,
    target = `/sandboxes/${id}/exec?stdin=1`,
  ) {
    super();
    const { hostname, port, host } = new URL(url);
    this.socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.socket.on('data', (bytes: Buffer) => this.#onData(bytes));
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.#checkRefusal(target.replace(/\?.*/, ''));
      this.isEnded = true;
      this.wake();
    });
    const body = JSON.stringify(fields);
    const head = `POST ${target} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
    this.socket.write(Buffer.concat([Buffer.from(head + body), behind]));
  }

  async send(bytes: Uint8Array): Promise<void> {
    if (this.socket.write(bytes) || this.socket.destroyed) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.socket.off('drain', done).off('close', done);
        resolve();
      };
      this.socket.on('drain', done).on('close', done);
    });
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  destroy(): void {
    this.socket.resetAndDestroy();
  }

  /** Validates an error response once it is complete. */
  #checkRefusal(path: string): void {
    const [, code, fields = '', text = ''] =
      /^HTTP\/1.1 ([345]\d\d)(.*?)\r\n\r\n(.*)$/s.exec(this.head) ?? [];
    if (Number(/^content-length: *(\d+)/im.exec(fields)?.[1]) !== text.length) return;
    const type = /^content-type: *(\S+)/im.exec(fields)?.[1] ?? '';
    checkBody({
      method: 'POST',
      path,
      status: Number(code),
      type,
      text: Buffer.from(text, 'latin1').toString(),
    });
  }

  #onData(bytes: Buffer): void {
    if (this.head.length >= REPLY.length) {
      if (this.head === REPLY) this.receive(bytes);
      else this.head += bytes.toString('latin1');
      return;
    }
    const missing = REPLY.length - this.head.length;
    this.head += bytes.subarray(0, missing).toString('latin1');
    if (bytes.length > missing) this.#onData(bytes.subarray(missing));
    else this.wake();
  }
}

/** GET …/exec as a WebSocket. */
export class WebSocketExec extends InteractiveExec {
  readonly socket: WebSocket;
  closeCode: number | undefined;
  closeReason = '';

  /** Without `fields` there is no first message. */
  constructor(url: string, id: string, fields?: ExecFields, target = `/sandboxes/${id}/exec`) {
    super();
    this.socket = new WebSocket(`${url.replace('http', 'ws')}${target}`, {
      perMessageDeflate: false,
    });
    if (fields !== undefined) this.socket.on('open', () => this.socket.send(JSON.stringify(fields)));
    this.socket.on('message', (data: Buffer) => this.receive(data));
    this.socket.on('error', () => {});
    this.socket.on('close', (code, reason) => {
      this.closeCode = code;
      this.closeReason = reason.toString();
      this.isEnded = true;
      this.wake();
    });
  }

  async send(bytes: Uint8Array): Promise<void> {
    if (this.socket.readyState === WebSocket.CONNECTING)
      await new Promise((resolve) => this.socket.once('open', resolve));
    await new Promise<void>((resolve) => this.socket.send(bytes, { binary: true }, () => resolve()));
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  destroy(): void {
    this.socket.terminate();
  }
}

/** Attaches to a detached command; rejects if the daemon refuses. */
export async function attachTo(
  transport: 'hijack' | 'websocket',
  url: string,
  path: string,
  query = '',
): Promise<InteractiveExec> {
  if (transport === 'websocket') {
    const client = new WebSocketExec(url, '', undefined, `${path}?${query}`);
    await client.send(EMPTY);
    // A position frame comes first.
    await client.until(() => client.hasPosition || client.isEnded, 'it is attached').catch(() => undefined);
    if (client.closeCode === 1011) throw new Error(client.closeReason);
    return client;
  }
  const client = new RawExec(url, '', {}, EMPTY, `${path}?stdin=1&${query}`);
  await client.until(() => client.head.length >= REPLY.length, 'its answer');
  if (client.head !== REPLY) throw new Error(client.head);
  return client;
}
