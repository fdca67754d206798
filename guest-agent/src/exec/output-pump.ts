// The output of a command: from its pipe or terminal into one flow of the stream, read only when the host grants
// credit.
import { type Flow, MAX_DATA_BYTES, type SourceBytes } from '@sandboxd/proto';
import { errorCode } from '../lib/error-code.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import type { ExecStream } from './exec-stream.ts';

/**
 * After a read of this size, the link reads the descriptor itself where it can. Smaller output is sent together with
 * the frames of the command's exit.
 */
const BULK_BYTES = 32 * 1024;

/** Shared by all pumps: the link has copied the bytes before a stream asks for more. */
const scratch = Buffer.allocUnsafeSlow(MAX_DATA_BYTES);

export type OutputPumpOptions = {
  readonly poller: Poller;
  readonly stream: Pick<ExecStream, 'setSource' | 'ready' | 'end'>;
  readonly flow: Flow;
  readonly fd: number;
  /** False for a terminal. */
  readonly isPipe: boolean;
  /** For a terminal: whether the command has exited. `checkEnd` must be called after that. */
  readonly hasExited: () => boolean;
  readonly onEnd: () => void;
};

export class OutputPump {
  readonly #poller: Poller;
  readonly #fd: number;
  readonly #onEnd: () => void;
  readonly #hasExited: () => boolean;
  #watch: Watch | undefined;
  #stream: OutputPumpOptions['stream'] | undefined;
  #flow: Flow;
  readonly #isPipe: boolean;
  /** Whether the last read was large, so that more bytes are probably ready. */
  #isBulk = false;
  /** Bytes that will still be forwarded. */
  #remaining = Number.POSITIVE_INFINITY;

  /** Takes ownership of the descriptor. `onEnd` is called once, after the last byte was forwarded. */
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

  /** Checks whether the output has ended. */
  checkEnd(): void {
    this.#stream?.ready(this.#flow);
  }

  /** Limits the output to the bytes that are ready now. To be called once. */
  limit(): void {
    if (this.hasEnded) return;
    this.#remaining = addon.available(this.#fd);
    if (this.#remaining === 0) this.#end(true);
    else this.#stream?.ready(this.#flow);
  }

  /** Discards further output; writers are not disturbed. */
  detach(): void {
    this.#stream = undefined;
    if (!this.hasEnded) this.#end(true);
  }

  /** Closes the descriptor: processes that still write get SIGPIPE. */
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

  /** `result` of the read: byte count, 0 at the end, NOT_NOW. */
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
      // A terminal reports EIO when every program has closed it. The command may close it before it exits, and may
      // open it again. If the agent closed its side meanwhile, the command would get SIGHUP.
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

const READ_BYTES = 65_536;
/** Bytes read before a pause, so that a process that writes continuously does not keep the agent busy. */
const BURST_BYTES = 1024 * 1024;
const PAUSE_MS = 10;

let discarded: Buffer | undefined;

/**
 * Output without a reader: read and discarded, so that a background process neither blocks nor gets SIGPIPE. Takes
 * ownership of the descriptor and closes it when its last writer is gone.
 */
export function discardOutput(poller: Poller, fd: number): void {
  const read = (): void => {
    discarded ??= Buffer.allocUnsafeSlow(READ_BYTES);
    for (let total = 0; total < BURST_BYTES; total += READ_BYTES) {
      const got = readOrEnd(fd, discarded);
      if (got === NOT_NOW) return;
      if (got === 0) {
        watch.close();
        addon.close(fd);
        return;
      }
    }
    setTimeout(read, PAUSE_MS);
  };
  const watch = poller.watch(fd, POLL.in | POLL.edge, read);
}

function readOrEnd(fd: number, buffer: Buffer): number {
  try {
    return addon.read(fd, buffer, 0, buffer.length);
  } catch {
    return 0;
  }
}
