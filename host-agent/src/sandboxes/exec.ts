// An exec of a sandbox, on its way to the guest: it is a use until it has exited, is counted for metrics, and its
// command, output and exit are written to the sandbox's log. Stdin is never logged.
import type { ExecEvents, ExecOutcome, ExecSession } from '../guest/exec.ts';
import { joinText, NOTHING } from '../lib/utf8-joiner.ts';
import type { SandboxLog } from '../logs/index.ts';

/** A longer command line is truncated in the log. */
const MAX_COMMAND_CHARS = 16_384;
/**
 * The first and last bytes of each output that are logged. A command that streams gigabytes must not push everything
 * else out of the log.
 */
const HEAD_BYTES = 4 * 1024 * 1024;
const TAIL_BYTES = 64 * 1024;

export type ExecObservers = {
  readonly uses: { beginUse(): () => void };
  readonly counts: CommandCounts;
  /** Absent: the sandbox has no durable log. */
  readonly log: SandboxLog | undefined;
};

/** Starts an attached command whose events are seen by all of them first. */
export function startObserved(
  { uses, counts, log }: ExecObservers,
  cmd: readonly string[],
  events: ExecEvents,
  start: (events: ExecEvents) => ExecSession,
): ExecSession {
  return trackExecUse(uses, events, (used) =>
    counts.track(used, (counted) => startLogged(log, cmd, counted, start)),
  );
}

/** A command is a use until it has exited. */
export function trackExecUse(
  uses: ExecObservers['uses'],
  events: ExecEvents,
  run: (events: ExecEvents) => ExecSession,
): ExecSession {
  const end = uses.beginUse();
  try {
    return run({
      started: (pid) => events.started?.(pid),
      output: (stream, chunk) => events.output(stream, chunk),
      exit: (outcome) => {
        end();
        events.exit(outcome);
      },
      drain: () => events.drain?.(),
    });
  } catch (error) {
    end();
    throw error;
  }
}

type CommandKind = 'attached' | 'detached';
type CommandOutcome =
  | 'exited'
  | 'failed'
  | 'signalled'
  | 'timed-out'
  | 'out-of-memory'
  | 'not-started'
  | 'lost';

/** Connections to ports of guests. */
export class PortCounts {
  open = 0;
  /** Of connections that have ended. */
  receivedBytes = 0;
  sentBytes = 0;
}

export class CommandCounts {
  attached = 0;
  /** Of connections to ports. */
  readonly ports = new PortCounts();
  readonly #ended = new Map<CommandKind, Map<CommandOutcome, number>>();

  get ended(): readonly {
    readonly kind: CommandKind;
    readonly outcome: CommandOutcome;
    readonly count: number;
  }[] {
    return [...this.#ended].flatMap(([kind, counts]) =>
      [...counts].map(([outcome, count]) => ({ kind, outcome, count })),
    );
  }

  /** Runs an attached command. */
  track(events: ExecEvents, start: (events: ExecEvents) => ExecSession): ExecSession {
    this.attached += 1;
    try {
      return start({
        ...events,
        exit: (outcome) => {
          this.attached -= 1;
          this.count('attached', outcome);
          events.exit(outcome);
        },
      });
    } catch (error) {
      this.attached -= 1;
      throw error;
    }
  }

  count(kind: CommandKind, outcome: ExecOutcome | undefined): void {
    const counts = this.#ended.get(kind) ?? new Map<CommandOutcome, number>();
    const key = toKey(outcome);
    this.#ended.set(kind, counts.set(key, (counts.get(key) ?? 0) + 1));
  }
}

function toKey(outcome: ExecOutcome | undefined): CommandOutcome {
  if (outcome === undefined || outcome.isLost) return 'lost';
  if (outcome.timedOut) return 'timed-out';
  if (outcome.oomKilled) return 'out-of-memory';
  if (outcome.signal) return 'signalled';
  if (outcome.error) return 'not-started';
  return outcome.exitCode === 0 ? 'exited' : 'failed';
}

export function logExecStart(log: SandboxLog, cmd: readonly string[]): void {
  log.execStarted(toCommandLine(cmd));
}

export function toCommandLine(cmd: readonly string[]): string {
  const text = cmd.join(' ');
  return text.length > MAX_COMMAND_CHARS ? `${text.slice(0, MAX_COMMAND_CHARS)}…` : text;
}

