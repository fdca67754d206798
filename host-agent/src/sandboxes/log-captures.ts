// What copies the output of one guest to the log of its sandbox: that of its service, and of its detached commands.
import type { Guest } from '../guest/guest.ts';
import { CommandLogs, type CommandLogsDeps } from './command-logs.ts';
import { LogCapture, type LogCaptureDeps } from './log-capture.ts';

export class LogCaptures {
  readonly commands: CommandLogs;
  readonly #service: LogCapture;

  constructor(deps: LogCaptureDeps & Pick<CommandLogsDeps, 'counts'> & { readonly guest: Guest }) {
    this.#service = new LogCapture(deps);
    this.commands = new CommandLogs(deps);
  }

  /** The guest of a new sandbox has no commands yet. */
  begin(mayHaveCommands: boolean): void {
    if (mayHaveCommands) void this.commands.adopt();
  }

  stop(): void {
    this.#service.stop();
    this.commands.stop();
  }
}
