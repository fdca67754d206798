// One exec between a client and the guest, independent of the transport. The transport pulls output and result as
// frames. Frames of the client become stdin, signals and terminal sizes.
import {
  EXEC_FRAME,
  type ExecFrame,
  ExecFrameDecoder,
  ExecFrameError,
  encodeExecFrame,
  execFrameHeader,
  MAX_EXEC_PAYLOAD_BYTES,
  MAX_TTY_CELLS,
  SIGNALS,
  show,
} from '@sandboxd/api';
import type { ExecEvents, ExecOutcome, ExecSession, ResourceUsage } from '../../guest/exec.ts';
import { type Chunk, createByteQueue, type PullStream } from '../../lib/byte-queue.ts';
import { AppError, type ErrorCode } from '../../lib/errors.ts';
import type { ErrorAnswer } from '../errors.ts';
import { isNestedTooDeep } from '../input/json-body.ts';

export type ExecRunOptions = {
  /** Starts the command. May throw. */
  readonly start: (events: ExecEvents) => ExecSession;
  /** Called once, when the command has exited or was lost. */
  readonly onExit?: (outcome: ExecOutcome) => void;
  /** Called when input is accepted again after `push` returned false. */
  readonly onDrain?: () => void;
  /** Whether the response may have the command's id; absent: yes. */
  readonly saysId?: boolean;
  /** Warnings about the request, for the result. */
  readonly warnings?: readonly string[];
};

/** Maximum number of error frames for one command, because flow control does not limit them. */
const MAX_ERROR_FRAMES = 100;

export class ExecRun implements PullStream {
  /**
   * Resolves when the command has started, sent output or failed. Later failures are exit frames. Rejects with AppError
   * guest_unreachable if the guest was lost before.
   */
  readonly opened: Promise<void>;
  #open: () => void = () => {};
  #refuse: (error: AppError) => void = () => {};
  #wake: () => void = () => {};
  readonly #session: ExecSession;
  readonly #decoder = new ExecFrameDecoder(EXEC_FRAME.stdin);
  /** Encoded frames. The flow-control window of the channel bounds it. */
  readonly #output = createByteQueue();
  /** Payload bytes for which the session has not got credit back. */
  #uncreditedBytes = 0;
  #exitFrame: Buffer | undefined;
  readonly #startedAtMs = performance.now();
  readonly #warnings: readonly string[];
  readonly #saysId: boolean;
  #errorFrames = 0;
  #isOver = false;

  constructor({ start, onExit, onDrain, warnings = [], saysId = true }: ExecRunOptions) {
    this.#saysId = saysId;
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
        // After the frame is sent to the client.
        setImmediate(() => onExit?.(outcome));
        this.#exitFrame ??= encodeExitFrame(outcome, warnings);
        // Further input is discarded. Resume reading: the client may read nothing before it has sent everything.
        onDrain?.();
        // Has no effect if `opened` is already resolved.
        if (outcome.isLost)
          this.#refuse(
            new AppError(outcome.code ?? 'guest_unreachable', outcome.error ?? 'the guest was lost'),
          );
        this.#open();
        this.#wake();
      },
      drain: () => onDrain?.(),
      position: (seq, dropped) => {
        if (this.#isOver) return;
        this.#output.push(encodePositionFrame(seq, dropped));
        this.#open();
        this.#wake();
      },
    });
  }

  /** Id of an attached command for its response, if the guest lists it and the client asks for it. */
  get id(): string | undefined {
    return this.#saysId ? this.#session.id : undefined;
  }

  /** Encoded frames in order. The exit frame is last; only `cancel` ends the stream earlier. */
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

  /**
   * Takes bytes of the client; chunk boundaries have no meaning. Returns false if the caller must wait for `onDrain`.
   */
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

  /** Kills the command. Its exit frame follows. */
  kill(): void {
    if (!this.#isOver) this.#session.cancel();
  }

  /** Kills the command and sends an exit frame with the reason immediately. */
  end(error: string, code: ErrorCode): void {
    const durationMs = performance.now() - this.#startedAtMs;
    this.#exitFrame ??= encodeExitFrame({ exitCode: -1, durationMs, error, code }, this.#warnings);
    this.kill();
    this.#open();
    this.#wake();
  }

  /** The client has disconnected: kills the command and drops its output. */
  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#exitFrame === undefined) this.#session.cancel();
    this.#output.clear();
    this.#returnCredit(this.#uncreditedBytes);
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
      this.#applyOrReport(readSignal(frame), (signal) => this.#session.signal(signal));
    else if (type === EXEC_FRAME.resize)
      this.#applyOrReport(readSize(frame), (size) => this.#session.resize(size));
    return true;
  }

  /** Applies a valid frame. Reports an invalid one to the client with an error frame. */
  #applyOrReport<T>(read: Read<T>, use: (value: T) => void): void {
    if ('value' in read) {
      use(read.value);
      return;
    }
    if (++this.#errorFrames > MAX_ERROR_FRAMES) return;
    this.#output.push(encodeErrorFrame({ error: read.problem, code: 'invalid_argument' }));
    this.#wake();
  }

  #append(type: number, chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += MAX_EXEC_PAYLOAD_BYTES) {
      const payload = chunk.subarray(at, at + MAX_EXEC_PAYLOAD_BYTES);
      this.#output.push(execFrameHeader(type, payload.length));
      this.#output.push(payload);
      this.#uncreditedBytes += payload.length;
    }
  }

  #takeOutput(): Chunk | undefined {
    const chunk = this.#output.take();
    if (chunk === undefined) return undefined;
    return {
      bytes: chunk.bytes,
      release: () => {
        chunk.release();
        // A chunk also contains frame headers, so the last chunk returns what is left.
        this.#returnCredit(Math.min(chunk.bytes.length, this.#uncreditedBytes));
      },
    };
  }

  #returnCredit(bytes: number): void {
    this.#uncreditedBytes -= bytes;
    if (bytes > 0) this.#session.consumed(bytes);
  }
}