/** Starts a command, and logs it if there is a log. */
export function startLogged(
  log: SandboxLog | undefined,
  cmd: readonly string[],
  events: ExecEvents,
  start: (events: ExecEvents) => ExecSession,
): ExecSession {
  if (log === undefined) return start(events);
  const session = start(logExecEvents(log, events));
  logExecStart(log, cmd);
  return session;
}

/** Returns the same events, each logged before it is passed on. Never waits for the disk. */
export function logExecEvents(log: SandboxLog, events: ExecEvents): ExecEvents {
  const outputs = { stdout: new LoggedOutput(log, 'stdout'), stderr: new LoggedOutput(log, 'stderr') };
  return {
    started: (pid) => events.started?.(pid),
    output: (stream, chunk) => {
      outputs[stream].push(chunk);
      events.output(stream, chunk);
    },
    exit: (outcome) => {
      outputs.stdout.end();
      outputs.stderr.end();
      log.execEnded(outcome.exitCode);
      events.exit(outcome);
    },
    drain: () => events.drain?.(),
  };
}

/** One output of a command. */
export class LoggedOutput {
  readonly #log: SandboxLog;
  readonly #stream: 'stdout' | 'stderr';
  #incomplete = NOTHING;
  #headBytes = 0;
  #held = '';
  #tail: OutputTail | undefined;

  /** `from`: what an earlier daemon has logged. */
  constructor(
    log: SandboxLog,
    stream: 'stdout' | 'stderr',
    from?: { readonly headBytes: number; readonly held: string },
  ) {
    this.#log = log;
    this.#stream = stream;
    if (from === undefined) return;
    this.#incomplete = Buffer.from(from.held, 'base64');
    this.#headBytes = from.headBytes;
    this.#held = from.held;
    if (from.headBytes >= HEAD_BYTES) this.#startTail();
  }

  /** What the log has of the beginning, for the next daemon. */
  get logged(): { readonly headBytes: number; readonly held: string } {
    return { headBytes: this.#headBytes, held: this.#held };
  }

  /** Whether further bytes are logged only at the end. */
  get isWaiting(): boolean {
    return this.#tail !== undefined;
  }

  push(chunk: Buffer): void {
    if (this.#tail !== undefined) {
      this.#tail.push(chunk);
      return;
    }
    const joined = joinText(this.#incomplete, chunk);
    this.#incomplete = joined.held;
    this.#append(joined.whole);
    this.#headBytes += joined.whole.length;
    this.#held = joined.held.toString('base64');
    if (this.#headBytes >= HEAD_BYTES) this.#startTail();
  }

  #startTail(): void {
    this.#tail = new OutputTail(TAIL_BYTES);
    this.#tail.push(this.#incomplete);
    this.#incomplete = NOTHING;
  }

  end(): void {
    this.#append(this.#incomplete);
    if (this.#tail === undefined) return;
    const tail = this.#tail.take();
    const { omittedBytes } = this.#tail;
    if (omittedBytes > 0) {
      const omitted = `${omittedBytes} bytes of ${this.#stream} were not logged`;
      this.#log.event('exec', `${omitted}: only the first and last of a long output are`);
    }
    this.#append(tail);
  }

  #append(data: Buffer): void {
    if (data.length > 0) this.#log.append({ source: 'exec', stream: this.#stream, timeMs: Date.now(), data });
  }
}

/** The last bytes of an output of any length. */
export class OutputTail {
  readonly #maxBytes: number;
  #bytes: Buffer | undefined;
  #filled = 0;
  #seen = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that were pushed and dropped. */
  get omittedBytes(): number {
    return this.#seen - this.#filled;
  }

  push(chunk: Buffer): void {
    this.#seen += chunk.length;
    this.#bytes ??= Buffer.allocUnsafeSlow(this.#maxBytes);
    const retained = chunk.length > this.#maxBytes ? chunk.subarray(-this.#maxBytes) : chunk;
    const drop = Math.max(0, this.#filled + retained.length - this.#maxBytes);
    if (drop > 0) this.#bytes.copyWithin(0, drop, this.#filled);
    this.#filled -= drop;
    retained.copy(this.#bytes, this.#filled);
    this.#filled += retained.length;
  }

  /** The retained bytes, starting at a whole character if bytes before it were dropped. */
  take(): Buffer {
    const tail = this.#bytes?.subarray(0, this.#filled) ?? Buffer.alloc(0);
    if (this.omittedBytes === 0) return tail;
    let start = 0;
    while (start < Math.min(3, tail.length) && ((tail[start] ?? 0) & 0xc0) === 0x80) start++;
    this.#filled -= start;
    return tail.subarray(start);
  }
}
