// envd's process service, by the detached commands of the REST interface: they go on without their clients, over
// pauses and restarts of the daemon, and in forks.
import { EXEC_FRAME, ExecFrameDecoder, MAX_EXEC_TIMEOUT_S } from '@sandboxd/api';
import { ApiError, type CommandInfo, ConflictError, type ExecResult } from '@sandboxd/client';
import { startTimer } from '@sandboxd/proto';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import type { EnvdCall } from './call.ts';
import { ConnectError } from './connect-protocol.ts';

/** The guest stores that much for a client that reads more slowly than its command writes. */
const OUTPUT_BUFFER_BYTES = 8 * 1024 * 1024;
/** How long a process that has ended can still be connected to. */
const RETAINED_MS = 30_000;
/** Descriptions of commands that are remembered, over all sandboxes. */
const MAX_KNOWN = 10_000;
/** A longer one is that of the command, which cuts arguments. */
const MAX_CONFIG_CHARS = 4096;

const selector = z.object({ pid: z.int().optional(), tag: z.string().optional() });
/** In place of 0, which the protocol leaves out: what programs take for a terminal of unknown size. */
const DEFAULT_SIZE = { cols: 80, rows: 24 };
const size = z
  .object({ cols: z.int().min(0).default(0), rows: z.int().min(0).default(0) })
  .default({ cols: 0, rows: 0 })
  .transform(({ cols, rows }) => ({ cols: cols || DEFAULT_SIZE.cols, rows: rows || DEFAULT_SIZE.rows }));
const pty = z.object({ size }).nullish();
const bytes = z.base64().transform((text) => Buffer.from(text, 'base64'));
const input = z.object({ stdin: bytes.optional(), pty: bytes.optional() });

export const processRequests = {
  Start: z.object({
    process: z.object({
      cmd: z.string().min(1),
      args: z.array(z.string()).default([]),
      envs: z.record(z.string(), z.string()).default({}),
      cwd: z.string().optional(),
    }),
    pty,
    tag: z.string().max(256).optional(),
    stdin: z.boolean().default(true),
  }),
  Connect: z.object({ process: selector }),
  List: z.object({}),
  Update: z.object({ process: selector, pty }),
  SendInput: z.object({ process: selector, input: input.default({}) }),
  CloseStdin: z.object({ process: selector }),
  SendSignal: z.object({ process: selector, signal: z.union([z.string(), z.number()]) }),
};
const streamedInput = z.object({
  start: z.object({ process: selector }).optional(),
  data: z.object({ input }).optional(),
});

type Request<N extends keyof typeof processRequests> = z.output<(typeof processRequests)[N]>;
type Selector = z.output<typeof selector>;
type Config = Request<'Start'>['process'];
type Known = { readonly config: Config | undefined; readonly tag: string | undefined };

export class ProcessService {
  /** By sandbox and command, in the order of their starts. */
  readonly #known = new Map<string, Known>();

  /** The process is killed after `timeoutMs`. */
  async *start(
    call: EnvdCall,
    request: Request<'Start'>,
    { timeoutMs, signal }: { readonly timeoutMs: number | undefined; readonly signal: AbortSignal },
  ): AsyncGenerator<object, void> {
    const { process, tag, pty, stdin } = request;
    const user = await call.user();
    const command = (await call.lasting.call('exec', {
      params: call.params,
      body: {
        cmd: [process.cmd, ...process.args],
        env: process.envs,
        cwd: await call.directory(process.cwd ?? ''),
        user: user.name,
        detach: true,
        stdin,
        output_buffer_bytes: OUTPUT_BUFFER_BYTES,
        ...(pty && { tty: pty.size }),
        ...(timeoutMs !== undefined && { timeout_s: toTimeoutS(timeoutMs) }),
      },
    })) as unknown as CommandInfo;
    if (command.pid === undefined) {
      yield* failedStart(command);
      return;
    }
    const isShort = JSON.stringify(process).length <= MAX_CONFIG_CHARS;
    this.#remember(call.id, command.id, { config: isShort ? process : undefined, tag });
    yield startEvent(command.pid);
    yield* follow(call, command, 0, { timeoutMs, signal, kills: true });
  }

  async *connect(
    call: EnvdCall,
    { process }: Request<'Connect'>,
    limits: { readonly timeoutMs: number | undefined; readonly signal: AbortSignal },
  ): AsyncGenerator<object, void> {
    const command = await this.#find(call, process, RETAINED_MS);
    yield startEvent(command.pid ?? 0);
    yield* follow(call, command, command.output?.next_seq ?? 0, { ...limits, kills: false });
  }

