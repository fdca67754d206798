// A TCP connection to a port of a guest, through its agent: a Duplex with credit, an end of each direction, and resets.
import { Duplex } from 'node:stream';
import {
  type Channel,
  FLOW,
  MAX_PORT_CONNECTIONS,
  PORT_WINDOW_BYTES,
  PORTS,
  ProtocolViolation,
  type Result,
  type Stream,
  type StreamLoss,
} from '@sandboxd/proto';
import { AppError } from '../lib/errors.ts';
import { deadline } from '../lib/wait.ts';
import { badAnswer, refusalOf, toCallError, toLossError } from './agent-errors.ts';

/** A server whose queue of connections is full does not answer at all. */
const CONNECT_TIMEOUT_MS = 30_000;

export type PortOptions = { readonly signal?: AbortSignal | undefined };

type PortChannel = {
  readonly channel: Channel;
  readonly explainLoss?: () => Promise<string | undefined>;
};
type Options = PortOptions & PortChannel;

/**
 * As a `net.Socket` with `allowHalfOpen`: `end` and an 'end' event are the ends of the two directions, an error with
 * the code ECONNRESET is a reset by the server. `destroy` without an error closes the connection once the server has
 * what was written; with one, or when bytes still wait, it resets it. Chunks that are written must not change later.
 */
export interface PortConnection extends Duplex {
  readonly port: number;
  readonly bytesRead: number;
  readonly bytesWritten: number;
  /** Ends both directions at once; the server sees a reset. */
  reset(): void;
}

/** The connections of one guest. */
export class GuestPorts {
  readonly #channel: () => PortChannel;
  #open = 0;

  /** `channel` throws AppError guest_unreachable. */
  constructor(channel: () => PortChannel) {
    this.#channel = channel;
  }

  /** See `connectPort`; AppError exhausted when there are too many. */
  async connect(port: number, { signal }: PortOptions = {}): Promise<PortConnection> {
    if (this.#open >= MAX_PORT_CONNECTIONS) {
      const what = `the sandbox has ${MAX_PORT_CONNECTIONS} connections to its ports already`;
      throw new AppError('exhausted', `${what}; end some, or try again`);
    }
    this.#open += 1;
    const end = (): void => void this.#open--;
    try {
      const connection = await connectPort({ ...this.#channel(), signal }, port);
      if (connection.closed) end();
      else connection.once('close', end);
      return connection;
    } catch (error) {
      end();
      throw error;
    }
  }
}

/**
 * Resolves once the connection is established. AppError port_not_listening, exhausted (too many connections),
 * guest_unreachable, unsupported (an older agent); the signal's reason.
 */
export function connectPort(options: Options, port: number): Promise<PortConnection> {
  const { channel, signal } = options;
  signal?.throwIfAborted();
  if (!channel.can(PORTS)) {
    const what = 'the agent of this sandbox is too old to connect to its ports';
    throw new AppError('unsupported', `${what}; create another sandbox`);
  }
  const tooLate = (): AppError =>
    new AppError(
      'guest_unreachable',
      `port ${port} of the sandbox took no connection within ${CONNECT_TIMEOUT_MS / 1000} s`,
      { isTimeout: true },
    );
  const limit = deadline(CONNECT_TIMEOUT_MS, tooLate, signal);
  const { promise, resolve, reject } = Promise.withResolvers<PortConnection>();
  const connection = new ChannelPort(options, port, () => resolve(connection));
  const onError = (error: Error): void => reject(error);
  connection.once('error', onError);
  const onAbort = (): void => void connection.destroy(limit.signal.reason);
  limit.signal.addEventListener('abort', onAbort);
  return promise.finally(() => {
    limit[Symbol.dispose]();
    limit.signal.removeEventListener('abort', onAbort);
    connection.off('error', onError);
  });
}

class ChannelPort extends Duplex implements PortConnection {
  readonly port: number;
  bytesRead = 0;
  bytesWritten = 0;
  readonly #explainLoss: Options['explainLoss'];
  readonly #onConnect: () => void;
  readonly #stream: Stream;
  /** Bytes that the reader has not asked for; the stream's credit bounds them. */
  readonly #received: Buffer[] = [];
  #isWanted = false;
  #isConnected = false;
  #hasEnded = false;
  #hasSentEnd = false;
  /** Why the connection is over; known to the reader after the bytes that came before it. */
  #failure: Error | undefined;
  #writing: { rest: Uint8Array; readonly done: (error?: Error) => void } | undefined;

  constructor({ channel, explainLoss }: Options, port: number, onConnect: () => void) {
    // Without a buffer of its own each byte that was asked for is taken: a failure drops none of those before it.
    super({ allowHalfOpen: true, readableHighWaterMark: 0 });
    this.port = port;
    this.#explainLoss = explainLoss;
    this.#onConnect = onConnect;
    try {
      this.#stream = channel.open(
        { portConnect: { port, window: PORT_WINDOW_BYTES } },
        {
          started: () => {
            this.#isConnected = true;
            this.#onConnect();
          },
          data: (flow, chunk) => this.#onData(flow, chunk),
          end: (flow) => this.#onEnd(flow),
          result: (result) => this.#onResult(result),
          lost: (loss) => void this.#onLost(loss),
        },
      );
    } catch (error) {
      throw toCallError(error, 'port');
    }
    this.#stream.narrow(PORT_WINDOW_BYTES);
    this.#stream.setSource(FLOW.in, (maxBytes) => this.#take(maxBytes));
  }

  reset(): void {
    this.#cancel();
    this.destroy();
  }

  override _read(): void {
    this.#isWanted = true;
    this.#deliver();
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    if (this.#stream.isOver) {
      // After a reset the reader still gets what came before it.
      if (this.#received.length > 0) done();
      else done(this.#failure ?? resetError(this.port));
      return;
    }
    this.#writing = { rest: chunk, done };
    this.#stream.ready(FLOW.in);
  }

  override _final(done: () => void): void {
    this.#hasSentEnd = true;
    this.#stream.end(FLOW.in);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // A cancel after an end closes the connection, and resets one that has not ended.
    if (error === null && this.writableLength === 0) this.#stream.end(FLOW.in);
    this.#cancel();
    this.#received.length = 0;
    const { done: written } = this.#writing ?? {};
    this.#writing = undefined;
    written?.(error ?? new Error('the connection was closed'));
    done(error);
  }

  #cancel(): void {
    this.#stream.handlers = {};
    this.#stream.cancel();
  }

  #take(maxBytes: number): Uint8Array | null {
    const writing = this.#writing;
    if (writing === undefined) return null;
    const bytes = writing.rest.subarray(0, maxBytes);
    writing.rest = writing.rest.subarray(bytes.length);
    this.bytesWritten += bytes.length;
    if (writing.rest.length === 0) {
      this.#writing = undefined;
      // The frame of these bytes goes before an end.
      queueMicrotask(writing.done);
    }
    return bytes;
  }

  /** `chunk` is borrowed. */
  #onData(flow: number, chunk: Buffer): void {
    this.#check(flow);
    this.bytesRead += chunk.length;
    this.#received.push(Buffer.from(chunk));
    this.#deliver();
  }

