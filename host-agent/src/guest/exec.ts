// One exec over a channel: the host's side of the agent's Exec call, its events, input and result.
import { type ExecRequest, MAX_EXEC_TIMEOUT_S } from '@sandboxd/api';
import {
  type Channel,
  COMMANDS,
  type ExecResult,
  FLOW,
  type Result,
  type Stream,
  type StreamLoss,
  type TtySize,
  type ResourceUsage as WireUsage,
} from '@sandboxd/proto';
import { createByteQueue } from '../lib/byte-queue.ts';
import type { ErrorCode } from '../lib/errors.ts';
import { causeOf, count, refusalOf, toCallError, toWords } from './agent-errors.ts';

export type ExecOptions = {
  /** Lists the command under this id, if the guest keeps a list. */
  readonly id?: string;
  /** Whether `write` will be used; otherwise stdin is empty. */
  readonly hasStdin?: boolean;
  /** Variables of the request override these. */
  readonly baseEnv?: Readonly<Record<string, string>>;
};

export type ResourceUsage = {
  readonly cpuUserMs: number;
  readonly cpuSysMs: number;
  readonly peakMemoryBytes: number;
  readonly pageFaultsMajor: number;
  readonly contextSwitchesInvoluntary: number;
  readonly ioReadBytes: number;
  readonly ioWriteBytes: number;
};

export type ExecOutcome = {
  /** -1 if there is none. */
  readonly exitCode: number;
  readonly durationMs: number;
  readonly signal?: string;
  readonly timedOut?: boolean;
  readonly oomKilled?: boolean;
  readonly error?: string;
  /** Set for an `error` that is not the command's own. */
  readonly code?: ErrorCode;
  readonly usage?: ResourceUsage;
  /** The guest was lost: `error` has the reason, and the command's result is unknown. */
  readonly isLost?: true;
  /** Time in the guest from request to result, by the agent's clock. For diagnosis only. */
  readonly agentUs?: number;
};

/** Events of an exec session, in order; `exit` comes exactly once and last. */
export interface ExecEvents {
  started?(pid: number): void;
  /**
   * Flow control: the command is throttled until `consumed` is called for the bytes. `chunk` is valid only during the
   * call.
   */
  output(stream: 'stdout' | 'stderr', chunk: Buffer): void;
  exit(outcome: ExecOutcome): void;
  /** For an attached client of a detached command: the next record of its output, and what was dropped before it. */
  position?(seq: number, dropped?: { readonly records: number; readonly bytes: number }): void;
  /** There is capacity for stdin again. */
  drain?(): void;
}

/** One running command. */
export interface ExecSession {
  /** The guest lists the command under this id; absent for an older guest, and for a client of a detached command. */
  readonly id?: string | undefined;
  /** Returns flow-control credit after this many bytes of output were passed on. */
  consumed(bytes: number): void;
  /** Queues stdin; false if the caller should wait for `drain`. */
  write(chunk: Uint8Array): boolean;
  /** End of stdin. */
  closeStdin(): void;
  signal(name: string): void;
  resize(size: TtySize): void;
  /** The client has disconnected: kills the command's process tree. `exit` still follows if the guest answers. */
  cancel(): void;
}

/** If the agent does not answer a cancellation within this time, the exec is abandoned. */
const CANCEL_TIMEOUT_MS = 10_000;

type Options = ExecOptions & { readonly explainLoss?: () => Promise<string | undefined> };

/** Opens the call. Throws if the channel is closed; RangeError if the request is too long to send. */
export function startExec(
  channel: Channel,
  request: ExecRequest,
  events: ExecEvents,
  options: Options = {},
): ExecSession {
  return new ChannelExec(channel, request, events, options);
}

class ChannelExec implements ExecSession {
  readonly id: string | undefined;
  readonly #events: ExecEvents;
  readonly #explainLoss: Options['explainLoss'];
  readonly #startedAtMs = performance.now();
  readonly #stream: Stream;
  /** Absent: the command has no input. */
  readonly #stdin: StdinSender | undefined;
  #isCancelled = false;
  #isOver = false;
  #cancelTimer: NodeJS.Timeout | undefined;

