// Detects guests that hang by heartbeats: each agent is pinged regularly, and operations on a silent one fail at once
// instead of waiting. Each VMM is polled too.
import type { Logger } from 'pino';
import type { LifecycleEvent, LifecycleEvents } from './lifecycle-events.ts';
import type { RunningVm } from './running-vm.ts';
import type { Sandbox } from './sandbox.ts';

export type Watched = Pick<Sandbox, 'id' | 'state'> & {
  readonly record?: Pick<Sandbox['record'], 'owner' | 'metadata'>;
  readonly running: WatchedVm | undefined;
};

type WatchedVm = Pick<RunningVm, 'isSaving' | 'hang'> & {
  readonly guest: Pick<RunningVm['guest'], 'isConnected' | 'ping'>;
  readonly vm: Pick<RunningVm['vm'], 'readBlockedTask' | 'responds' | 'ioPauseReason'>;
};

type WatchdogOptions = {
  /** An agent that has not answered for this long hangs; 0 turns the watchdog off. */
  readonly timeoutMs: number;
  readonly sandboxes: () => Iterable<Watched>;
  readonly events: LifecycleEvents;
  readonly log: Logger;
};

/** Ticks within the timeout after which a guest counts as hanging. */
const TICKS = 3;
const VMM_ANSWER_MS = 2000;
/** After adoption the first poll may fail, because the VMM is not connected yet. */
const MAX_UNANSWERED_POLLS = 2;

/** State of one sandbox's VM. Time is counted in ticks, so time in which the daemon did not run does not count. */
type Watch = {
  readonly running: WatchedVm;
  isPinging: boolean;
  isReporting: boolean;
  /** Ticks since its agent last answered. */
  silentTicks: number;
  isPollingVmm: boolean;
  /** Consecutive polls that its VMM did not answer. */
  unansweredPolls: number;
  /** Whether it was being saved since the last poll of its VMM; a save may delay the answer. */
  wasSaving: boolean;
  /** The last message of the guest's kernel about a blocked task. */
  blockedTask: string | undefined;
};

export class Watchdog implements Disposable {
  readonly #options: WatchdogOptions;
  readonly #watches = new WeakMap<WatchedVm, Watch>();
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
    if (options.timeoutMs === 0) return;
    this.#timer = setInterval(() => this.#tick(), options.timeoutMs / TICKS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    for (const sandbox of this.#options.sandboxes()) {
      const { running } = sandbox;
      if (sandbox.state !== 'running' || running === undefined) continue;
      const watch = this.#watchOf(running);
      // One ping at a time: those of a hanging guest would pile up.
      const isSilent = watch.isPinging || !watch.running.guest.isConnected;
      // A guest is paused while it is saved; that does not count as silence.
      if (watch.running.isSaving) watch.silentTicks = 0;
      else if (isSilent) watch.silentTicks += 1;
      watch.wasSaving ||= watch.running.isSaving;
      if (!isSilent) void this.#ping(sandbox, watch);
      if (!watch.isPollingVmm) void this.#pollVmm(sandbox, watch);
      void this.#readBlocked(sandbox, watch);
      if (watch.silentTicks >= TICKS && !watch.isReporting) void this.#report(sandbox, watch);
    }
  }

  #watchOf(running: WatchedVm): Watch {
    let watch = this.#watches.get(running);
    if (watch === undefined) {
      watch = {
        running,
        isPinging: false,
        isReporting: false,
        silentTicks: 0,
        isPollingVmm: false,
        unansweredPolls: 0,
        wasSaving: false,
        blockedTask: undefined,
      };
      this.#watches.set(running, watch);
    }
    return watch;
  }

  async #ping(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isPinging = true;
    try {
      await watch.running.guest.ping();
      watch.silentTicks = 0;
      if (watch.running.hang !== undefined) this.#emit(sandbox, { kind: 'recovered', sandbox: sandbox.id });
      watch.running.hang = undefined;
    } catch {
      // The connection broke, which is logged elsewhere, and it is reconnected. Until it answers, it counts as
      // silent.
    } finally {
      watch.isPinging = false;
    }
  }

  async #report(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isReporting = true;
    const subject = (await watch.running.vm.responds(VMM_ANSWER_MS))
      ? 'the guest agent'
      : 'the VMM, and so its guest,';
    watch.isReporting = false;
    if (isOver(sandbox, watch) || watch.running.isSaving || watch.silentTicks < TICKS) return;
    const reason = watch.running.vm.ioPauseReason ?? `${subject} has not answered for ${this.#seconds} s`;
    if (reason === watch.running.hang) return;
    watch.running.hang = reason;
    this.#emit(sandbox, { kind: 'hung', sandbox: sandbox.id, reason });
  }

  #emit({ record }: Watched, event: LifecycleEvent): void {
    this.#options.events.emit(event, record?.owner, record?.metadata);
  }

  /** A guest whose VMM alone hangs is usable, but saving, growing and stopping it may fail. */
  async #pollVmm(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isPollingVmm = true;
    watch.wasSaving = watch.running.isSaving;
    const responds = await watch.running.vm.responds(this.#options.timeoutMs);
    watch.isPollingVmm = false;
    if (isOver(sandbox, watch) || watch.wasSaving) return;
    const before = watch.unansweredPolls;
    watch.unansweredPolls = responds ? 0 : before + 1;
    if (watch.unansweredPolls === MAX_UNANSWERED_POLLS)
      this.#log(sandbox).warn({ seconds: this.#seconds }, 'the VMM of a sandbox does not answer');
    if (responds && before >= MAX_UNANSWERED_POLLS)
      this.#log(sandbox).info('the VMM of a sandbox answers again');
  }

  /** An agent may answer while commands never end because their disk is blocked. */
  async #readBlocked(sandbox: Watched, watch: Watch): Promise<void> {
    const task = await watch.running.vm.readBlockedTask();
    if (task === undefined || task === watch.blockedTask) return;
    watch.blockedTask = task;
    this.#log(sandbox).warn({ kernel: task }, 'a task of a guest is blocked');
  }

  get #seconds(): number {
    return Math.round(this.#options.timeoutMs / 1000);
  }

  #log(sandbox: Watched): Logger {
    return this.#options.log.child({ sandbox: sandbox.id });
  }
}

/** What was found out while waiting says nothing about another VM. */
function isOver({ state, running }: Watched, watch: Watch): boolean {
  return state !== 'running' || running !== watch.running;
}
