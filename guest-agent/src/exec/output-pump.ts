// The output of a command: from its pipe or terminal into one flow of the stream, read only when the host has room.
import { type Flow, MAX_DATA_BYTES, type SourceBytes, type Stream } from '@sandboxd/proto';
import { errorCode } from '../lib/error-code.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import { discardOutput } from './discard.ts';

/** Where a read gives so much, the link reads on by itself, if it can. Little goes out together with what the command's end sends. */
const BULK_BYTES = 32 * 1024;

/** One for all: the link has copied the bytes when the stream asks for the next. */
const scratch = Buffer.allocUnsafeSlow(MAX_DATA_BYTES);

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
  /** Bytes that will still be passed on. */
  #remaining = Number.POSITIVE_INFINITY;

  /** Takes the descriptor over. `onEnd` is called once, when the last byte has been passed on. */
  constructor({ poller, stream, flow, fd, isPipe, hasExited, onEnd }: OutputPumpOptions) {
    this.#poller = poller;
    this.#stream = stream;
    this.#flow = flow;
    this.#isPipe = isPipe;
    this.#fd = fd;
    this.#onEnd = onEnd;
    this.#hasExited = hasExited;
    stream.setSource(flow, (maxBytes, maxSourceBytes) => this.#take(maxBytes, maxSourceBytes));
    this.#watch = poller.watch(fd, POLL.in | POLL.edge, () => this.#stream?.ready(flow));
  }

  get hasEnded(): boolean {
    return this.#watch === undefined;
  }

  /** Looks whether there is an end to be seen. */
  look(): void {
    this.#stream?.ready(this.#flow);
  }

  /** Passes on what is there now and nothing that comes later. To be called once. */
  limit(): void {
    if (this.hasEnded) return;
    this.#remaining = addon.available(this.#fd);
    if (this.#remaining === 0) this.#end(true);
    else this.#stream?.ready(this.#flow);
  }

  /** Nobody listens any more; who writes is not disturbed. */
  detach(): void {
    this.#stream = undefined;
    if (!this.hasEnded) this.#end(true);
  }

  /** Closes the descriptor: who still writes gets SIGPIPE. */
  close(): void {
    this.#stream = undefined;
    if (!this.hasEnded) this.#end(false);
  }

  #take(maxBytes: number, maxSourceBytes: number): Uint8Array | SourceBytes | null {
    if (this.hasEnded) return null;
    if (this.#remaining <= 0) {
      this.#end(true);
      return null;
    }
    if (this.#isBulk && maxSourceBytes > 0) {
      const length = Math.min(maxSourceBytes, this.#remaining);
      return { descriptor: this.#fd, length, took: (result) => this.#took(result) };
    }
    const got = this.#read(Math.min(maxBytes, this.#remaining));
    this.#took(got);
    if (got === NOT_NOW || got === 0) return null;
    return got === MAX_DATA_BYTES ? scratch : scratch.subarray(0, got);
  }

  /** What reading gave: bytes, 0 at the end, NOT_NOW. */
  #took(result: number): void {
    if (result === NOT_NOW) return;
    if (result <= 0) {
      this.#end(false);
      return;
    }
    this.#remaining -= result;
    this.#isBulk = this.#isPipe && result >= BULK_BYTES;
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
