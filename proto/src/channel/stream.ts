// One stream of a channel, on either side: byte flows with credit in both directions, and control messages.

import { ProtocolViolation } from '../errors.ts';
import { FRAME_CREDIT_BYTES } from '../limits.ts';
import type { FileInfo, FileInfoInput, FrameInput, Result, ResultInput, TtySize } from '../messages.ts';
import { FLOW, type Flow } from '../messages.ts';
import { creditFor, payloadFor } from '../wire/data-frame.ts';
import type { DirectWrite, SourceBytes } from './link.ts';
import { ReceiveWindow } from './receive-window.ts';

/**
 * Returns 1 to `maxBytes` (at most 65,536) bytes of a flow, or null when no bytes are ready (then call `ready` later).
 * On links that read descriptors, `maxSourceBytes` is not 0, and the source may return a descriptor instead. It may
 * call `end` or `finish`. Returned bytes precede an end, but a finished stream does not send them.
 */
export type Source = (maxBytes: number, maxSourceBytes: number) => Uint8Array | SourceBytes | null;

/** Why a stream ended without a result. */
export type StreamLoss =
  /** The channel failed or was closed, or a handler of the stream failed. */
  | { readonly kind: 'lost'; readonly cause: Error }
  /** The same host reconnected: the client is gone (guest side only). */
  | { readonly kind: 'superseded' }
  /** This guest is now a copy with another host connection: commands continue, detached (guest side only). */
  | { readonly kind: 'detached' };

/**
 * A handler that throws ends only its own stream (see Channel). On the host side it may throw ProtocolViolation for an
 * invalid message of the guest, which closes the connection.
 */
export interface StreamHandlers {
  /** Processes `chunk`; `consumed` must be called afterwards. The chunk is borrowed: copy it to retain it. */
  data?(flow: Flow, chunk: Buffer): void;
  end?(flow: Flow): void;
  /** Host side. `file` describes the content of a pull. */
  started?(pid: number, file?: FileInfo): void;
  /** Host side; the stream has ended. */
  result?(result: Result): void;
  /** Guest side. */
  cancel?(): void;
  signal?(name: string): void;
  resize?(size: TtySize): void;
  /** The stream has ended without a result. */
  lost?(loss: StreamLoss): void;
}

/** The stream's interface to its channel. */
export interface StreamOwner {
  readonly role: 'host' | 'guest';
  /** Whether optional control frames must be dropped. */
  readonly isBacklogged: boolean;
  sendControl(frame: FrameInput): void;
  enqueue(stream: Stream, flow: Flow): void;
  /** Offers the link to write the stream's received data itself. */
  offerDirectWrite(stream: number, directWrite: DirectWrite): void;
  /** Runs `work`; an error ends the stream. */
  guard(stream: Stream, work: () => void): void;
  finish(stream: Stream, result: ResultInput): void;
}

type SendState = {
  readonly source: Source;
  isReady: boolean;
  isQueued: boolean;
  isAsked: boolean;
  hasEnded: boolean;
};

export class Stream {
  readonly id: number;
  handlers: StreamHandlers = {};
  readonly #owner: StreamOwner;
  readonly #sends = new Map<Flow, SendState>();
  readonly #endedSends = new Set<Flow>();
  readonly #openInflows: Set<Flow>;
  #sendWindow: number;
  #inflow: ReceiveWindow;
  #sendCredit: number;
  #hasStarted = false;
  #isCancelled = false;
  #isOver = false;

  constructor(owner: StreamOwner, id: number, sendWindow: number, receiveWindow: number) {
    this.#owner = owner;
    this.id = id;
    this.#sendWindow = sendWindow;
    this.#sendCredit = sendWindow;
    this.#inflow = new ReceiveWindow(receiveWindow);
    this.#openInflows = new Set(owner.role === 'host' ? [FLOW.out, FLOW.err] : [FLOW.in]);
  }

  /** Remaining send credit. */
  get sendCredit(): number {
    return this.#sendCredit;
  }

