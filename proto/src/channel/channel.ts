// One connection after its handshake: dispatches frames to streams, and ends streams whose handlers fail.
import { AgentError, ProtocolViolation } from '../errors.ts';
import { MAX_DATA_BYTES, MAX_STREAMS } from '../limits.ts';
import type {
  FileInfo,
  Flow,
  Ping,
  Pong,
  Request,
  RequestInput,
  Result,
  ResultInput,
  Signal,
  Started,
  TtySize,
} from '../messages.ts';
import { type Frame, FrameCodec, type FrameInput } from '../messages.ts';
import { type CreditFrame, type DataFrame, readCreditFrame, readDataFrame } from '../wire/data-frame.ts';
import { encodeFrame } from '../wire/frame-encoder.ts';
import { PartJoiner } from '../wire/part-joiner.ts';
import type { ByteLink, DirectWrite } from './link.ts';
import { Pings } from './pings.ts';
import { RoundRobinScheduler } from './round-robin-scheduler.ts';
import { Stream, type StreamHandlers, type StreamLoss, type StreamOwner } from './stream.ts';

export type ChannelOptions = {
  readonly role: 'host' | 'guest';
  readonly link: ByteLink;
  /** Initial credit of each new stream: for this side, and for the peer. */
  readonly sendWindow: number;
  readonly receiveWindow: number;
  /** Host side: the guest's optional features. */
  readonly capabilities?: readonly string[];
  /** Guest side: a request arrived. The callback sets the stream's handlers before it returns. */
  readonly onRequest?: (stream: Stream, request: Request) => void;
  /** A handler or a source threw, or (guest side) a frame violated the protocol. Its stream was ended. */
  readonly onFault?: (cause: unknown) => void;
};

export class Channel implements StreamOwner {
  readonly role: 'host' | 'guest';
  readonly #options: ChannelOptions;
  readonly #streams = new Map<number, Stream>();
  readonly #parts = new PartJoiner();
  readonly #pings = new Pings();
  readonly #round: RoundRobinScheduler;
  #lastStreamId = 0;
  #closed: Error | undefined;