// Parses the signal and resize frames of a client.
type TtySize = Parameters<ExecSession['resize']>[0];

/** The value of a frame, or why it is invalid. */
type Read<T> = { readonly value: T } | { readonly problem: string };

/** Name of a Linux signal. */
export function readSignal({ payload }: ExecFrame): Read<string> {
  const { signal } = readFields(payload);
  const known = SIGNALS.find((name) => name === signal);
  if (known !== undefined) return { value: known };
  const word = typeof signal === 'string' ? signal.toUpperCase() : '';
  const [similar] = SIGNALS.filter((name) => name === word || name === `SIG${word}`);
  const hint = similar === undefined ? '' : `; did you mean ${similar}?`;
  return {
    problem: `signal must be a Linux signal, such as SIGTERM, got ${show(signal)}${hint}`,
  };
}

function readSize({ payload }: ExecFrame): Read<TtySize> {
  const { cols, rows } = readFields(payload);
  if (isExtent(cols) && isExtent(rows)) return { value: { cols, rows } };
  const sent = `${show(cols)} and ${show(rows)}`;
  return { problem: `cols and rows must be integers from 1 to ${MAX_TTY_CELLS}, got ${sent}` };
}

function readFields(payload: Buffer): { readonly [name: string]: unknown } {
  if (isNestedTooDeep(payload)) return {};
  try {
    return { ...JSON.parse(payload.toString()) };
  } catch {
    return {};
  }
}

function isExtent(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) > 0 && Number(value) <= MAX_TTY_CELLS;
}

// The ExecResult in the exit frame: exit code and duration, and the other fields if they have a value.
/** Maximum length of `error`, far below the maximum size of a frame. */
const MAX_ERROR_CHARS = MAX_EXEC_PAYLOAD_BYTES / 16;

export function toExecResultBody(outcome: ExecOutcome) {
  const { exitCode, durationMs, signal, timedOut, oomKilled, error, code, usage } = outcome;
  return {
    exit_code: exitCode,
    duration_ms: Math.round(durationMs),
    ...(signal ? { signal } : {}),
    ...(timedOut ? { timed_out: true as const } : {}),
    ...(oomKilled ? { oom_killed: true as const } : {}),
    ...(error ? { error: error.slice(0, MAX_ERROR_CHARS), ...(code && { code }) } : {}),
    ...(usage ? { usage: toUsageBody(usage) } : {}),
  };
}

/** `warnings` name the unknown fields of the request. */
export function encodeExitFrame(outcome: ExecOutcome, warnings: readonly string[] = []): Buffer {
  const result = { ...toExecResultBody(outcome), ...(warnings.length > 0 && { warnings }) };
  return encodeExecFrame(EXEC_FRAME.exit, Buffer.from(JSON.stringify(result)));
}

/** An error frame, for errors after the response head was sent. */
export function encodeErrorFrame(body: ErrorAnswer['body']): Buffer {
  return encodeExecFrame(EXEC_FRAME.error, Buffer.from(JSON.stringify(body)));
}

/** The first frame on a WebSocket. */
export function encodeStartedFrame(id: string): Buffer {
  return encodeExecFrame(EXEC_FRAME.started, Buffer.from(JSON.stringify({ id })));
}

/** The next record of the output of a detached command, and what was dropped before it. */
function encodePositionFrame(
  seq: number,
  dropped?: { readonly records: number; readonly bytes: number },
): Buffer {
  const body = {
    seq,
    ...(dropped && { dropped_records: dropped.records, dropped_bytes: dropped.bytes }),
  };
  return encodeExecFrame(EXEC_FRAME.position, Buffer.from(JSON.stringify(body)));
}

function toUsageBody(usage: ResourceUsage) {
  return {
    cpu_user_ms: Math.round(usage.cpuUserMs),
    cpu_sys_ms: Math.round(usage.cpuSysMs),
    peak_memory_bytes: usage.peakMemoryBytes,
    page_faults_major: usage.pageFaultsMajor,
    context_switches_involuntary: usage.contextSwitchesInvoluntary,
    io_read_bytes: usage.ioReadBytes,
    io_write_bytes: usage.ioWriteBytes,
  };
}
