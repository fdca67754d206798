// One command, from its request to its result.
import {
  type Exec,
  type ExecResultInput,
  FLOW,
  type Stream,
  type StreamLoss,
  startTimer,
  type TtySize,
} from '@sandboxd/proto';
import type { CommandControls, CommandTable } from '../commands/table.ts';
import { logError } from '../lib/log.ts';
import { signalName, signalNumber } from '../lib/signals.ts';
import { addon } from '../native/addon.ts';
import type { Poller } from '../native/poller.ts';
import type { Exit, ProcessUsage, Reaper } from '../reap/reaper.ts';
import { addUsage, type Cgroup, type ExecCgroups, toResourceUsage, wasOomKilled } from './cgroups.ts';
import type { ExecStream } from './exec-stream.ts';
import type { Freezer } from './freezer.ts';
import { InputPump } from './input-pump.ts';
import { LaunchError, type Launched, launch } from './launch.ts';
import { OutputPump } from './output-pump.ts';

/** Maximum delay of the result by a background process that keeps the pipes open. */
const LINGER_MS = 2000;

export type ExecContext = {
  readonly poller: Poller;
  readonly reaper: Reaper;
  readonly cgroups: ExecCgroups;
  readonly freezer: Freezer;
  readonly commands: CommandTable;
};

const SIGTERM = 15;

/**
 * Starts the command that `stream` requested. Every outcome is the stream's result, including a failed start. A
 * detached command does not need the stream any longer.
 */
export function startExec(context: ExecContext, stream: Stream, exec: Exec): void {
  const arrivedUs = Math.round(context.poller.wokeMs * 1000);
  const startedUs = nowUs();
  context.freezer.assertThawed();
  const command = context.commands.admit(exec);
  const recorder = command?.recorder;
  const cgroup = context.cgroups.acquire();
  try {
    const launched = launch(exec, cgroup);
    if (recorder === undefined) stream.started(launched.pid);
    const onResult = (result: ExecResultInput): void => command?.ended(result);
    const options = { arrivedUs, startedUs, onResult };
    const session = new ExecSession(context, recorder ?? stream, exec, cgroup, launched, options);
    command?.started(launched, session);
  } catch (error) {
    context.cgroups.release(cgroup);
    if (!(error instanceof LaunchError)) logError('exec', error);
    const durationUs = nowUs() - startedUs;
    const message = error instanceof Error ? error.message : String(error);
    const result = { exitCode: -1, durationUs, error: message };
    if (recorder === undefined) stream.finish({ exec: result });
    command?.ended(result);
  }
  if (command !== undefined && recorder !== undefined) stream.finish({ command: command.status });
  context.cgroups.restock();
}

type SessionOptions = {
  readonly arrivedUs: number;
  readonly startedUs: number;
  readonly onResult: (result: ExecResultInput) => void;
};

class ExecSession implements CommandControls {
  readonly #context: ExecContext;
  readonly #stream: ExecStream;
  readonly #onResult: SessionOptions['onResult'];
  readonly #cgroup: Cgroup;
  readonly #pid: number;
  readonly #terminal: number | undefined;
  readonly #arrivedUs: number;
  readonly #startedUs: number;
  readonly #outputs: OutputPump[] = [];
  readonly #input: InputPump | undefined;
  #inputFd: number | undefined;
  #stopTimeout: () => void = () => {};
  #stopLinger: () => void = () => {};
  #exit: { readonly exit: Exit; readonly durationUs: number } | undefined;
  #stopGrace: () => void = () => {};
  #isTimedOut = false;
  /** Whether all that it started must end with it. */
  #isTerminated = false;
  #isFinished = false;

