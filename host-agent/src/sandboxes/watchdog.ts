// Detects guests that hang by heartbeats: each agent is pinged regularly, and operations on a silent one fail at once
// instead of waiting. Each VMM is polled too.
import type { Logger } from 'pino';
import type { LifecycleEvent, LifecycleEvents } from './lifecycle-events.ts';
import type { Sandbox } from './sandbox.ts';

export type Watched = Pick<Sandbox, 'id' | 'state' | 'isSaving' | 'hang'> & {
  readonly guest: Pick<Sandbox['guest'], 'isConnected' | 'ping'>;
  readonly record?: Pick<Sandbox['record'], 'owner' | 'metadata'>;
  readonly vm: Pick<Sandbox['vm'], 'readBlockedTask' | 'responds' | 'ioPauseReason'>;
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

/** State of one sandbox. Time is counted in ticks, so time in which the daemon did not run does not count. */
type Watch = {
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
  readonly #watches = new WeakMap<Watched, Watch>();
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
      if (sandbox.state !== 'running') continue;
      const watch = this.#watchOf(sandbox);
      // One ping at a time: those of a hanging guest would pile up.
      const isSilent = watch.isPinging || !sandbox.guest.isConnected;
      // A guest is paused while it is saved; that does not count as silence.
      if (sandbox.isSaving) watch.silentTicks = 0;
      else if (isSilent) watch.silentTicks += 1;
      watch.wasSaving ||= sandbox.isSaving;
      if (!isSilent) void this.#ping(sandbox, watch);
      if (!watch.isPollingVmm) void this.#pollVmm(sandbox, watch);
      void this.#readBlocked(sandbox, watch);
      if (watch.silentTicks >= TICKS && !watch.isReporting) void this.#report(sandbox, watch);
    }
  }

  #watchOf(sandbox: Watched): Watch {
    let watch = this.#watches.get(sandbox);
    if (watch === undefined) {
      watch = {
        isPinging: false,
        isReporting: false,
        silentTicks: 0,
        isPollingVmm: false,
        unansweredPolls: 0,
        wasSaving: false,
        blockedTask: undefined,
      };
      this.#watches.set(sandbox, watch);
    }
    return watch;
  }

  async #ping(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isPinging = true;
    try {
      await sandbox.guest.ping();
      watch.silentTicks = 0;
      if (sandbox.hang !== undefined) this.#emit(sandbox, { kind: 'recovered', sandbox: sandbox.id });
      sandbox.hang = undefined;
    } catch {
      // The connection broke, which is logged elsewhere, and it is reconnected. Until it answers, it counts as
      // silent.
    } finally {
      watch.isPinging = false;
    }
  }

  async #report(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isReporting = true;
    const subject = (await sandbox.vm.responds(VMM_ANSWER_MS))
      ? 'the guest agent'
      : 'the VMM, and so its guest,';
    watch.isReporting = false;
    if (sandbox.state !== 'running' || sandbox.isSaving || watch.silentTicks < TICKS) return;
    const reason = sandbox.vm.ioPauseReason ?? `${subject} has not answered for ${this.#seconds} s`;
    if (reason === sandbox.hang) return;
    sandbox.hang = reason;
    this.#emit(sandbox, { kind: 'hung', sandbox: sandbox.id, reason });
  }

  #emit({ record }: Watched, event: LifecycleEvent): void {
    this.#options.events.emit(event, record?.owner, record?.metadata);
  }

  /** A guest whose VMM alone hangs is usable, but saving, growing and stopping it may fail. */
  async #pollVmm(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isPollingVmm = true;
    watch.wasSaving = sandbox.isSaving;
    const responds = await sandbox.vm.responds(this.#options.timeoutMs);
    watch.isPollingVmm = false;
    if (sandbox.state !== 'running' || watch.wasSaving) return;
    const before = watch.unansweredPolls;
    watch.unansweredPolls = responds ? 0 : before + 1;
    if (watch.unansweredPolls === MAX_UNANSWERED_POLLS)
      this.#log(sandbox).warn({ seconds: this.#seconds }, 'the VMM of a sandbox does not answer');
    if (responds && before >= MAX_UNANSWERED_POLLS)
      this.#log(sandbox).info('the VMM of a sandbox answers again');
  }

  /** An agent may answer while commands never end because their disk is blocked. */
  async #readBlocked(sandbox: Watched, watch: Watch): Promise<void> {
    const task = await sandbox.vm.readBlockedTask();
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
