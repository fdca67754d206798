// The durable log of a sandbox gets its commands, and the output of its service from the position that the log stores:
// after a lost connection, a restart of the daemon, or in a fork, nothing is missing or duplicated.
import type { ServiceRecord } from '@sandboxd/proto';
import type { Logger } from 'pino';
import type { ExecEvents, ExecSession } from '../guest/exec.ts';
import type { Guest } from '../guest/guest.ts';
import type { OutputSubscription } from '../guest/service.ts';
import { joinText, NOTHING } from '../lib/utf8-joiner.ts';
import type { CapturePosition, SandboxLog } from '../logs/index.ts';

const RETRY_MS = 1000;

export type LogCaptureDeps = {
  readonly guest: Pick<Guest, 'service' | 'isConnected' | 'watchConnections'>;
  readonly log: SandboxLog;
  readonly logger: Logger;
  readonly onOutput?: () => void;
};

export class LogCapture {
  readonly #deps: LogCaptureDeps;
  readonly #unwatch: () => void;
  #position: CapturePosition;
  #subscription: OutputSubscription | undefined;
  #retry: NodeJS.Timeout | undefined;
  #isStopped = false;

  /** Starts at once if connected, else with the next connection. */
  constructor(deps: LogCaptureDeps) {
    this.#deps = deps;
    this.#position = deps.log.position ?? {
      ring: '',
      nextSeq: 0,
      held: { stdout: NOTHING, stderr: NOTHING },
    };
    this.#unwatch = deps.guest.watchConnections(() => this.#subscribe());
    if (deps.guest.isConnected) this.#subscribe();
  }

  stop(): void {
    this.#isStopped = true;
    this.#unwatch();
    clearTimeout(this.#retry);
    this.#subscription?.cancel();
  }

  #subscribe(): void {
    const { guest, log } = this.#deps;
    if (this.#isStopped || this.#subscription !== undefined || log.hasFailed) return;
    clearTimeout(this.#retry);
    const { ring, nextSeq } = this.#position;
    try {
      const subscription = guest.service.output(
        { ring, fromSeq: nextSeq, isFollowing: true, isWaiting: true },
        {
          records: (records, bytes) => this.#receive(subscription, records, bytes),
          end: () => this.#subscriptionLost(new Error('the guest agent ended the output')),
          failed: (error) => this.#subscriptionLost(error),
        },
      );
      this.#subscription = subscription;
    } catch (error) {
      this.#subscriptionLost(error);
    }
  }

  /** A new connection subscribes again; without one, the retry timer does. */
  #subscriptionLost(err: unknown): void {
    this.#subscription = undefined;
    if (this.#isStopped) return;
    this.#deps.logger.debug({ err }, 'the subscription to the service output ended');
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      if (this.#deps.guest.isConnected) this.#subscribe();
    }, RETRY_MS).unref();
  }

  #receive(subscription: OutputSubscription, records: readonly ServiceRecord[], bytes: number): void {
    const { log, onOutput } = this.#deps;
    if (records.some(({ kind }) => kind !== 'ring')) onOutput?.();
    for (const record of records) this.#record(record);
    if (log.hasFailed) this.stop();
    // Flow control: the bytes are acknowledged when the log has space. Meanwhile output waits in the guest's ring.
    else log.whenWritable(() => subscription.consumed(bytes));
  }

  #record(record: ServiceRecord): void {
    const { log } = this.#deps;
    const { ring, nextSeq, held } = this.#position;
    if (record.kind === 'ring') {
      if (record.id === ring) return;
      this.#flushHeld();
      this.#position = { ring: record.id, nextSeq: record.seq, held: { stdout: NOTHING, stderr: NOTHING } };
    } else if (record.kind === 'gap') {
      this.#flushHeld();
      this.#position = { ring, nextSeq: record.seq, held: { stdout: NOTHING, stderr: NOTHING } };
      const gap = `about ${record.bytes} bytes of output (${record.records} records) were not logged`;
      const reason = 'the service wrote faster than they could be taken';
      log.event('service', `${gap}: ${reason}`, this.#position);
    } else if (record.seq >= nextSeq) {
      const joined = joinText(held[record.stream], record.data);
      this.#position = {
        ring,
        nextSeq: record.seq + 1,
        held: { ...held, [record.stream]: joined.held },
      };
      if (joined.whole.length === 0) return;
      const { stream, unixMs } = record;
      log.append({ source: 'service', stream, timeMs: unixMs, data: joined.whole }, this.#position);
    }
  }

  /** Logs incomplete characters, whose remaining bytes will never arrive. */
  #flushHeld(): void {
    for (const stream of ['stdout', 'stderr'] as const) {
      const data = this.#position.held[stream];
      if (data.length > 0) {
        this.#deps.log.append({ source: 'service', stream, timeMs: Date.now(), data }, this.#position);
      }
    }
  }
}

// Writes an exec to the sandbox's log: its command, output and exit. Stdin is never logged.
/** A longer command line is truncated in the log. */
const MAX_COMMAND_CHARS = 16_384;
/**
 * The first and last bytes of each output that are logged. A command that streams gigabytes must not push everything
 * else out of the log.
 */
const HEAD_BYTES = 4 * 1024 * 1024;
const TAIL_BYTES = 64 * 1024;

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