  constructor(channel: Channel, request: ExecRequest, events: ExecEvents, options: Options) {
    const { hasStdin = false, baseEnv, explainLoss, id } = options;
    this.#events = events;
    this.#explainLoss = explainLoss;
    this.id = channel.can(COMMANDS) ? id : undefined;
    const listed = this.id === undefined ? {} : { id: this.id };
    this.#stream = channel.open(
      { exec: { ...toWireExec(request, baseEnv), stdin: hasStdin, ...listed } },
      {
        started: (pid) => this.#events.started?.(pid),
        data: (flow, chunk) => this.#output(flow === FLOW.err ? 'stderr' : 'stdout', chunk),
        result: (result) => this.#result(result),
        lost: (loss) => void this.#lost(loss),
      },
    );
    if (hasStdin) this.#stdin = new StdinSender(this.#stream, () => this.#events.drain?.());
  }

  consumed(bytes: number): void {
    this.#stream.consumed(bytes);
  }

  write(chunk: Uint8Array): boolean {
    return this.#isOver || (this.#stdin?.write(chunk) ?? true);
  }

  closeStdin(): void {
    this.#stdin?.close();
  }

  signal(name: string): void {
    this.#stream.signal(name);
  }

  resize(size: TtySize): void {
    this.#stream.resize(size);
  }

  cancel(): void {
    if (this.#isOver || this.#isCancelled) return;
    this.#isCancelled = true;
    this.#stdin?.clear();
    this.#stream.cancel();
    this.#cancelTimer = setTimeout(() => {
      this.#fail('the guest agent did not say how the cancelled command ended', 'guest_unreachable');
    }, CANCEL_TIMEOUT_MS);
    this.#cancelTimer.unref();
  }

  #output(stream: 'stdout' | 'stderr', chunk: Buffer): void {
    if (this.#isCancelled) this.#stream.consumed(chunk.length);
    else this.#events.output(stream, chunk);
  }

  #result(result: Result): void {
    const refusal = refusalOf(result);
    if (result.exec) this.#finish(toExecOutcome(result.exec as ExecResult));
    else if (refusal === undefined) this.#fail('the guest agent gave no exec result', 'guest_unreachable');
    else this.#fail(refusal.message, toCallError(refusal, 'exec').code);
  }

  async #lost(loss: StreamLoss): Promise<void> {
    const reason = (await this.#explainLoss?.()) ?? causeOf(loss).message;
    const error = `the sandbox was lost while the command ran: ${reason}`;
    this.#finish({ ...failedOutcome(error, 'guest_unreachable', this.#startedAtMs), isLost: true });
  }

  #fail(error: string, code: ErrorCode): void {
    this.#finish(failedOutcome(error, code, this.#startedAtMs));
  }

  #finish(outcome: ExecOutcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#cancelTimer);
    this.#stdin?.clear();
    this.#events.exit(outcome);
  }
}

export function toWireExec(
  { cmd, cwd = '', env, user = '', timeout_s, tty }: ExecRequest,
  baseEnv?: ExecRequest['env'],
) {
  const isLimited = timeout_s > 0 && timeout_s <= MAX_EXEC_TIMEOUT_S;
  return {
    cmd: [...cmd],
    env: Object.entries({ ...baseEnv, ...env }).map(([name, value]) => `${name}=${value}`),
    cwd,
    user,
    timeoutMs: isLimited ? timeout_s * 1000 : 0,
    ...(tty && { tty }),
  };
}

/** Maximum bytes of stdin that are queued while there is no credit. */
const STDIN_QUEUE_BYTES = 256 * 1024;

export class StdinSender {
  readonly #stream: Stream;
  readonly #onDrain: () => void;
  readonly #queue = createByteQueue();
  #isClosed = false;

  /** `onDrain` is called when there is capacity again after `write` returned false. */
  constructor(stream: Stream, onDrain: () => void) {
    this.#stream = stream;
    this.#onDrain = onDrain;
    stream.setSource(FLOW.in, (maxBytes) => this.#take(maxBytes));
  }

  /** False if the caller should wait. */
  write(chunk: Uint8Array): boolean {
    if (this.#isClosed || this.#stream.isOver) return true;
    this.#queue.push(chunk);
    this.#stream.ready(FLOW.in);
    return this.#queue.sizeBytes < STDIN_QUEUE_BYTES;
  }

  close(): void {
    this.#isClosed = true;
    this.#endWhenSent();
  }

  clear(): void {
    this.#queue.clear();
  }

  #take(maxBytes: number): Uint8Array | null {
    const wasFull = this.#queue.sizeBytes >= STDIN_QUEUE_BYTES;
    const chunk = this.#queue.take(maxBytes);
    if (chunk === undefined) return null;
    // The link keeps it until the socket has taken it.
    const bytes = Buffer.from(chunk.bytes);
    chunk.release();
    queueMicrotask(() => this.#endWhenSent());
    if (wasFull && this.#queue.sizeBytes < STDIN_QUEUE_BYTES) queueMicrotask(() => this.#onDrain());
    return bytes;
  }

  #endWhenSent(): void {
    if (this.#isClosed && this.#queue.sizeBytes === 0) this.#stream.end(FLOW.in);
  }
}

/** Numbers of a guest are clamped to what JSON can represent. */
export function toExecOutcome(result: ExecResult): ExecOutcome {
  return {
    exitCode: Math.max(-1, Math.min(255, result.exitCode)),
    durationMs: Math.round(count(result.durationUs) / 1000),
    ...(result.signal !== '' && { signal: toWords(result.signal, 32) }),
    ...(result.timedOut && { timedOut: true }),
    ...(result.oomKilled && { oomKilled: true }),
    ...(result.error !== '' && { error: toWords(result.error) }),
    ...(result.agentUs > 0 && { agentUs: count(result.agentUs) }),
    ...(result.usage && { usage: toUsage(result.usage as WireUsage) }),
  };
}

/** The outcome of a command that never ran or whose result will never be known. */
export function failedOutcome(error: string, code: ErrorCode, startedAtMs: number): ExecOutcome {
  return { exitCode: -1, durationMs: Math.round(performance.now() - startedAtMs), error, code };
}

function toUsage(usage: WireUsage): ResourceUsage {
  return {
    cpuUserMs: Math.round(count(usage.cpuUserUs) / 1000),
    cpuSysMs: Math.round(count(usage.cpuSysUs) / 1000),
    peakMemoryBytes: count(usage.peakMemoryBytes),
    pageFaultsMajor: count(usage.pageFaultsMajor),
    contextSwitchesInvoluntary: count(usage.contextSwitchesInvoluntary),
    ioReadBytes: count(usage.ioReadBytes),
    ioWriteBytes: count(usage.ioWriteBytes),
  };
}
