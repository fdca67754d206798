// Shares the link between everything that wants to send: control frames at once, byte flows in turn, 64 KiB each
// (one that is alone, and whose bytes the link reads for itself, more).
import { MAX_BACKLOG_BYTES, MAX_DATA_BYTES, MAX_SOURCE_BYTES } from '../limits.ts';
import type { Flow } from '../messages.ts';
import { dataFrame } from '../wire/data-frame.ts';
import type { ByteLink, SourceBytes } from './link.ts';
import type { Stream } from './stream.ts';

/** Bytes sent in one go before the event loop gets its turn, so that incoming credits and cancels are seen. */
const ROUND_BYTES = 1024 * 1024;
/** What a turn counts beside its bytes: small frames, and sources that give nothing, end a round too. */
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

  /** Whether so many control bytes wait for a link that takes none that no avoidable one may be added. */
  get isBacklogged(): boolean {
    return this.#backlogBytes > MAX_BACKLOG_BYTES;
  }

  /** Sends control frames, ahead of the flows, congested or not. */
  control(chunks: readonly Uint8Array[]): void {
    if (this.#isStopped) return;
    if (this.#held !== undefined) {
      this.#held.push(...chunks);
      return;
    }
    if (this.#isCongested) for (const chunk of chunks) this.#backlogBytes += chunk.length;
    this.#write(chunks);
  }

  /** Sends nothing until `release`: the peer then stands between two frames. */
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

  /** Gives a flow its place in the round. */
  enqueue(stream: Stream, flow: Flow): void {
    if (this.#isStopped) return;
    this.#turns.push({ stream, flow });
    if (!this.#isScheduled) this.#pump();
  }

  /** The link takes bytes again. */
  drained(): void {
    this.#drains += 1;
    this.#isCongested = false;
    this.#backlogBytes = 0;
    if (!this.#isScheduled) this.#pump();
  }

  /** Nothing will be sent any more. */
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

  /** Sends the data of one turn of a flow, if it has any; returns its payload's bytes. */
  #take(stream: Stream, flow: Flow): number {
    try {
      const isAlone = this.#turns.length === 0;
      const mostOfSource = this.#link.writeFrom ? (isAlone ? MAX_SOURCE_BYTES : MAX_DATA_BYTES) : 0;
      const bytes = stream.take(flow, MAX_DATA_BYTES, mostOfSource);
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
    if (!written.isRoomy) this.#isCongested = true;
    stream.sentFrom(flow, source, written.result);
    return Math.max(0, written.result);
  }

  #write(chunks: readonly Uint8Array[]): void {
    const drains = this.#drains;
    // A link may drain before its write has returned; that drain is the answer to this false.
    if (!this.#link.write(chunks) && drains === this.#drains) this.#isCongested = true;
  }
}
