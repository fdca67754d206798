// One exec between a client and the guest, whatever the transport: output and result become frames that the transport
// pulls, frames of the client become stdin, signals and sizes.
import {
  EXEC_FRAME,
  type ExecFrame,
  ExecFrameDecoder,
  ExecFrameError,
  execFrameHeader,
  MAX_EXEC_PAYLOAD_BYTES,
} from '@sandboxd/api';
import type { ExecEvents, ExecOutcome, ExecSession } from '../../guest/exec-types.ts';
import { ByteQueue, type Chunk, type PullStream } from '../../lib/byte-queue.ts';
import { AppError, type ErrorCode } from '../../lib/errors.ts';
import { type Read, readSignal, readSize } from './client-frames.ts';
import { encodeErrorFrame, encodeExitFrame } from './exec-result.ts';

export type ExecRunOptions = {
  /** Starts the command; may throw. */
  readonly start: (events: ExecEvents) => ExecSession;
  /** Told once, when the command ended or was lost. */
  readonly onExit?: (outcome: ExecOutcome) => void;
  /** Room for input again, after `push` returned false. */
  readonly onDrain?: () => void;
  /** Of the request, for the result. */
  readonly warnings?: readonly string[];
};

/** Error frames of one command: no credit holds them back. */
const MAX_COMPLAINTS = 100;

export class ExecRun implements PullStream {
  /**
   * Resolves at the command's first sign of life, or of its failure: from then on failures are exit frames. Rejects
   * with AppError guest_unreachable when the guest went away before.
   */
  readonly opened: Promise<void>;
  #open: () => void = () => {};
  #refuse: (error: AppError) => void = () => {};
  #wake: () => void = () => {};
  readonly #session: ExecSession;
  readonly #decoder = new ExecFrameDecoder(EXEC_FRAME.stdin);
  /** Encoded frames; the channel's window bounds it. */
  readonly #output = new ByteQueue();
  /** Payload bytes that the session has not been given credit for. */
  #heldBytes = 0;
  #exitFrame: Buffer | undefined;
  readonly #startedAtMs = performance.now();
  readonly #warnings: readonly string[];
  /** Error frames so far. */
  #complaints = 0;
  #isOver = false;

  constructor({ start, onExit, onDrain, warnings = [] }: ExecRunOptions) {
    this.#warnings = warnings;
    this.opened = new Promise((resolve, reject) => {
      this.#open = resolve;
      this.#refuse = reject;
    });
    this.#session = start({
      started: () => this.#open(),
      output: (stream, chunk) => {
        if (this.#isOver) return this.#session.consumed(chunk.length);
        this.#append(EXEC_FRAME[stream], chunk);
        this.#open();
        this.#wake();
      },
      exit: (outcome) => {
        // The client first.
        setImmediate(() => onExit?.(outcome));
        this.#exitFrame ??= encodeExitFrame(outcome, warnings);
        // What the client still sends is thrown away; it may read nothing before it has sent everything.
        onDrain?.();
        // Without effect once something was seen of the command.
        if (outcome.isLost)
          this.#refuse(new AppError('guest_unreachable', outcome.error ?? 'the guest was lost'));
        this.#open();
        this.#wake();
      },
      drain: () => onDrain?.(),
    });
  }

  /** Encoded frames in order, the exit frame last; ends early only after `cancel`. */
  async next(): Promise<Chunk | undefined> {
    while (!this.#isOver) {
      const chunk = this.#takeOutput();
      if (chunk !== undefined) return chunk;
      if (this.#exitFrame !== undefined) {
        this.#isOver = true;
        return { bytes: this.#exitFrame, release: () => {} };
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return undefined;
  }

  /** Bytes from the client, split anyhow; false when no more should come until `onDrain`. */
  push(bytes: Uint8Array): boolean {
    if (this.#isOver || this.#exitFrame !== undefined) return true;
    let frames: ExecFrame[];
    try {
      frames = this.#decoder.push(bytes);
    } catch (error) {
      if (!(error instanceof ExecFrameError)) throw error;
      this.end(`the client sent ${error.message}`, 'invalid_argument');
      return true;
    }
    let isFlowing = true;
    for (const frame of frames) isFlowing = this.#accept(frame) && isFlowing;
    return isFlowing;
  }

  /** Kills the command; its exit frame still comes. */
  kill(): void {
    if (!this.#isOver) this.#session.cancel();
  }

  /** Kills the command; its exit frame comes at once and says why. */
  end(error: string, code: ErrorCode): void {
    const durationMs = performance.now() - this.#startedAtMs;
    this.#exitFrame ??= encodeExitFrame({ exitCode: -1, durationMs, error, code }, this.#warnings);
    this.kill();
    this.#open();
    this.#wake();
  }

  /** The client is gone: kills the command and drops its output. */
  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#exitFrame === undefined) this.#session.cancel();
    this.#output.clear();
    this.#giveBack(this.#heldBytes);
    this.#wake();
  }

  keepalive(): void {
    if (this.#isOver || this.#output.sizeBytes > 0) return;
    this.#output.push(execFrameHeader(EXEC_FRAME.stdout, 0));
    this.#wake();
  }

  #accept(frame: ExecFrame): boolean {
    const { type, payload } = frame;
    if (type === EXEC_FRAME.stdin) return payload.length === 0 || this.#session.write(payload);
    if (type === EXEC_FRAME.stdinClose) this.#session.closeStdin();
    else if (type === EXEC_FRAME.signal)
      this.#take(readSignal(frame), (signal) => this.#session.signal(signal));
    else if (type === EXEC_FRAME.resize) this.#take(readSize(frame), (size) => this.#session.resize(size));
    return true;
  }

  /** What makes no sense is not for the command: the client is told, as often as somebody may read. */
  #take<T>(read: Read<T>, use: (value: T) => void): void {
    if ('value' in read) {
      use(read.value);
      return;
    }
    if (++this.#complaints > MAX_COMPLAINTS) return;
    this.#output.push(encodeErrorFrame({ error: read.problem, code: 'invalid_argument' }));
    this.#wake();
  }

  #append(type: number, chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += MAX_EXEC_PAYLOAD_BYTES) {
      const payload = chunk.subarray(at, at + MAX_EXEC_PAYLOAD_BYTES);
      this.#output.push(execFrameHeader(type, payload.length));
      this.#output.push(payload);
      this.#heldBytes += payload.length;
    }
  }

  #takeOutput(): Chunk | undefined {
    const chunk = this.#output.take();
    if (chunk === undefined) return undefined;
    return {
      bytes: chunk.bytes,
      release: () => {
        chunk.release();
        // A piece has headers of frames in it, too, so that all has been given back with the last.
        this.#giveBack(Math.min(chunk.bytes.length, this.#heldBytes));
      },
    };
  }

  #giveBack(bytes: number): void {
    this.#heldBytes -= bytes;
    if (bytes > 0) this.#session.consumed(bytes);
  }
}
