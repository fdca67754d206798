// Shares the link between everything that wants to send: control frames at once, byte flows 64 KiB each in turn.
import { MAX_BACKLOG_BYTES, MAX_DATA_BYTES, MAX_PIPED_BYTES } from '../limits.ts';
import type { Flow } from '../messages.ts';
import { dataFrame, pipedFrames } from '../wire/data-frame.ts';
import type { ByteLink, PipedFrames } from './link.ts';
import type { Stream } from './stream.ts';

/** Bytes sent in one go before the event loop gets its turn, so that incoming credits and cancels are seen. */
const ROUND_BYTES = 512 * 1024;
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
  #backlogBytes = 0;

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
    if (this.#isCongested) for (const chunk of chunks) this.#backlogBytes += chunk.length;
    this.#write(chunks);
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
    while (!this.#isCongested && sentBytes < ROUND_BYTES) {
      const turn = this.#turns.shift();
      if (turn === undefined) break;
      sentBytes += TURN_BYTES + this.#take(turn.stream, turn.flow);
    }
    this.#isPumping = false;
    if (this.#isCongested || this.#turns.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#pump();
    });
  }

  /** Sends one data frame of a flow, if it has one; returns its payload's bytes. */
  #take(stream: Stream, flow: Flow): number {
    try {
      const bytes = stream.take(flow, MAX_DATA_BYTES, this.#maxPipedBytes());
      if (bytes === null) return 0;
      if ('pipe' in bytes) this.#writePiped(pipedFrames(stream.id, flow, bytes));
      else this.#write(dataFrame(stream.id, flow, bytes));
      stream.sent(flow);
      return bytes.length;
    } catch (error) {
      this.#onSourceError(stream, error);
      return 0;
    }
  }

  /** A flow that is alone may move more in its turn. */
  #maxPipedBytes(): number {
    if (this.#link.writePiped === undefined) return 0;
    return this.#turns.length === 0 ? MAX_PIPED_BYTES : MAX_DATA_BYTES;
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
