// What a sandbox has only while its VM runs: the VM, the connection to its guest, and what copies the guest's output to
// the sandbox's log. A sandbox that is paused has none; after its resume it has another.
import type { Logger } from 'pino';
import type { Vm } from '../engines/engine.ts';
import type { Guest } from '../guest/guest.ts';
import type { SandboxLog } from '../logs/index.ts';
import { LogCaptures } from './command-logs.ts';
import type { CommandCounts } from './exec.ts';

export type RunningVmOptions = {
  readonly vm: Vm;
  readonly guest: Guest;
  /** Absent: the sandbox has no durable log. */
  readonly sandboxLog: SandboxLog | undefined;
  readonly log: Logger;
  /** The guest's service wrote output. */
  readonly onOutput: () => void;
  readonly counts: CommandCounts;
};

export class RunningVm {
  readonly vm: Vm;
  readonly guest: Guest;
  readonly captures: LogCaptures | undefined;
  /** Why its guest is unusable at present; set by the watchdog. */
  hang: string | undefined;
  /** Its guest is paused to be saved, or will be soon. */
  isSaving = false;

  constructor({ vm, guest, sandboxLog, log, onOutput, counts }: RunningVmOptions) {
    this.vm = vm;
    this.guest = guest;
    this.captures = sandboxLog && new LogCaptures({ guest, log: sandboxLog, logger: log, onOutput, counts });
  }

  /** Why its guest does not answer; undefined if it does. */
  get hangReason(): string | undefined {
    return this.vm.ioPauseReason ?? this.hang;
  }

  /** Number of detached commands that run, as far as they are followed for the log. */
  get detachedCommands(): number {
    return this.vm.exit === undefined ? (this.captures?.commands.count ?? 0) : 0;
  }

  /** Detaches from the VM: the guest keeps running, and a later daemon adopts it. */
  detach(cause: Error): void {
    this.guest.close(cause);
    this.vm.detach();
  }
}