  async list(call: EnvdCall, _request: Request<'List'>): Promise<object> {
    const { commands } = await call.requests.call('listCommands', { params: call.params });
    const running = commands.filter(({ state, pid, detached }) => state === 'running' && pid && detached);
    return { processes: running.map((command) => this.#describe(call.id, command)) };
  }

  async update(call: EnvdCall, { process, pty }: Request<'Update'>): Promise<object> {
    const command = await this.#find(call, process);
    if (pty == null) return {};
    if (command.tty === undefined) throw new ConnectError('internal', 'the process has no terminal');
    await call.requests.call('resizeCommand', { params: toParams(call, command), body: pty.size });
    return {};
  }

  async sendInput(call: EnvdCall, { process, input }: Request<'SendInput'>): Promise<object> {
    await this.#write(call, await this.#find(call, process), input);
    return {};
  }

  /** Messages of a client's stream: which process, then input. */
  async streamInput(call: EnvdCall, messages: AsyncIterable<unknown>): Promise<object> {
    let command: CommandInfo | undefined;
    for await (const message of messages) {
      const parsed = streamedInput.safeParse(message);
      if (!parsed.success)
        throw new ConnectError('invalid_argument', 'the message is not input of a process');
      const { start, data } = parsed.data;
      if (start !== undefined) command = await this.#find(call, start.process);
      if (data === undefined) continue;
      if (command === undefined)
        throw new ConnectError('invalid_argument', 'the first message must name the process');
      await this.#write(call, command, data.input);
    }
    return {};
  }

  async closeStdin(call: EnvdCall, { process }: Request<'CloseStdin'>): Promise<object> {
    const command = await this.#find(call, process);
    if (command.tty !== undefined)
      throw new ConnectError('internal', 'a terminal has no end of input; send ^D');
    if (command.stdin === undefined) return {};
    const close = { params: toParams(call, command), query: { close: 1 }, bytes: new Uint8Array() };
    await call.requests.call('writeCommandInput', close).catch(ignoreConflict);
    return {};
  }

  async sendSignal(call: EnvdCall, { process, signal }: Request<'SendSignal'>): Promise<object> {
    const name = SIGNALS[String(signal)];
    if (name === undefined) throw new ConnectError('unimplemented', `signal ${signal} is not supported`);
    const command = await this.#find(call, process);
    try {
      await call.requests.call('signalCommand', { params: toParams(call, command), body: { signal: name } });
    } catch (error) {
      if (error instanceof ConflictError) throw noProcess(process);
      throw error;
    }
    return {};
  }

  #remember(id: string, cid: string, known: Known): void {
    this.#known.set(`${id} ${cid}`, known);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KNOWN && oldest !== undefined) this.#known.delete(oldest);
  }

  #describe(id: string, { id: cid, cmd, pid }: CommandInfo): object {
    const { config, tag } = this.#known.get(`${id} ${cid}`) ?? {};
    const [program = '', ...args] = cmd;
    return { config: config ?? { cmd: program, args, envs: {} }, pid, ...(tag !== undefined && { tag }) };
  }

  /** ConnectError not_found for a process that has ended since it was found, internal for one without input. */
  async #write(call: EnvdCall, command: CommandInfo, data: z.output<typeof input>): Promise<void> {
    try {
      await write(call, command, data);
    } catch (error) {
      if (!(error instanceof ConflictError)) throw error;
      await this.#find(call, { pid: command.pid });
      throw new ConnectError('internal', error.message);
    }
  }

  /** The newest process of that number or tag that runs, or ended within `retainedMs`. ConnectError not_found. */
  async #find(call: EnvdCall, wanted: Selector, retainedMs?: number): Promise<CommandInfo> {
    const { commands } = await call.requests.call('listCommands', { params: call.params });
    const isWanted = ({ id, pid, detached }: CommandInfo): boolean =>
      detached &&
      (wanted.pid !== undefined
        ? pid === wanted.pid
        : wanted.tag !== undefined && this.#known.get(`${call.id} ${id}`)?.tag === wanted.tag);
    const found = commands.filter(isWanted);
    // By the guest's clock, which may be ahead.
    const isRetained = ({ exited_at }: CommandInfo): boolean =>
      retainedMs !== undefined && exited_at !== undefined && Date.now() - Date.parse(exited_at) < retainedMs;
    const command = found.findLast(({ state }) => state === 'running') ?? found.findLast(isRetained);
    if (command === undefined) throw noProcess(wanted);
    return command;
  }
}

const SIGNALS: Readonly<Record<string, string>> = {
  SIGNAL_SIGTERM: 'SIGTERM',
  SIGNAL_SIGKILL: 'SIGKILL',
  15: 'SIGTERM',
  9: 'SIGKILL',
};

