// One exec over a channel: the host's side of the agent's Exec call.
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
} from '@sandboxd/proto';
import type { ErrorCode } from '../lib/errors.ts';
import { causeOf, refusalOf, toCallError } from './agent-errors.ts';
import type { ExecEvents, ExecOptions, ExecOutcome, ExecSession } from './exec-types.ts';
import { failedOutcome, toExecOutcome } from './outcome.ts';
import { StdinSender } from './stdin-sender.ts';

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