  constructor(options: ChannelOptions) {
    this.role = options.role;
    this.#options = options;
    this.#round = new RoundRobinScheduler(options.link, (stream, error) => this.#fail(stream, error));
  }

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  get isBacklogged(): boolean {
    return this.#round.isBacklogged;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  /** Host side: whether the guest announced this capability. */
  can(capability: string): boolean {
    return this.#options.capabilities?.includes(capability) === true;
  }

  /**
   * Host side: opens a stream with a request. Throws the cause when the channel is closed, RangeError when the request
   * is too long, AgentError `busy` when too many streams are open or the guest does not read its channel.
   */
  open(request: RequestInput, handlers: StreamHandlers): Stream {
    if (this.#closed !== undefined) throw this.#closed;
    this.#refuseBacklog();
    if (this.#streams.size >= MAX_STREAMS)
      throw new AgentError('busy', `more than ${MAX_STREAMS} calls at once`);
    const id = this.#lastStreamId + 1;
    if (id > 0xffff_fff0) throw new ProtocolViolation('stream numbers of this connection are used up');
    const frames = encodeFrame({ stream: id, request });
    this.#lastStreamId = id;
    const stream = this.#addStream(id);
    stream.handlers = handlers;
    this.#round.control(frames);
    return stream;
  }

  /** Host side: round trip on the connection. Resolves with the returned payload (at most 64 KiB). */
  async ping(payload: Uint8Array = new Uint8Array(0)): Promise<Uint8Array> {
    if (this.#closed !== undefined) throw this.#closed;
    this.#refuseBacklog();
    return this.#pings.send(payload, (bytes) => this.sendControl({ ping: { payload: bytes } }));
  }

  /**
   * Host side: pauses sending. Resolves once the guest has read everything sent so far, so that it is at a frame
   * boundary. Rejects when the channel closes first. `release` must follow in any case.
   */
  async hold(): Promise<void> {
    const answered = this.ping();
    this.#round.hold();
    await answered;
  }

  /** Ends `hold`: sends the queued frames. */
  release(): void {
    this.#round.release();
  }

  /** Handles one encoded frame. Throws ProtocolViolation or a decode error for an invalid frame of the peer. */
  receive(encoded: Buffer): void {
    const data = readDataFrame(encoded);
    if (data !== undefined && this.#receiveData(data)) return;
    const credit = readCreditFrame(encoded);
    if (credit !== undefined && this.#receiveCredit(credit)) return;
    // A copy, because handlers may retain the message's fields.
    this.#dispatch(FrameCodec.decode(Buffer.from(encoded)));
  }

  /** The link accepts bytes again. */
  drained(): void {
    this.#round.drained();
  }

  /** The link is closed. The streams stay until `abandon` gives the reason. */
  linkClosed(): void {
    this.#round.stop();
  }

  /** Ends every stream with `loss`. The owner closes the link. */
  abandon(loss: StreamLoss): void {
    if (this.#closed !== undefined) return;
    const closed = loss.kind === 'lost' ? loss.cause : new Error(`the connection was ${loss.kind}`);
    this.#closed = closed;
    this.#round.stop();
    const streams = [...this.#streams.values()];
    this.#streams.clear();
    for (const stream of streams) stream.close();
    this.#pings.fail(closed);
    for (const stream of streams) this.#reportLost(stream.handlers, loss);
  }

  /** Ends every stream as lost, and closes the link. */
  close(cause: Error): void {
    this.abandon({ kind: 'lost', cause });
    this.#options.link.destroy(cause);
  }

  /** For Stream: sends a control frame before queued data. */
  sendControl(frame: FrameInput): void {
    this.#round.control(encodeFrame(frame));
  }

  /** For Stream: queues a flow for sending. */
  enqueue(stream: Stream, flow: Flow): void {
    this.#round.enqueue(stream, flow);
  }

  /** For Stream: offers the link to write the stream's next data itself. */
  offerDirectWrite(stream: number, directWrite: DirectWrite): void {
    this.#options.link.offerDirectWrite?.(stream, directWrite);
  }

  /** For Stream. Throws RangeError for a result that is too long; the stream stays open then. */
  finish(stream: Stream, result: ResultInput): void {
    const frames = encodeFrame({ stream: stream.id, result });
    if (!this.#streams.delete(stream.id)) return;
    stream.close();
    this.#round.control(frames);
  }

  #addStream(id: number): Stream {
    const { sendWindow, receiveWindow } = this.#options;
    const stream = new Stream(this, id, sendWindow, receiveWindow);
    this.#streams.set(id, stream);
    return stream;
  }

  #refuseBacklog(): void {
    if (this.isBacklogged) throw new AgentError('busy', 'the guest agent takes no bytes from its channel');
  }

  #dispatch(frame: Frame): void {
    const { body } = frame;
    if (body === 'part') {
      const joined = this.#join(frame);
      if (joined !== undefined) this.#dispatch(joined);
      return;
    }
    if (frame.stream === 0) {
      this.#dispatchConnection(frame);
      return;
    }
    if (body === 'request' && this.role === 'guest') {
      this.#accept(frame);
      return;
    }
    const stream = this.#streams.get(frame.stream);
    if (stream === undefined) {
      // In the guest: the host sent this before it received the result.
      if (this.role === 'guest') return;
      throw new ProtocolViolation(`a frame of stream ${frame.stream}, which is not open`);
    }
    this.guard(stream, () => this.#dispatchStream(stream, frame));
  }

  #receiveData({ stream: id, flow, data }: DataFrame): boolean {
    const stream = this.#streams.get(id);
    if (stream !== undefined) this.guard(stream, () => this.#passData(stream, flow, data));
    return stream !== undefined;
  }

  #receiveCredit({ stream: id, credit }: CreditFrame): boolean {
    const stream = this.#streams.get(id);
    if (stream !== undefined) this.guard(stream, () => stream.receiveCredit(credit));
    return stream !== undefined;
  }

  #passData(stream: Stream, flow: number, data: Buffer): void {
    if (data.length > MAX_DATA_BYTES) throw new ProtocolViolation(`a data frame of ${data.length} bytes`);
    stream.receiveData(flow, data);
  }

  /** Also for Stream: runs `work`; an error ends the stream. */
  guard(stream: Stream, work: () => void): void {
    try {
      work();
    } catch (error) {
      // A guest that violates the protocol loses the connection. Any other error ends only the stream.
      if (this.role === 'host' && error instanceof ProtocolViolation) throw error;
      this.#fail(stream, error);
    }
  }

  #join(frame: Frame): Frame | undefined {
    const id = frame.stream;
    const isOpen = this.#streams.has(id);
    if (id === 0 || (this.role === 'host' && !isOpen)) {
      throw new ProtocolViolation(`a part of stream ${id}, which is not open`);
    }
    if (!isOpen && id <= this.#lastStreamId) return undefined;
    return this.#parts.join(frame);
  }

  #dispatchConnection(frame: Frame): void {
    const { body } = frame;
    if (body === 'ping' && this.role === 'guest') {
      this.sendControl({ pong: { payload: (frame.ping as Ping).payload } });
    } else if (body === 'pong' && this.role === 'host') {
      this.#pings.answered((frame.pong as Pong).payload as Buffer);
    } else {
      throw new ProtocolViolation(`a ${body ?? 'empty'} frame that does not belong on stream 0`);
    }
  }

  #accept(frame: Frame): void {
    if (frame.stream <= this.#lastStreamId)
      throw new ProtocolViolation(`stream ${frame.stream} opened twice`);
    this.#lastStreamId = frame.stream;
    const stream = this.#addStream(frame.stream);
    if (this.#streams.size > MAX_STREAMS) {
      stream.finish({ error: { code: 'busy', message: `more than ${MAX_STREAMS} calls at once` } });
      return;
    }
    try {
      this.#options.onRequest?.(stream, frame.request as Request);
    } catch (error) {
      this.#fail(stream, error);
    }
  }

  #dispatchStream(stream: Stream, frame: Frame): void {
    const { handlers } = stream;
    const { body } = frame;
    const isHost = this.role === 'host';
    if (body === 'data') {
      this.#passData(stream, frame.flow, frame.data as Buffer);
    } else if (body === 'end') {
      stream.receiveEnd(frame.flow);
    } else if (body === 'credit') {
      stream.receiveCredit(frame.credit as number);
    } else if (isHost && body === 'started') {
      const { pid, file } = frame.started as Started;
      stream.receiveStarted(pid, (file ?? undefined) as FileInfo | undefined);
    } else if (isHost && body === 'result') {
      this.#streams.delete(stream.id);
      this.#parts.drop(stream.id);
      stream.close();
      handlers.result?.(frame.result as Result);
    } else if (!isHost && body === 'cancel') {
      handlers.cancel?.();
    } else if (!isHost && body === 'signal') {
      handlers.signal?.((frame.signal as Signal).name);
    } else if (!isHost && body === 'resize') {
      const { cols, rows } = frame.resize as TtySize;
      handlers.resize?.({ cols, rows });
    } else {
      throw new ProtocolViolation(`an unexpected ${body ?? 'empty'} frame on stream ${stream.id}`);
    }
  }

  /**
   * Ends a stream whose handler or source threw. The guest sends the error to the host. The host cancels the guest's
   * call and discards further frames of the stream until its result.
   */
  #fail(stream: Stream, error: unknown): void {
    this.#options.onFault?.(error);
    if (stream.isOver) return;
    const cause = error instanceof Error ? error : new Error(String(error));
    const { handlers } = stream;
    stream.handlers = {};
    if (this.role === 'host') stream.cancel();
    else stream.finish({ error: { code: toCode(cause), message: cause.message.slice(0, 1024) } });
    this.#reportLost(handlers, { kind: 'lost', cause });
  }

  #reportLost(handlers: StreamHandlers, loss: StreamLoss): void {
    try {
      handlers.lost?.(loss);
    } catch (error) {
      this.#options.onFault?.(error);
    }
  }
}

function toCode(cause: Error): string {
  if (cause instanceof AgentError) return cause.code;
  return cause instanceof ProtocolViolation ? 'invalid' : 'internal';
}
