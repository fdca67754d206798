// A VM that ended while no daemon was running: it can only report why.
import { AppError } from '../lib/errors.ts';
import type { Vm, VmExit, VmmIdentity } from './engine.ts';

export class EndedVm implements Vm {
  readonly identity: VmmIdentity;
  readonly exited: Promise<VmExit>;
  readonly exit: VmExit;
  readonly ioPauseReason = undefined;

  constructor(identity: VmmIdentity, exit: VmExit) {
    this.identity = identity;
    this.exit = exit;
    this.exited = Promise.resolve(exit);
  }

  async openChannel(): Promise<never> {
    throw this.#refusal();
  }

  async save(): Promise<never> {
    throw this.#refusal();
  }

  async resizeDisk(): Promise<never> {
    throw this.#refusal();
  }

  async kill(): Promise<void> {}

  async isEnding(): Promise<boolean> {
    return true;
  }

  async responds(): Promise<boolean> {
    return false;
  }

  async readBlockedTask(): Promise<undefined> {}

  detach(): void {}

  async diagnose(): Promise<string> {
    return this.exit.reason;
  }

  #refusal(): AppError {
    return new AppError('internal', `the VM ended: ${this.exit.reason}`);
  }
}
