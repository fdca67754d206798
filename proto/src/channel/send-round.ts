// Shares the link between everything that wants to send: control frames at once, byte flows in turn, 64 KiB each
// (a flow that is alone, more).
import { MAX_BACKLOG_BYTES, MAX_DATA_BYTES, MAX_PIPED_BYTES } from '../limits.ts';
import type { Flow } from '../messages.ts';
import { dataFrames, pipedFrames } from '../wire/data-frame.ts';
import type { ByteLink, PipedBytes, PipedFrames } from './link.ts';
import type { Stream } from './stream.ts';

/** Bytes sent in one go before the event loop gets its turn, so that incoming credits and cancels are seen. */
const ROUND_BYTES = 1024 * 1024;
/**
 * Most bytes of one turn when nobody else waited in the two before, over a link that copies: several frames then cost
 * one call of the source and one of the link, which is what an emulated guest spends its time on.
 */
const LONG_TURN_BYTES = 4 * MAX_DATA_BYTES;
/** What a turn counts beside its bytes: small frames, and sources that give nothing, end a round too. */
const TURN_BYTES = 256;

export class SendRound {
  readonly #link: ByteLink;
  readonly #onSourceError: (stream: Stream, error: unknown) => void;
  #turns: { readonly stream: Stream; readonly flow: Flow }[] = [];
  #isCongested = false;
  #isPumping = false;
  #isScheduled = false;
  #isStopped = false;
  #drains = 0;
  /** Whose turn the last one was, if nobody waited behind it. */
  #lastAlone: Stream | undefined;
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
      const isAlone = this.#link.isCopying && this.#turns.length === 0;
      const isLong = isAlone && this.#lastAlone === stream;
      this.#lastAlone = isAlone ? stream : undefined;
      const longest = isLong ? LONG_TURN_BYTES : MAX_DATA_BYTES;
      const bytes = stream.take(
        flow,
        longest,
        this.#link.writePiped ? (isAlone ? MAX_PIPED_BYTES : MAX_DATA_BYTES) : 0,
      );
      if (bytes === null) return 0;
      if ('source' in bytes) this.#writePiped(pipedFrames(stream.id, flow, bytes));
      else this.#write(dataFrames(stream.id, flow, bytes));
      if (!('source' in bytes && isLong && this.#relay(stream, flow, bytes))) stream.sent(flow);
      return bytes.length;
    } catch (error) {
      this.#onSourceError(stream, error);
      return 0;
    }
  }

  /** A flow that stays alone needs no more turns: the link goes on by itself. */
  #relay(stream: Stream, flow: Flow, bytes: PipedBytes): boolean {
    const link = this.#link;
    if (link.relay === undefined || this.#isCongested || this.#turns.length > 0) return false;
    return stream.relay(flow, bytes, (relayed) => link.relay?.(relayed) === true);
  }

  #writePiped(frames: PipedFrames): void {
    const drains = this.#drains;
    if (this.#link.writePiped?.(frames) !== true && drains === this.#drains) this.#isCongested = true;
  }

  #write(chunks: readonly Uint8Array[]): void {
    const drains = this.#drains;
    // A link may drain before its write has returned; that drain is the answer to this false.
    if (!this.#link.write(chunks) && drains === this.#drains) this.#isCongested = true;
  }
}
