// Copies the output of detached commands to the sandbox's log while they run. It continues over lost connections, and
// where an earlier daemon has stopped. For a command that the source of a fork has started, it begins with the present.
import { COMMANDS } from '@sandboxd/proto';
import type { Logger } from 'pino';
import type { CommandEnd, CommandInfo } from '../guest/command-info.ts';
import type { Guest } from '../guest/guest.ts';
import type { CommandMark, SandboxLog, StreamMark } from '../logs/index.ts';
import { type CommandCounts, LoggedOutput, toCommandLine } from './exec.ts';
import { ServiceLog, type ServiceLogDeps } from './service-log.ts';

export type CommandLogsDeps = {
  readonly guest: Pick<Guest, 'commands' | 'watchConnections' | 'can'>;
  readonly log: SandboxLog;
  readonly logger: Logger;
  readonly counts: Pick<CommandCounts, 'count'>;
};

/** A slow disk delays the start of a command no longer than this. */
const FLUSH_LIMIT_MS = 1000;
const STREAMS = ['stdout', 'stderr'] as const;
const NOTHING_LOGGED: StreamMark = { nextSeq: 0, headBytes: 0, held: '' };

class Followed {
  readonly #id: string;
  readonly #log: SandboxLog;
  readonly #outputs: { readonly stdout: LoggedOutput; readonly stderr: LoggedOutput };
  /** What the next daemon need not log again. */
  #marks: Pick<CommandMark, 'stdout' | 'stderr'>;
  #nextSeq: number;
  cancel?: (() => void) | undefined;

