// Copies the output of detached commands to the sandbox's log while they run. It continues over lost connections. For a
// command that another daemon, or the source of a fork, has started, it continues with the present.
import { COMMANDS } from '@sandboxd/proto';
import type { Logger } from 'pino';
import type { CommandEnd, CommandInfo } from '../guest/command-info.ts';
import type { Guest } from '../guest/guest.ts';
import type { SandboxLog } from '../logs/index.ts';
import { LogCapture, type LogCaptureDeps, LoggedOutput, toCommandLine } from './log-capture.ts';

export type CommandLogsDeps = {
  readonly guest: Pick<Guest, 'commands' | 'watchConnections' | 'can'>;
  readonly log: SandboxLog;
  readonly logger: Logger;
};

type Followed = {
  nextSeq: number;
  readonly outputs: { readonly stdout: LoggedOutput; readonly stderr: LoggedOutput };
  cancel?: (() => void) | undefined;
};

export class CommandLogs {
  readonly #deps: CommandLogsDeps;
  readonly #unwatch: () => void;
  readonly #followed = new Map<string, Followed>();
  #isStopped = false;

  constructor(deps: CommandLogsDeps) {
    this.#deps = deps;
    this.#unwatch = deps.guest.watchConnections(() => {
      if (this.#followed.size > 0) void this.adopt();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#unwatch();
    for (const { cancel } of this.#followed.values()) cancel?.();
  }

  /** A command of this daemon. */
  started({ id, outcome }: CommandInfo, cmd: readonly string[]): void {
    const { log } = this.#deps;
    log.event('exec', `exec ${id}: ${toCommandLine(cmd)}`);
    if (outcome !== undefined) log.event('exec', `exit ${outcome.exitCode} of ${id}`);
    else this.#follow(id, this.#enter(id, 0));
  }

  /** Follows the commands that run in the guest, those of earlier daemons included. */
  async adopt(): Promise<void> {
    const { guest, log, logger } = this.#deps;
    try {
      if (!guest.can(COMMANDS)) return;
      for (const { id, isDetached, outcome, output } of await guest.commands.list()) {
        if (this.#isStopped || !isDetached) continue;
        const known = this.#followed.get(id);
        if (known !== undefined) this.#follow(id, known);
        else if (outcome === undefined) {
          const nextSeq = output?.nextSeq ?? 0;
          log.event(
            'exec',
            `command ${id} runs already; its output before record ${nextSeq} is not logged here`,
          );
          this.#follow(id, this.#enter(id, nextSeq));
        }
      }
    } catch (err) {
      logger.debug({ err }, 'cannot list the commands for the log');
    }
  }

  #enter(id: string, nextSeq: number): Followed {
    const { log } = this.#deps;
    const outputs = { stdout: new LoggedOutput(log, 'stdout'), stderr: new LoggedOutput(log, 'stderr') };
    const followed = { nextSeq, outputs };
    this.#followed.set(id, followed);
    return followed;
  }

  #follow(id: string, followed: Followed): void {
    const { guest, log, logger } = this.#deps;
    if (this.#isStopped || followed.cancel !== undefined || log.hasFailed) return;
    const request = { fromSeq: followed.nextSeq, isFollowing: true, input: 'none' } as const;
    try {
      const stream = guest.commands.attach(id, request, {
        records: (records, bytes) => {
          for (const record of records) {
            if (record.kind === 'output') {
              followed.outputs[record.stream].push(record.data);
              followed.nextSeq = record.seq + 1;
            } else if (record.kind === 'gap')
              log.event('exec', `about ${record.bytes} bytes of output of ${id} were not logged`);
          }
          log.whenRoomy(() => stream.consumed(bytes));
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

  #ended(id: string, { outputs }: Followed, { info }: CommandEnd): void {
    this.#followed.delete(id);
    outputs.stdout.end();
    outputs.stderr.end();
    this.#deps.log.event('exec', `exit ${info.outcome?.exitCode ?? -1} of ${id}`);
  }
}

/** What copies the output of one guest to the log of its sandbox: that of its service, and of its commands. */
export class LogCaptures {
  readonly commands: CommandLogs;
  readonly #deps: LogCaptureDeps;
  #service: LogCapture | undefined;
  #isStopped = false;

  constructor(deps: LogCaptureDeps & { readonly guest: Guest }) {
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
    if (!this.#isStopped) this.#service ??= new LogCapture(this.#deps);
  }
}
