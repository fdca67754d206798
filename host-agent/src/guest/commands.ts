// The command calls of the agent protocol; the guest's answers are validated.
import { DEFAULT_OUTPUT_BUFFER_BYTES, type ExecRequest } from '@sandboxd/api';
import {
  COMMANDS,
  type CommandCallInput,
  type CommandList,
  type CommandStatus,
  type RequestInput,
  type Result,
  type Stream,
  type StreamHandlers,
  type TtySize,
} from '@sandboxd/proto';
import { AppError } from '../lib/errors.ts';
import { badAnswer, refusalOf, toCallError, toLossError } from './agent-errors.ts';
import type { AttachRequest, CommandInfo } from './command-info.ts';
import { toCommandInfo, toCommandInfos } from './command-info.ts';
import { type CommandEvents, CommandStream } from './command-stream.ts';
import { toWireExec } from './exec.ts';
import type { ByteSource } from './files.ts';
import type { ServiceChannel } from './service.ts';

export interface CommandChannel extends ServiceChannel {
  /** Whether the guest announced the capability. Throws AppError guest_unreachable. */
  can(capability: string): boolean;
}

/**
 * Every call: AppError not_found for a command that the guest does not list, unsupported for an agent that lists none,
 * guest_unreachable.
 */
export class GuestCommands {
  readonly #channel: CommandChannel;
  readonly #explainLoss: () => Promise<string | undefined>;

  constructor(channel: CommandChannel, explainLoss: () => Promise<string | undefined>) {
    this.#channel = channel;
    this.#explainLoss = explainLoss;
  }

  /** Starts a detached command. A start that fails is its outcome. AppError exhausted for too many. */
  async start(
    request: ExecRequest,
    id: string,
    baseEnv: Readonly<Record<string, string>>,
  ): Promise<CommandInfo> {
    const {
      stdin = false,
      tty,
      output_buffer_bytes: outputBufferBytes = DEFAULT_OUTPUT_BUFFER_BYTES,
    } = request;
    const detached = { id, detach: true, stdin: stdin || tty !== undefined, outputBufferBytes };
    const exec = { ...toWireExec(request, baseEnv), ...detached };
    return toStatus(await this.#callPatiently({ exec }), id);
  }

  /** Oldest first. */
  async list(signal?: AbortSignal): Promise<readonly CommandInfo[]> {
    const { commandList } = await this.#call({ commandList: {} }, signal);
    if (!commandList) throw badAnswer('no list of commands');
    return toCommandInfos((commandList as CommandList).commands);
  }

  get(id: string, signal?: AbortSignal): Promise<CommandInfo> {
    return this.#act({ id }, signal);
  }

  /** To the process group. AppError conflict for a command that has ended; the same for resize. */
  signal(id: string, name: string): Promise<CommandInfo> {
    return this.#act({ id, signal: { name } });
  }

  resize(id: string, { cols, rows }: TtySize): Promise<CommandInfo> {
    return this.#act({ id, resize: { cols, rows } });
  }

  /** Resolves when the command has ended. */
  wait(id: string, signal?: AbortSignal): Promise<CommandInfo> {
    return this.#untilEnd({ id, wait: {} }, signal);
  }

  /** SIGTERM, and SIGKILL to all of its processes after the grace period. Resolves when it has ended. */
  kill(id: string, graceMs: number, signal?: AbortSignal): Promise<CommandInfo> {
    return this.#untilEnd({ id, kill: { graceMs } }, signal);
  }

  /** AppError conflict, by the event `failed`, for a command that is not detached or that another client writes to. */
  attach(id: string, request: AttachRequest, events: CommandEvents): CommandStream {
    this.#assertKnown();
    return new CommandStream(this.#streamOf(id), request, events);
  }

  /** Resolves when the command has taken the input. AppError conflict. */
  async write(id: string, read: ByteSource, isClosing: boolean, signal: AbortSignal): Promise<CommandInfo> {
    this.#assertKnown();
    signal.throwIfAborted();
    const done = Promise.withResolvers<CommandInfo>();
    let wake = (): void => undefined;
    const stream = new CommandStream(
      this.#streamOf(id),
      { input: 'write', isClosing },
      {
        records: () => undefined,
        end: ({ info }) => done.resolve(info),
        failed: done.reject,
        drain: () => wake(),
      },
    );
    const onAbort = (): void => done.reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const over = done.promise.then(
      () => undefined,
      () => undefined,
    );
    try {
      for (;;) {
        const chunk = await Promise.race([read(), over]);
        if (chunk === undefined) break;
        if (stream.write(chunk)) continue;
        await Promise.race([new Promise<void>((resolve) => (wake = resolve)), over]);
      }
      stream.closeStdin();
      return await done.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
      stream.cancel();
    }
  }

  #streamOf(id: string) {
    return { channel: this.#channel, explainLoss: this.#explainLoss, id };
  }

  async #act(commandCall: CommandCallInput, signal?: AbortSignal): Promise<CommandInfo> {
    return toStatus(await this.#call({ commandCall }, signal), commandCall.id ?? '');
  }

  async #call(request: RequestInput, signal?: AbortSignal): Promise<Result> {
    this.#assertKnown();
    return await this.#channel.call(request, signal).catch((error: unknown) => {
      throw toCallError(error, 'command');
    });
  }

  async #untilEnd(commandCall: CommandCallInput, signal?: AbortSignal): Promise<CommandInfo> {
    const info = toStatus(await this.#callPatiently({ commandCall }, signal), commandCall.id ?? '');
    if (info.outcome === undefined) throw badAnswer('the end of a command that runs');
    return info;
  }

  /** A call without a time limit: many starts at once take long on a busy host. */
  async #callPatiently(request: RequestInput, signal?: AbortSignal): Promise<Result> {
    this.#assertKnown();
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const stream = this.#open(request, {
      result: resolve,
      lost: (loss) => void toLossError(loss, 'a command was called', this.#explainLoss).then(reject),
    });
    const onAbort = (): void => {
      stream.cancel();
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const result = await promise;
      const refusal = refusalOf(result);
      if (refusal !== undefined) throw toCallError(refusal, 'command');
      return result;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  #open(request: RequestInput, handlers: StreamHandlers): Stream {
    try {
      return this.#channel.open(request, handlers);
    } catch (error) {
      throw toCallError(error, 'command');
    }
  }

  #assertKnown(): void {
    if (this.#channel.can(COMMANDS)) return;
    const what = 'the guest agent of this sandbox is older than the daemon and knows no commands by id';
    throw new AppError('unsupported', `${what}; create another sandbox`);
  }
}

function toStatus({ command }: Result, id: string): CommandInfo {
  if (!command) throw badAnswer('no status of the command');
  return toCommandInfo(command as CommandStatus, id);
}
