// Exec over a WebSocket: the first message is the request, then binary messages carry frames in both directions.
import type { Duplex } from 'node:stream';
import { type ApiErrorCode, checkBody, type ExecRequest, execRequest, FIRST_MESSAGE_MS } from '@sandboxd/api';
import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import type { Chunk } from '../../lib/byte-queue.ts';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { BodyMemoryLimit, parseJson } from '../input/json-body.ts';
import { checked } from '../input/request-input.ts';
import { type ExecRun, encodeErrorFrame, encodeStartedFrame } from './exec-run.ts';

/** Close codes of RFC 6455 by cause. */
const CLOSE = {
  done: 1000,
  stopping: 1001,
  unexpectedText: 1003,
  badRequest: 1008,
  failed: 1011,
  tryLater: 1013,
} as const;

const STOPPING = 'the daemon stops';

/** Backpressure: sending waits above this many unsent bytes. */
const MAX_BUFFERED_BYTES = 256 * 1024;
/** Maximum length of a close reason (RFC 6455). */
const MAX_REASON_BYTES = 123;

/** An exec request, and warnings about its unknown fields. */
export type RequestedExec = { readonly request: ExecRequest; readonly warnings: readonly string[] };

export type WebSocketExec = (FirstMessage | { readonly attach: (onDrain: () => void) => ExecRun }) & {
  /** Refuses unknown fields. */
  readonly isStrict?: boolean;
  readonly log: Logger;
  /** The connection under the WebSocket. */
  readonly connection: Duplex;
  /** Aborts when the daemon stops. */
  readonly ending?: AbortSignal | undefined;
  readonly firstMessageMs?: number;
};

/** The first message is the request; `attach` starts the run without one. */
type FirstMessage = {
  /** Starts the command. `onDrain` is called when the command accepts input again. May throw. */
  readonly startRun: (requested: RequestedExec, onDrain: () => void) => ExecRun;
};

export function serveWebSocket(socket: WebSocket, options: WebSocketExec): void {
  let run: ExecRun | undefined;
  const timer = setTimeout(
    () => refuse(socket, CLOSE.badRequest, 'timeout', 'no exec request came; send it as the first message'),
    options.firstMessageMs ?? FIRST_MESSAGE_MS,
  );
  const begin = (start: (onDrain: () => void) => ExecRun) => {
    clearTimeout(timer);
    try {
      run = start(() => socket.resume());
    } catch (error) {
      return fail(socket, error, options.log);
    }
    sendFrames(socket, run, options.ending).catch((error: unknown) => fail(socket, error, options.log));
  };
  socket.on('message', (data, isBinary) => {
    if (socket.readyState !== socket.OPEN) return;
    if (run === undefined && 'startRun' in options) {
      const requested = readFirstMessage(socket, data, options.isStrict);
      if (requested !== undefined) begin((onDrain) => options.startRun(requested, onDrain));
      else clearTimeout(timer);
    } else if (!isBinary || run === undefined) {
      const problem = 'only binary messages may follow the first one';
      refuse(socket, CLOSE.unexpectedText, 'invalid_argument', problem);
      run?.cancel();
    } else if (!run.push(toBytes(data))) socket.pause();
  });
  // Memory of an incomplete message, which the library buffers. Counted before the library receives the bytes.
  const memory = new BodyMemoryLimit();
  const release = () => memory[Symbol.dispose]();
  options.connection.prependListener('data', (bytes: Buffer) => {
    try {
      memory.add(bytes.length);
    } catch (error) {
      close(socket, CLOSE.tryLater, toError(error).message);
      // Terminates at once: otherwise the library would buffer more until the client answers the close.
      socket.terminate();
    }
  });
  for (const event of ['message', 'ping', 'pong', 'close']) socket.on(event, release);
  // The library reports a Close frame only after the client has closed the connection, so check the state here.
  options.connection.on('data', () => {
    if (socket.readyState !== socket.OPEN) run?.cancel();
  });
  const onEnding = (): void => {
    if (run === undefined) refuse(socket, CLOSE.stopping, 'cancelled', STOPPING);
  };
  options.ending?.addEventListener('abort', onEnding);
  socket.on('error', (error) => options.log.debug({ err: error }, 'websocket failed'));
  socket.on('close', () => {
    clearTimeout(timer);
    options.ending?.removeEventListener('abort', onEnding);
    run?.cancel();
  });
  if ('attach' in options) begin(options.attach);
}

function readFirstMessage(socket: WebSocket, data: RawData, strict = false): RequestedExec | undefined {
  try {
    const { value, warnings } = checked(checkBody(execRequest, parseJson(toBytes(data)), strict));
    if (value.detach)
      throw new AppError('invalid_argument', 'detach is for POST; a WebSocket is attached to its command');
    return { request: value, warnings };
  } catch (error) {
    refuse(socket, CLOSE.badRequest, 'invalid_argument', toError(error).message);
    return undefined;
  }
}

async function sendFrames(socket: WebSocket, run: ExecRun, ending: AbortSignal | undefined): Promise<void> {
  await run.opened;
  if (run.id !== undefined) socket.send(encodeStartedFrame(run.id), { binary: true });
  for (let chunk = await run.next(); chunk !== undefined; chunk = await run.next()) {
    const sent = send(socket, chunk);
    if (socket.bufferedAmount > MAX_BUFFERED_BYTES) await sent;
  }
  if (ending?.aborted) close(socket, CLOSE.stopping, STOPPING);
  else close(socket, CLOSE.done, '');
}

/** Resolves when the bytes were handed to the kernel or the connection failed. */
function send(socket: WebSocket, { bytes, release }: Chunk): Promise<void> {
  return new Promise((resolve) => {
    socket.send(bytes, { binary: true }, () => {
      release();
      resolve();
    });
  });
}

function fail(socket: WebSocket, error: unknown, log: Logger): void {
  if (!isAppError(error)) log.error({ err: error }, 'exec failed');
  if (isAppError(error)) refuse(socket, CLOSE.failed, error.code, error.message);
  else refuse(socket, CLOSE.failed, 'internal', 'internal error');
}

/** A reason is short and has no code: a frame before it has both. */
function refuse(socket: WebSocket, closeCode: number, code: ApiErrorCode, error: string): void {
  if (socket.readyState === socket.OPEN) socket.send(encodeErrorFrame({ error, code }), { binary: true });
  close(socket, closeCode, error);
}

function close(socket: WebSocket, code: number, reason: string): void {
  let text = reason;
  while (Buffer.byteLength(text) > MAX_REASON_BYTES) text = text.slice(0, -1);
  // A paused socket would not receive the answer to the close.
  socket.resume();
  socket.close(code, text);
}

function toBytes(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
