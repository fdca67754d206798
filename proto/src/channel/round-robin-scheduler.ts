// Shares the link between all senders: control frames first, then byte flows in round-robin order with 64 KiB per
// turn. A lone flow whose bytes the link reads itself gets more.
import { MAX_BACKLOG_BYTES, MAX_DATA_BYTES, MAX_SOURCE_BYTES } from '../limits.ts';
import type { Flow } from '../messages.ts';
import { dataFrame } from '../wire/data-frame.ts';
import type { ByteLink, SourceBytes } from './link.ts';
import type { Stream } from './stream.ts';

/** Bytes sent before control returns to the event loop, so that incoming credits and cancels are handled. */
const ROUND_BYTES = 1024 * 1024;
/** Added cost of each turn, so that small frames and empty sources end a round too. */
const TURN_BYTES = 256;

export class RoundRobinScheduler {
  readonly #link: ByteLink;
  readonly #onSourceError: (stream: Stream, error: unknown) => void;
  #turns: { readonly stream: Stream; readonly flow: Flow }[] = [];
  #isCongested = false;
  #isPumping = false;
  #isScheduled = false;
  #isStopped = false;
  #drains = 0;
  #backlogBytes = 0;
  #held: Uint8Array[] | undefined;

  constructor(link: ByteLink, onSourceError: (stream: Stream, error: unknown) => void) {
    this.#link = link;
    this.#onSourceError = onSourceError;
  }

  /**
   * Whether the queued control bytes of a blocked link are above the limit, so that optional frames must be refused.
   */
  get isBacklogged(): boolean {
    return this.#backlogBytes > MAX_BACKLOG_BYTES;
  }

  /** Sends control frames before queued data, even on a congested link. */
  control(chunks: readonly Uint8Array[]): void {
    if (this.#isStopped) return;
    if (this.#held !== undefined) {
      this.#held.push(...chunks);
      return;
    }
    if (this.#isCongested) for (const chunk of chunks) this.#backlogBytes += chunk.length;
    this.#write(chunks);
  }

  /** Pauses sending until `release`: the peer is then at a frame boundary. */
  hold(): void {
    this.#held ??= [];
  }

  release(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    if (held.length > 0) this.control(held);
    if (!this.#isScheduled) this.#pump();
  }

  /** Queues a flow for its turn. */
  enqueue(stream: Stream, flow: Flow): void {
    if (this.#isStopped) return;
    this.#turns.push({ stream, flow });
    if (!this.#isScheduled) this.#pump();
  }

  /** The link accepts bytes again. */
  drained(): void {
    this.#drains += 1;
    this.#isCongested = false;
    this.#backlogBytes = 0;
    if (!this.#isScheduled) this.#pump();
  }

  /** Stops sending for good. */
  stop(): void {
    this.#isStopped = true;
    this.#turns = [];
  }

  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    let sentBytes = 0;
    while (!this.#isCongested && this.#held === undefined && sentBytes < ROUND_BYTES) {
      const turn = this.#turns.shift();
      if (turn === undefined) break;
      sentBytes += TURN_BYTES + this.#take(turn.stream, turn.flow);
    }
    this.#isPumping = false;
    if (this.#isCongested || this.#held !== undefined || this.#turns.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  /** Sends the data of one turn of a flow, if any; returns the payload size. */
  #take(stream: Stream, flow: Flow): number {
    try {
      const isAlone = this.#turns.length === 0;
      const maxSourceBytes = this.#link.writeFrom ? (isAlone ? MAX_SOURCE_BYTES : MAX_DATA_BYTES) : 0;
      const bytes = stream.take(flow, MAX_DATA_BYTES, maxSourceBytes);
      if (bytes === null) return 0;
      if ('descriptor' in bytes) return this.#takeFrom(stream, flow, bytes);
      this.#write(dataFrame(stream.id, flow, bytes));
      stream.sent(flow);
      return bytes.length;
    } catch (error) {
      this.#onSourceError(stream, error);
      return 0;
    }
  }

  #takeFrom(stream: Stream, flow: Flow, source: SourceBytes): number {
    const { descriptor, length } = source;
    const written = this.#link.writeFrom?.({ stream: stream.id, flow, descriptor, length });
    if (written === undefined) return 0;
    if (!written.hasSpace) this.#isCongested = true;
    stream.sentFrom(flow, source, written.result);
    return Math.max(0, written.result);
  }

  #write(chunks: readonly Uint8Array[]): void {
    const drains = this.#drains;
    // A link may emit drain before its write returns. Then this false is already obsolete.
    if (!this.#link.write(chunks) && drains === this.#drains) this.#isCongested = true;
  }
}