  #onEnd(flow: number): void {
    this.#check(flow);
    this.#hasEnded = true;
    this.#deliver();
  }

  #check(flow: number): void {
    if (flow !== FLOW.out || !this.#isConnected)
      throw new ProtocolViolation(`bytes of flow ${flow} where a connection to a port has none`);
  }

  #onResult(result: Result): void {
    const refusal = refusalOf(result);
    if (refusal !== undefined) this.#fail(toCallError(refusal, 'port'));
    else if (!result.portConnect || !this.#isConnected) this.#fail(badAnswer('no connection to a port'));
    else if (result.portConnect.isReset || !this.#hasSentEnd) this.#fail(resetError(this.port));
    else this.#onEnd(FLOW.out);
  }

  async #onLost(loss: StreamLoss): Promise<void> {
    this.destroy(await toLossError(loss, `port ${this.port} was connected`, this.#explainLoss));
  }

  #fail(error: Error): void {
    this.#failure = error;
    if (!this.#isConnected) {
      this.destroy(error);
      return;
    }
    const { done } = this.#writing ?? {};
    this.#writing = undefined;
    done?.(this.#received.length > 0 ? undefined : error);
    this.#deliver();
  }

  #deliver(): void {
    while (this.#isWanted) {
      const chunk = this.#received.shift();
      if (chunk === undefined) break;
      this.#isWanted = this.push(chunk);
      this.#stream.consumed(chunk.length);
    }
    if (this.#received.length > 0) return;
    if (this.#failure === undefined) {
      if (this.#hasEnded) this.push(null);
    } else if (this.#isWanted || this.#hasEnded) this.destroy(this.#failure);
  }
}

function resetError(port: number): Error {
  return Object.assign(new Error(`the server at port ${port} of the sandbox reset the connection`), {
    code: 'ECONNRESET',
  });
}
