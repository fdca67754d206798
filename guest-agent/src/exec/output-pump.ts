// The output of a command: from its pipe or terminal into one flow of the stream, read only when the host has room.
import { type Flow, MAX_DATA_BYTES, type PipedBytes, type PipedRest, type Stream } from '@sandboxd/proto';
import { errorCode } from '../lib/error-code.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import { discardOutput } from './discard.ts';

/** A whole pipe in one read, when the stream takes that much. */
const READ_BYTES = 4 * MAX_DATA_BYTES;

/** From so many waiting bytes on they are moved in the kernel instead of being read. */
const BULK_BYTES = 32 * 1024;

/** One for all: the link has copied the bytes when the stream asks for the next. */
const scratch = Buffer.allocUnsafeSlow(READ_BYTES);

export type OutputPumpOptions = {
  readonly poller: Poller;
  readonly stream: Stream;
  readonly flow: Flow;
  readonly fd: number;
  /** Not a terminal. */
  readonly isPipe: boolean;
  /** Of a terminal: whether the command has exited, after which `look` must be called. */
  readonly hasExited: () => boolean;
  readonly onEnd: () => void;
};

export class OutputPump {
  readonly #poller: Poller;
  readonly #fd: number;
  readonly #onEnd: () => void;
  readonly #hasExited: () => boolean;
  #watch: Watch | undefined;
  #stream: Stream | undefined;
  #flow: Flow;
  readonly #isPipe: boolean;
  /** Whether the last read was so long that much more may wait. */
  #isBulk = false;
  #isEmptied = false;
  /** No event follows that of the last writer's end, however much was in the pipe then. */
  #isHungUp = false;
  /** Bytes that will still be passed on. */
  #remaining = Number.POSITIVE_INFINITY;
  /** The link took the events of the pipe meanwhile. */
  readonly #rest: PipedRest = {
    length: Number.MAX_SAFE_INTEGER,
    returned: (_movedBytes, hasHungUp) => {
      this.#isEmptied = false;
      this.#isHungUp ||= hasHungUp;
    },
  };

  /** Takes the descriptor over. `onEnd` is called once, when the last byte has been passed on. */
  constructor({ poller, stream, flow, fd, isPipe, hasExited, onEnd }: OutputPumpOptions) {
    this.#poller = poller;
    this.#stream = stream;
    this.#flow = flow;
    this.#isPipe = isPipe;
    this.#fd = fd;
    this.#onEnd = onEnd;
    this.#hasExited = hasExited;
    stream.setSource(flow, (maxBytes, maxPipedBytes) => this.#take(maxBytes, maxPipedBytes));
    this.#watch = poller.watch(fd, POLL.in | POLL.edge, (mask) => {
      this.#isEmptied = false;
      this.#isHungUp ||= (mask & POLL.hangUp) !== 0;
      // The link may have taken the flow over within this very batch of events, and is not told of this one.
      if (this.#isHungUp) this.#stream?.reclaim(flow);
      this.#stream?.ready(flow);
    });
  }

  get hasEnded(): boolean {
    return this.#watch === undefined;
  }

  /** Looks whether there is an end to be seen. */
  look(): void {
    this.#stream?.ready(this.#flow);
  }

  /** Passes on what is there now and nothing that comes later. */
  limit(): void {
    this.#stream?.reclaim(this.#flow);
    if (this.hasEnded || this.#remaining !== Number.POSITIVE_INFINITY) return;
    this.#remaining = addon.available(this.#fd);
    if (this.#remaining === 0) this.#end(true);
    else this.#stream?.ready(this.#flow);
  }

  /** Nobody listens any more; who writes is not disturbed. */
  detach(): void {
    this.#stream?.reclaim(this.#flow);
    this.#stream = undefined;
    if (!this.hasEnded) this.#end(true);
  }

  /** Closes the descriptor: who still writes gets SIGPIPE. */
  close(): void {
    this.#stream?.reclaim(this.#flow);
    this.#stream = undefined;
    if (!this.hasEnded) this.#end(false);
  }

  #take(maxBytes: number, maxPipedBytes: number): Uint8Array | PipedBytes | null {
    if (this.hasEnded) return null;
    if (this.#remaining <= 0) {
      this.#end(true);
      return null;
    }
    if (this.#isBulk && maxPipedBytes >= BULK_BYTES) {
      const moved = this.#takeBulk(maxPipedBytes);
      if (moved !== undefined) return moved;
    }
    const got = this.#read(Math.min(maxBytes, READ_BYTES, this.#remaining));
    if (got === NOT_NOW) return null;
    if (got === 0) {
      this.#end(false);
      return null;
    }
    this.#remaining -= got;
    this.#isBulk = this.#isPipe && got >= BULK_BYTES;
    return got === READ_BYTES ? scratch : scratch.subarray(0, got);
  }

  /** Undefined when there is too little for it. */
  #takeBulk(maxBytes: number): PipedBytes | null | undefined {
    // Whatever came since the pipe was emptied is, or will be, reported by an event of its own.
    const wasEmptied = this.#isEmptied;
    this.#isEmptied = false;
    if (wasEmptied && !this.#isHungUp) return null;
    const waiting = addon.available(this.#fd);
    const length = Math.min(waiting, maxBytes, this.#remaining);
    if (length < BULK_BYTES) return undefined;
    this.#remaining -= length;
    this.#isEmptied = length === waiting;
    const piped = { source: this.#fd, isPipe: true, length };
    // Whoever waits for the last writer's end must see it; a limit is counted here.
    if (this.#isHungUp || this.#remaining !== Number.POSITIVE_INFINITY) return piped;
    return { ...piped, rest: this.#rest };
  }

  #read(lengthBytes: number): number {
    try {
      return addon.read(this.#fd, scratch, 0, lengthBytes);
    } catch (error) {
      // A terminal's way of saying that every program has closed it. The command may do so before it exits, and may open
      // it again; closing our end meanwhile would end it with SIGHUP.
      if (errorCode(error) === 'EIO') return this.#hasExited() ? 0 : NOT_NOW;
      throw error;
    }
  }

  #end(isStillWritten: boolean): void {
    this.#watch?.close();
    this.#watch = undefined;
    if (isStillWritten) discardOutput(this.#poller, this.#fd);
    else addon.close(this.#fd);
    this.#stream?.end(this.#flow);
    this.#onEnd();
  }
}