  /** Whether the stream has its result or was lost; later calls have no effect. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Lowers the credit of both directions. Before any byte of the stream; the other end does the same. */
  narrow(windowBytes: number): void {
    this.#sendWindow = Math.min(this.#sendWindow, windowBytes);
    this.#sendCredit = this.#sendWindow;
    this.#inflow = new ReceiveWindow(Math.min(this.#inflow.sizeBytes, windowBytes));
  }

  /** Sets the source of a flow's bytes. It is called when link and credit allow. */
  setSource(flow: Flow, source: Source): void {
    if (this.#isOver || this.#endedSends.has(flow)) return;
    this.#sends.set(flow, { source, isReady: false, isQueued: false, isAsked: false, hasEnded: false });
  }

  /** Announces that the source of `flow` may have bytes. The source may be called before this returns. */
  ready(flow: Flow): void {
    const send = this.#sends.get(flow);
    if (send === undefined || send.isReady) return;
    send.isReady = true;
    this.#queue(flow, send);
  }

  /** Ends `flow`: no byte follows. */
  end(flow: Flow): void {
    if (this.#isOver || this.#endedSends.has(flow)) return;
    const send = this.#sends.get(flow);
    if (send?.isAsked) {
      send.hasEnded = true;
      return;
    }
    this.#sends.delete(flow);
    this.#endedSends.add(flow);
    this.#owner.sendControl({ stream: this.id, flow, end: {} });
  }

  /** Returns credit for consumed payload bytes and their share of the frames' cost. */
  consumed(bytes: number): void {
    if (this.#isOver) return;
    const credit = this.#inflow.passedOn(bytes);
    if (credit > 0) this.#owner.sendControl({ stream: this.id, credit });
  }

  /** Guest side: lets the link write received bytes directly to the target, if it supports that. */
  offerDirectWrite({ target, wanted, took, failed }: DirectWrite): void {
    const unlessOver = (work: () => void): void => {
      if (!this.#isOver) this.#owner.guard(this, work);
    };
    this.#owner.offerDirectWrite(this.id, {
      target,
      wanted: () => (this.#isOver ? 0 : wanted()),
      took: (bytes, frames) =>
        unlessOver(() => {
          if (!this.#inflow.received(bytes, frames)) throw this.#overCredit(bytes);
          this.consumed(bytes);
          took(bytes, frames);
        }),
      failed: (errno) => unlessOver(() => failed(errno)),
    });
  }

  /** Host side: requests the end of the call's work. Its result still arrives if the guest answers. */
  cancel(): void {
    if (this.#isOver || this.#isCancelled) return;
    this.#isCancelled = true;
    this.#sends.clear();
    this.#owner.sendControl({ stream: this.id, cancel: {} });
  }

  /** Host side. Dropped while the guest does not read and the backlog is full. */
  signal(name: string): void {
    if (!this.#isOver && !this.#owner.isBacklogged) {
      this.#owner.sendControl({ stream: this.id, signal: { name } });
    }
  }

  /** Host side. Dropped under the same condition as signals. */
  resize(size: TtySize): void {
    if (!this.#isOver && !this.#owner.isBacklogged)
      this.#owner.sendControl({ stream: this.id, resize: size });
  }

  /** Guest side, at most once, for a command. */
  started(pid: number): void {
    this.#sendStarted({ pid });
  }

  /** Guest side, at most once, for a pull: describes the flow's content. */
  opened(file: FileInfoInput): void {
    this.#sendStarted({ file });
  }

  /** Guest side: ends the stream and drops unsent bytes. Throws RangeError when the result is too long. */
  finish(result: ResultInput): void {
    if (!this.#isOver) this.#owner.finish(this, result);
  }

  /** Called by the channel: no further frame of this stream may be sent. */
  close(): void {
    this.#isOver = true;
    this.#sends.clear();
  }

  /**
   * Called by the channel for this flow's turn: returns its next bytes, or null without bytes or credit. The flow has
   * left the queue; `sent` or `sentFrom` queues it again. Throws the source's errors.
   */
  take(flow: Flow, maxBytes: number, maxSourceBytes = 0): Uint8Array | SourceBytes | null {
    const send = this.#sends.get(flow);
    if (send === undefined) return null;
    send.isQueued = false;
    const payload = payloadFor(this.#sendCredit);
    const limit = Math.min(maxBytes, payload);
    if (limit <= 0) return null;
    send.isReady = false;
    send.isAsked = true;
    const sourceLimit = Math.min(maxSourceBytes, payload);
    let bytes: Uint8Array | SourceBytes | null;
    try {
      bytes = send.source(limit, sourceLimit);
    } finally {
      send.isAsked = false;
    }
    if (this.#sends.get(flow) !== send) return null;
    if (bytes === null || bytes.length === 0) {
      if (send.hasEnded) this.end(flow);
      return null;
    }
    const isSource = 'descriptor' in bytes;
    const maximum = isSource ? sourceLimit : limit;
    if (bytes.length > maximum)
      throw new RangeError(`a source gave ${bytes.length} bytes, asked for ${maximum}`);
    send.isReady = true;
    if (!isSource) this.#sendCredit -= creditFor(bytes.length);
    return bytes;
  }

  /** Called by the channel after it sent the bytes of `take`. */
  sent(flow: Flow): void {
    const send = this.#sends.get(flow);
    if (send?.hasEnded) this.end(flow);
    else if (send?.isReady) this.#queue(flow, send);
  }

  /** Called by the channel after the link sent bytes that it read itself. Throws the errors of `took`. */
  sentFrom(flow: Flow, { took }: SourceBytes, result: number): void {
    const send = this.#sends.get(flow);
    if (result > 0) this.#sendCredit -= creditFor(result);
    else if (send !== undefined) send.isReady = false;
    took(result);
    this.sent(flow);
  }

  /** Called by the channel. Throws ProtocolViolation for more credit than bytes were sent. */
  receiveCredit(credit: number): void {
    if (credit === 0 || this.#sendCredit + credit > this.#sendWindow) {
      throw new ProtocolViolation(
        `stream ${this.id} was given ${credit} bytes of credit, more than it had used`,
      );
    }
    this.#sendCredit += credit;
    for (const [flow, send] of this.#sends) if (send.isReady) this.#queue(flow, send);
  }

  /** Called by the channel. Throws ProtocolViolation for bytes without credit, or of a flow that is not open. */
  receiveData(flow: number, chunk: Buffer): void {
    const open = this.#openInflow(flow);
    if (!this.#inflow.received(chunk.length, 1) || chunk.length === 0) throw this.#overCredit(chunk.length);
    this.handlers.data?.(open, chunk);
  }

  /** Called by the channel. */
  receiveEnd(flow: number): void {
    const open = this.#openInflow(flow);
    this.#openInflows.delete(open);
    this.handlers.end?.(open);
  }

  /** Called by the channel. */
  receiveStarted(pid: number, file?: FileInfo): void {
    if (this.#hasStarted) throw new ProtocolViolation(`stream ${this.id} started twice`);
    this.#hasStarted = true;
    this.handlers.started?.(pid, file);
  }

  #sendStarted(started: NonNullable<FrameInput['started']>): void {
    if (this.#isOver || this.#hasStarted) return;
    this.#hasStarted = true;
    this.#owner.sendControl({ stream: this.id, started });
  }

  #queue(flow: Flow, send: SendState): void {
    if (send.isQueued || this.#sendCredit <= FRAME_CREDIT_BYTES) return;
    send.isQueued = true;
    this.#owner.enqueue(this, flow);
  }

  #overCredit(bytes: number): ProtocolViolation {
    return new ProtocolViolation(`stream ${this.id} was sent ${bytes} bytes over its credit`);
  }

  #openInflow(flow: number): Flow {
    for (const open of this.#openInflows) if (open === flow) return open;
    throw new ProtocolViolation(`stream ${this.id} was sent bytes of flow ${flow}, which is not open`);
  }
}