  constructor(
    context: ExecContext,
    stream: ExecStream,
    exec: Exec,
    cgroup: Cgroup,
    { pid, descriptors }: Launched,
    { arrivedUs, startedUs, onResult }: SessionOptions,
  ) {
    this.#context = context;
    this.#stream = stream;
    this.#cgroup = cgroup;
    this.#pid = pid;
    this.#arrivedUs = arrivedUs;
    this.#startedUs = startedUs;
    this.#onResult = onResult;
    const { input, output, error } = descriptors;
    this.#terminal = error === undefined ? output : undefined;
    context.reaper.expect(pid, (exit, usage) => this.#onExit(exit, usage));
    stream.handlers = {
      data: (_flow, chunk) =>
        this.#input === undefined ? stream.consumed(chunk.length) : this.#input.push(chunk),
      end: () => this.#input?.end(),
      signal: (name) => this.signal(name),
      resize: (size) => this.resize(size),
      cancel: () => this.#abort(),
      lost: (loss) => this.#onLost(loss),
    };
    if (input !== undefined) {
      this.#inputFd = input;
      this.#input = new InputPump({
        poller: context.poller,
        stream,
        fd: input,
        onEnd: () => this.#endInput(),
      });
    }
    const pump = (flow: 1 | 2, fd: number): OutputPump =>
      new OutputPump({
        poller: context.poller,
        stream,
        flow,
        fd,
        isPipe: error !== undefined,
        hasExited: () => this.#exit !== undefined,
        onEnd: () => this.#onProgress(),
      });
    this.#outputs.push(pump(FLOW.out, output));
    if (error !== undefined) this.#outputs.push(pump(FLOW.err, error));
    if (exec.timeoutMs > 0) this.#stopTimeout = startTimer(exec.timeoutMs, () => this.#onTimeout());
  }

  #onExit(exit: Exit, usage: ProcessUsage): void {
    this.#exit = { exit, durationUs: nowUs() - this.#startedUs };
    this.#cgroup.processes = addUsage(this.#cgroup.processes, usage);
    this.#stopTimeout();
    this.#stopGrace();
    this.#closeInput();
    if (this.#isTerminated) this.#kill();
    if (this.#terminal !== undefined) for (const output of this.#outputs) output.checkEnd();
    this.#stopLinger = startTimer(LINGER_MS, () => {
      for (const output of this.#outputs) output.limit();
    });
    this.#onProgress();
  }

  /** Finishes when the command has exited and its output was forwarded. */
  #onProgress(): void {
    if (this.#isFinished || this.#exit === undefined) return;
    if (this.#outputs.some((output) => !output.hasEnded)) return;
    this.#isFinished = true;
    this.#stopLinger();
    const { exit, durationUs } = this.#exit;
    const counted = this.#context.cgroups.readUsage(this.#cgroup);
    const result: ExecResultInput = {
      exitCode: exit.exitCode,
      durationUs,
      signal: exit.signal === 0 ? '' : signalName(exit.signal),
      timedOut: this.#isTimedOut,
      oomKilled: wasOomKilled(counted),
      usage: toResourceUsage(counted),
      agentUs: nowUs() - this.#arrivedUs,
    };
    this.#stream.finish({ exec: result });
    this.#onResult(result);
    this.#context.cgroups.release(this.#cgroup);
  }

  #onTimeout(): void {
    this.#isTimedOut = true;
    this.#kill();
  }

  /** The client disconnected: kills the command and does not wait for readers. */
  #abort(): void {
    this.#kill();
    this.#closeInput();
    for (const output of this.#outputs) output.close();
  }

  #onLost(loss: StreamLoss): void {
    if (loss.kind !== 'detached') {
      this.#abort();
      return;
    }
    // In a copy of the guest that this command ran in, the command continues with its timeout, and its output is
    // discarded. Its input stays open, because an end of input did not happen.
    for (const output of this.#outputs) output.detach();
  }

  #kill(): void {
    if (!this.#context.cgroups.kill(this.#cgroup) && this.#exit === undefined) addon.kill(-this.#pid, 9);
  }

  signal(name: string): void {
    const number = signalNumber(name);
    // While the group's leader is not reaped, the kernel cannot reuse its pid.
    if (number !== undefined && this.#exit === undefined) addon.kill(-this.#pid, number);
  }

  resize({ cols, rows }: TtySize): void {
    if (this.#terminal !== undefined && this.#exit === undefined) {
      addon.resizeTerminal(this.#terminal, clampSize(cols), clampSize(rows));
    }
  }

  /** SIGTERM, and SIGKILL to all of its processes after the grace period, or once its first process has exited. */
  terminate(graceMs: number): void {
    this.#isTerminated = true;
    this.#stopGrace();
    // A timer could outlast the command, and its cgroup's descriptor.
    if (graceMs === 0 || this.#exit !== undefined) {
      this.#kill();
      return;
    }
    addon.kill(-this.#pid, SIGTERM);
    this.#stopGrace = startTimer(graceMs, () => this.#kill());
  }

  #endInput(): void {
    if (this.#terminal === undefined) {
      this.#closeInput();
      return;
    }
    const character = addon.endCharacter(this.#terminal);
    if (character >= 0) addon.write(this.#terminal, Buffer.of(character), 0, 1);
  }

  #closeInput(): void {
    if (this.#inputFd === undefined) return;
    this.#input?.stop();
    // A terminal's descriptor is owned by its output pump.
    if (this.#terminal === undefined) addon.close(this.#inputFd);
    this.#inputFd = undefined;
  }
}

function clampSize(value: number): number {
  return Math.min(value, 0xffff);
}

function nowUs(): number {
  return Math.round(performance.now() * 1000);
}