  constructor(log: SandboxLog, id: string, marks: Pick<CommandMark, 'stdout' | 'stderr'>) {
    this.#id = id;
    this.#log = log;
    this.#marks = marks;
    this.#nextSeq = Math.min(marks.stdout.nextSeq, marks.stderr.nextSeq);
    const { stdout, stderr } = marks;
    this.#outputs = {
      stdout: new LoggedOutput(log, 'stdout', stdout),
      stderr: new LoggedOutput(log, 'stderr', stderr),
    };
  }

  get nextSeq(): number {
    return this.#nextSeq;
  }

  push(stream: 'stdout' | 'stderr', seq: number, data: Buffer): void {
    this.#nextSeq = seq + 1;
    // The other stream was logged less far.
    if (seq < this.#marks[stream].nextSeq) return;
    const logging = STREAMS.filter((each) => !this.#outputs[each].isWaiting);
    this.#outputs[stream].push(data);
    for (const each of logging) {
      const nextSeq = Math.max(this.#nextSeq, this.#marks[each].nextSeq);
      this.#marks = { ...this.#marks, [each]: { nextSeq, ...this.#outputs[each].logged } };
    }
    this.mark();
  }

  /** Records how far the output is in the log. */
  mark(hasEnded = false): void {
    this.#log.markCommand({ id: this.#id, ...this.#marks, hasEnded });
  }

  end(exitCode: number): void {
    this.#outputs.stdout.end();
    this.#outputs.stderr.end();
    this.#log.event('exec', `exit ${exitCode} of ${this.#id}`);
    this.mark(true);
  }
}

export class CommandLogs {
  readonly #deps: CommandLogsDeps;
  readonly #unwatch: () => void;
  readonly #followed = new Map<string, Followed>();
  #isStopped = false;
  /** Whether commands that run were not listed yet. */
  #mustAdopt = false;

  constructor(deps: CommandLogsDeps) {
    this.#deps = deps;
    this.#unwatch = deps.guest.watchConnections(() => {
      if (this.#mustAdopt || this.#followed.size > 0) void this.adopt();
    });
  }

  /** Number of commands that run. */
  get count(): number {
    return this.#followed.size;
  }

  stop(): void {
    this.#isStopped = true;
    this.#unwatch();
    for (const { cancel } of this.#followed.values()) cancel?.();
  }

  /** A command of this daemon. Resolves when the log has it, so that the next daemon knows it. */
  async started({ id, outcome }: CommandInfo, cmd: readonly string[]): Promise<void> {
    const { log } = this.#deps;
    log.event('exec', `exec ${id}: ${toCommandLine(cmd)}`);
    const followed = new Followed(log, id, { stdout: NOTHING_LOGGED, stderr: NOTHING_LOGGED });
    if (outcome !== undefined) {
      this.#deps.counts.count('detached', outcome);
      followed.end(outcome.exitCode);
    } else {
      followed.mark();
      this.#follow(id, followed);
    }
    const limit = new Promise<void>((resolve) => setTimeout(resolve, FLUSH_LIMIT_MS).unref());
    await Promise.race([log.flush(), limit]);
  }

  /** Follows the commands that run in the guest, and those that ended while no daemon ran. */
  async adopt(): Promise<void> {
    const { guest, logger } = this.#deps;
    this.#mustAdopt = true;
    try {
      if (!guest.can(COMMANDS)) return;
      const commands = (await guest.commands.list()).filter(({ isDetached }) => isDetached);
      if (this.#isStopped) return;
      this.#mustAdopt = false;
      this.#forgetAllBut(new Set(commands.map(({ id }) => id)));
      for (const command of commands) this.#adopt(command);
    } catch (err) {
      logger.debug({ err }, 'cannot list the commands for the log');
    }
  }

  #adopt({ id, outcome, output }: CommandInfo): void {
    const { log } = this.#deps;
    const known = this.#followed.get(id);
    const mark = log.commands.find((each) => each.id === id);
    if (known !== undefined) this.#follow(id, known);
    else if (mark !== undefined) this.#follow(id, new Followed(log, id, mark));
    else if (outcome === undefined) {
      const present = { ...NOTHING_LOGGED, nextSeq: output?.nextSeq ?? 0 };
      const text = `command ${id} runs already; its output before record ${present.nextSeq} is not logged here`;
      log.event('exec', text);
      const followed = new Followed(log, id, { stdout: present, stderr: present });
      followed.mark();
      this.#follow(id, followed);
    }
  }

  /** The guest keeps results for an hour only. */
  #forgetAllBut(listed: ReadonlySet<string>): void {
    const { log } = this.#deps;
    for (const mark of log.commands) {
      if (listed.has(mark.id) || this.#followed.has(mark.id)) continue;
      log.event('exec', `command ${mark.id} ended while no daemon listened; its last output is not logged`);
      log.markCommand({ ...mark, hasEnded: true });
    }
  }

  #follow(id: string, followed: Followed): void {
    const { guest, log, logger } = this.#deps;
    this.#followed.set(id, followed);
    if (this.#isStopped || followed.cancel !== undefined || log.hasFailed) return;
    const request = { fromSeq: followed.nextSeq, isFollowing: true, input: 'none' } as const;
    try {
      const stream = guest.commands.attach(id, request, {
        records: (records, bytes) => {
          for (const record of records) {
            if (record.kind === 'output') followed.push(record.stream, record.seq, record.data);
            else if (record.kind === 'gap')
              log.event('exec', `about ${record.bytes} bytes of output of ${id} were not logged`);
          }
          log.whenWritable(() => stream.consumed(bytes));
        },
        end: (end) => this.#ended(id, followed, end),
        failed: (err) => {
          // The next connection continues.
          followed.cancel = undefined;
          logger.debug({ err }, 'the output of a command cannot be logged');
          if (err.code === 'not_found') this.#followed.delete(id);
        },
      });
      followed.cancel = () => stream.cancel();
    } catch (err) {
      logger.debug({ err }, 'the output of a command cannot be logged');
    }
  }

  #ended(id: string, followed: Followed, { info }: CommandEnd): void {
    this.#followed.delete(id);
    this.#deps.counts.count('detached', info.outcome);
    followed.end(info.outcome?.exitCode ?? -1);
  }
}

/** What copies the output of one guest to the log of its sandbox: that of its service, and of its commands. */
export class LogCaptures {
  readonly commands: CommandLogs;
  readonly #deps: ServiceLogDeps;
  #service: ServiceLog | undefined;
  #isStopped = false;

  constructor(deps: ServiceLogDeps & Pick<CommandLogsDeps, 'counts'> & { readonly guest: Guest }) {
    this.#deps = deps;
    this.commands = new CommandLogs(deps);
    void deps.guest.service.configured.then(() => this.#captureService());
  }

  /**
   * The guest of a new sandbox has no commands and no service yet. It is not asked for output before it has one: under
   * emulation that takes a fifth of the CPU time of a create.
   */
  begin(mayHaveSome: boolean): void {
    if (!mayHaveSome) return;
    this.#captureService();
    void this.commands.adopt();
  }

  stop(): void {
    this.#isStopped = true;
    this.#service?.stop();
    this.commands.stop();
  }

  #captureService(): void {
    if (!this.#isStopped) this.#service ??= new ServiceLog(this.#deps);
  }
}
