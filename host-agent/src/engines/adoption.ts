// Re-attaches to a running VMM that an earlier daemon started; of one that has ended it can only report why.
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, toError } from '../lib/errors.ts';
import { loadScaledTimeout } from '../lib/load-scaled-timeout.ts';
import { readArguments, readBootId, readUids } from '../lib/proc.ts';
import { raceSignal } from '../lib/wait.ts';
import type { VmmFiles, VmmKind } from './control.ts';
import type { AdoptOptions, Vm, VmExit, VmmIdentity } from './engine.ts';
import { readLastWords, Vmm } from './vmm.ts';
import { watchVmm } from './vmm-process.ts';

const RETRY_MS = 5000;

type Adoption = AdoptOptions & {
  /** Runs after the VMM's first answer. */
  readonly onAnswer?: () => Promise<void>;
};

/**
 * Null if the VMM has exited. A VMM has its control socket's path in its arguments. If the process that the daemon
 * started does not, the process has overwritten its arguments, so it is killed.
 */
export function adoptVmm(kind: VmmKind, identity: VmmIdentity, options: Adoption): Vm | null {
  if (identity.bootId !== readBootId()) return null;
  const { controlSocketPath } = kind.filesOf(identity.paths);
  const process = watchVmm(identity.pid, identity.startTicks);
  if (process === null) return null;
  const { pid, jail } = identity;
  if (jail !== undefined && readUids(pid)?.every((uid) => uid === jail.uid) !== true) {
    process.detach();
    return null;
  }
  const vm = new Vmm(kind, identity, process, { ...options, isAdopted: true });
  const isItself = kind.controlSocketOf(readArguments(pid)) === controlSocketPath;
  if (isItself) void takeControl(vm, kind.answerTimeoutMs, options);
  else void vm.terminate('it hides what it was started as, as no VMM does');
  return vm;
}

/** Retries until the VMM answers or exits. The guest's agent is usable meanwhile. */
async function takeControl(vm: Vmm, answerTimeoutMs: number, options: Adoption): Promise<void> {
  const { log, onResumed, onAnswer } = options;
  void vm.control.watch();
  for (let hasWarned = false; !vm.isOver; hasWarned = true) {
    try {
      using limit = loadScaledTimeout({
        timeoutMs: answerTimeoutMs,
        reason: (waitedMs) => new AppError('internal', `the VMM did not answer within ${waitedMs} ms`),
        outer: vm.ended,
      });
      if (!(await vm.control.connect(limit.signal)))
        throw new Error('no process listens on its control socket');
      const { kind } = await raceSignal(vm.checkState(), limit.signal);
      if (vm.isOver) return;
      if (kind === 'paused') {
        await vm.control.resume();
        log.info('resumed a guest that an earlier daemon left paused');
        onResumed?.();
      }
      await onAnswer?.();
      return;
    } catch (error) {
      if (vm.isOver) return;
      if (!hasWarned) log.warn({ err: toError(error) }, 'the VMM does not answer on its control socket yet');
      await sleep(RETRY_MS, undefined, { ref: false });
    }
  }
}

/** Why a VMM that has exited may have ended: from its console, else from what `readEvents` finds. */
export async function explainLostEnd(
  { consolePath }: VmmFiles,
  readEvents: () => Promise<string | undefined> = async () => undefined,
): Promise<string> {
  return (await readLastWords(consolePath)) ?? (await readEvents()) ?? 'the VMM ended while no daemon ran';
}

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