/** Output from a record on, and the end. A stream that is lost throws: the sandbox may be gone. */
async function* follow(
  call: EnvdCall,
  command: CommandInfo,
  from: number,
  options: { readonly timeoutMs: number | undefined; readonly signal: AbortSignal; readonly kills: boolean },
): AsyncGenerator<object, void> {
  const over = new AbortController();
  const { timeoutMs } = options;
  const onTimeout = (): void => {
    over.abort();
    if (options.kills) kill(call, command);
  };
  const stopTimeout = timeoutMs === undefined ? undefined : startTimer(timeoutMs, onTimeout);
  try {
    const { body } = await call.requests.stream('readCommandOutput', {
      params: toParams(call, command),
      query: { from, follow: 1 },
      accept: 'application/octet-stream',
      signal: AbortSignal.any([options.signal, over.signal]),
    });
    const decoder = new ExecFrameDecoder();
    for await (const chunk of body)
      for (const { type, payload } of decoder.push(chunk)) {
        if (type === EXEC_FRAME.exit) {
          const result = JSON.parse(Buffer.from(payload).toString()) as ExecResult;
          if (result.timed_out) throw timedOut();
          yield { event: { end: toEnd(result) } };
          return;
        }
        if (payload.length > 0) yield { event: { data: toData(type, payload, command) } };
      }
    throw new AppError('cancelled', 'the output of the command was lost');
  } catch (error) {
    if (over.signal.aborted) throw timedOut();
    if (error instanceof ApiError) throw new AppError('cancelled', error.message, { cause: error });
    throw error;
  } finally {
    stopTimeout?.();
  }
}

function timedOut(): ConnectError {
  return new ConnectError('deadline_exceeded', 'the time limit of the request has passed');
}

/** Its end is that of the guest's own limit if this fails. */
function kill(call: EnvdCall, command: CommandInfo): void {
  const end = { params: toParams(call, command), query: { grace_s: 0 } };
  call.lasting.call('endCommand', end).catch(() => undefined);
}

async function write(
  call: EnvdCall,
  command: CommandInfo,
  { stdin, pty }: z.output<typeof input>,
): Promise<void> {
  const data = command.tty === undefined ? stdin : pty;
  if (data === undefined && (stdin ?? pty) === undefined) return;
  if (data === undefined)
    throw new ConnectError(
      'internal',
      `the process takes ${command.tty === undefined ? 'stdin' : 'pty'} input`,
    );
  if (command.stdin === undefined) throw new ConnectError('internal', 'the input of the process is closed');
  const params = toParams(call, command);
  await call.requests.call('writeCommandInput', { params, bytes: new Uint8Array(data) });
}

function toParams(call: EnvdCall, { id }: CommandInfo) {
  return { id: call.id, cid: id };
}

function toTimeoutS(timeoutMs: number): number {
  return Math.min(MAX_EXEC_TIMEOUT_S, Math.ceil(timeoutMs / 1000) + 1);
}

function startEvent(pid: number): object {
  return { event: { start: { pid } } };
}

function toData(type: number, payload: Uint8Array, { tty }: CommandInfo): object {
  const data = Buffer.from(payload).toString('base64');
  if (tty !== undefined) return { pty: data };
  return type === EXEC_FRAME.stderr ? { stderr: data } : { stdout: data };
}

function toEnd({ exit_code, signal, oom_killed, error }: ExecResult): object {
  if (signal !== undefined) {
    const status = `signal: ${SIGNAL_WORDS[signal] ?? signal}`;
    return { exitCode: -1, status, error: oom_killed ? `${status} (out of memory)` : status };
  }
  const status = `exit status ${exit_code}`;
  const isFailure = exit_code !== 0 || error !== undefined;
  return {
    ...(exit_code !== 0 && { exitCode: exit_code }),
    exited: true,
    status,
    ...(isFailure && { error: error ?? status }),
  };
}

/** As Go calls them. */
const SIGNAL_WORDS: Readonly<Record<string, string>> = {
  SIGKILL: 'killed',
  SIGTERM: 'terminated',
  SIGINT: 'interrupt',
  SIGHUP: 'hangup',
  SIGSEGV: 'segmentation fault',
  SIGABRT: 'aborted',
};

/** A program that does not start has no number. */
function* failedStart({ result }: CommandInfo): Generator<object, void> {
  const reason = result?.error ?? 'the program did not start';
  if (/\bcwd\b|directory|user/i.test(reason)) throw new ConnectError('invalid_argument', reason);
  yield startEvent(1);
  yield { event: { data: { stderr: Buffer.from(`${reason}\n`).toString('base64') } } };
  yield {
    event: { end: { exitCode: 127, exited: true, status: 'exit status 127', error: 'exit status 127' } },
  };
}

function noProcess({ pid, tag }: Selector): ConnectError {
  const what = pid === undefined ? `tag ${JSON.stringify(tag ?? '')}` : `pid ${pid}`;
  return new ConnectError('not_found', `process with ${what} not found`);
}

function ignoreConflict(error: unknown): void {
  if (!(error instanceof ConflictError)) throw error;
}
