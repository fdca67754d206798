// Exec over a WebSocket: the first message is the request, then binary messages carry the frame stream in both directions.
import type { Duplex } from 'node:stream';
import { type ApiErrorCode, checkBody, type ExecRequest, execRequest, FIRST_MESSAGE_MS } from '@sandboxd/api';
import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import type { Chunk } from '../../lib/byte-queue.ts';
import { isAppError, toError } from '../../lib/errors.ts';
import { BodyMemoryLimit } from '../input/body-memory-limit.ts';
import { parseJson } from '../input/json-body.ts';
import { checked } from '../input/request-input.ts';
import { encodeErrorFrame } from './exec-result.ts';
import type { ExecRun } from './exec-run.ts';

/** Close codes, and what they mean here. */
const CLOSE = {
  done: 1000,
  stopping: 1001,
  unexpectedText: 1003,
  badRequest: 1008,
  failed: 1011,
  tryLater: 1013,
} as const;

const STOPPING = 'the daemon stops';

/** Unsent bytes above which frames wait. */
const MAX_BUFFERED_BYTES = 256 * 1024;
/** The protocol's bound for a close reason. */
const MAX_REASON_BYTES = 123;

/** A request to run a command, and what it says that means nothing. */
export type AskedExec = { readonly request: ExecRequest; readonly warnings: readonly string[] };

export type WebSocketExec = {
  /** Starts the command; `onDrain` is called when input may go on. May throw. */
  readonly startRun: (asked: AskedExec, onDrain: () => void) => ExecRun;
  /** Unknown fields are refused. */
  readonly isStrict?: boolean;
  readonly log: Logger;
  /** What carries the WebSocket. */
  readonly connection: Duplex;
  /** Fires when the daemon stops. */
  readonly ending?: AbortSignal | undefined;
  readonly firstMessageMs?: number;
};

export function serveWebSocket(socket: WebSocket, options: WebSocketExec): void {
  let run: ExecRun | undefined;
  const timer = setTimeout(
    () => refuse(socket, CLOSE.badRequest, 'timeout', 'no exec request came; send it as the first message'),
    options.firstMessageMs ?? FIRST_MESSAGE_MS,
  );
  const begin = (data: RawData) => {
    clearTimeout(timer);
    const asked = readFirstMessage(socket, data, options.isStrict);
    if (asked === undefined) return;
    try {
      run = options.startRun(asked, () => socket.resume());
    } catch (error) {
      return fail(socket, error, options.log);
    }
    sendFrames(socket, run, options.ending).catch((error: unknown) => fail(socket, error, options.log));
  };
  socket.on('message', (data, isBinary) => {
    if (socket.readyState !== socket.OPEN) return;
    if (run === undefined) begin(data);
    else if (!isBinary) {
      const problem = 'only binary messages may follow the first one';
      refuse(socket, CLOSE.unexpectedText, 'invalid_argument', problem);
      run.cancel();
    } else if (!run.push(toBytes(data))) socket.pause();
  });
  // What came of a message that is not whole yet, which the library keeps. Counted before it sees it.
  const room = new BodyMemoryLimit();
  const settle = () => room[Symbol.dispose]();
  options.connection.prependListener('data', (bytes: Buffer) => {
    try {
      room.add(bytes.length);
    } catch (error) {
      close(socket, CLOSE.tryLater, toError(error).message);
      // Nor is the rest kept while the client is to answer that.
      socket.terminate();
    }
  });
  for (const whole of ['message', 'ping', 'pong', 'close']) socket.on(whole, settle);
  // The library tells of a Close frame only once the connection is closed, which is for the client to do.
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
}

function readFirstMessage(socket: WebSocket, data: RawData, strict = false): AskedExec | undefined {
  try {
    const { value, warnings } = checked(checkBody(execRequest, parseJson(toBytes(data)), strict));
    return { request: value, warnings };
  } catch (error) {
    refuse(socket, CLOSE.badRequest, 'invalid_argument', toError(error).message);
    return undefined;
  }
}

async function sendFrames(socket: WebSocket, run: ExecRun, ending: AbortSignal | undefined): Promise<void> {
  await run.opened;
  for (let chunk = await run.next(); chunk !== undefined; chunk = await run.next()) {
    const sent = send(socket, chunk);
    if (socket.bufferedAmount > MAX_BUFFERED_BYTES) await sent;
  }
  if (ending?.aborted) close(socket, CLOSE.stopping, STOPPING);
  else close(socket, CLOSE.done, '');
}

/** Resolves when the bytes left this process, or never will. */
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
  // A paused socket would never see the answer to the close.
  socket.resume();
  socket.close(code, text);
}

function toBytes(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
