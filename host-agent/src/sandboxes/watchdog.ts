// Notices guests that hang: each agent is asked for a sign of life again and again, and operations on one that gives none
// say so instead of waiting. Its VMM is asked, too.
import type { Logger } from 'pino';
import type { LifecycleEvent, LifecycleEvents } from './lifecycle-events.ts';
import type { Sandbox } from './sandbox.ts';

export type Watched = Pick<Sandbox, 'id' | 'state' | 'isSaving' | 'hang'> & {
  readonly guest: Pick<Sandbox['guest'], 'isConnected' | 'ping'>;
  readonly record?: Pick<Sandbox['record'], 'owner'>;
  readonly vm: Pick<Sandbox['vm'], 'readBlockedTask' | 'responds' | 'ioPauseReason'>;
};

export type WatchdogOptions = {
  /** An agent that has not answered for this long hangs; 0 watches nothing. */
  readonly timeoutMs: number;
  readonly sandboxes: () => Iterable<Watched>;
  readonly events: LifecycleEvents;
  readonly log: Logger;
};

/** Looks in the time after which a guest counts as hanging. */
const ROUNDS = 3;
const VMM_ANSWER_MS = 2000;
/** The first may be one to a VMM that an adoption has no connection to yet. */
const VMM_SILENCES = 2;

/** What is known of one sandbox. Time is counted in looks: one in which the daemon itself did not run is none. */
type Watch = {
  isAsking: boolean;
  isReporting: boolean;
  /** Looks since its agent last answered. */
  silentLooks: number;
  isAskingVmm: boolean;
  /** Questions in a row that its VMM did not answer. */
  vmmSilences: number;
  /** Whether it was being saved since its VMM was asked, which may keep that from answering. */
  wasSaving: boolean;
  /** What its kernel said last of a task that waits for ever. */
  blockedTask: string | undefined;
};

export class Watchdog implements Disposable {
  readonly #options: WatchdogOptions;
  readonly #watches = new WeakMap<Watched, Watch>();
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(options: WatchdogOptions) {
    this.#options = options;
    if (options.timeoutMs === 0) return;
    this.#timer = setInterval(() => this.#look(), options.timeoutMs / ROUNDS).unref();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    for (const sandbox of this.#options.sandboxes()) {
      if (sandbox.state !== 'running') continue;
      const watch = this.#watchOf(sandbox);
      // One question at a time: a hanging guest's would pile up.
      const isSilent = watch.isAsking || !sandbox.guest.isConnected;
      // It stands still while it is saved: that is no silence of its own, which begins anew with the next look.
      if (sandbox.isSaving) watch.silentLooks = 0;
      else if (isSilent) watch.silentLooks += 1;
      watch.wasSaving ||= sandbox.isSaving;
      if (!isSilent) void this.#ask(sandbox, watch);
      if (!watch.isAskingVmm) void this.#askVmm(sandbox, watch);
      void this.#readBlocked(sandbox, watch);
      if (watch.silentLooks >= ROUNDS && !watch.isReporting) void this.#report(sandbox, watch);
    }
  }

  #watchOf(sandbox: Watched): Watch {
    let watch = this.#watches.get(sandbox);
    if (watch === undefined) {
      watch = {
        isAsking: false,
        isReporting: false,
        silentLooks: 0,
        isAskingVmm: false,
        vmmSilences: 0,
        wasSaving: false,
        blockedTask: undefined,
      };
      this.#watches.set(sandbox, watch);
    }
    return watch;
  }

  async #ask(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isAsking = true;
    try {
      await sandbox.guest.ping();
      watch.silentLooks = 0;
      if (sandbox.hang !== undefined) this.#emit(sandbox, { kind: 'recovered', sandbox: sandbox.id });
      sandbox.hang = undefined;
    } catch {
      // The connection broke: that has its own message, and is made again. Until it answers it is as silent as before.
    } finally {
      watch.isAsking = false;
    }
  }

  async #report(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isReporting = true;
    const who = (await sandbox.vm.responds(VMM_ANSWER_MS)) ? 'the guest agent' : 'the VMM, and so its guest,';
    watch.isReporting = false;
    if (sandbox.state !== 'running' || sandbox.isSaving || watch.silentLooks < ROUNDS) return;
    const reason = sandbox.vm.ioPauseReason ?? `${who} has not answered for ${this.#seconds} s`;
    if (reason === sandbox.hang) return;
    sandbox.hang = reason;
    this.#emit(sandbox, { kind: 'hung', sandbox: sandbox.id, reason });
  }

  #emit({ record }: Watched, event: LifecycleEvent): void {
    this.#options.events.emit(event, record?.owner);
  }

  /** A guest whose VMM alone hangs can be used; saving, growing and ending it cannot be relied on. */
  async #askVmm(sandbox: Watched, watch: Watch): Promise<void> {
    watch.isAskingVmm = true;
    watch.wasSaving = sandbox.isSaving;
    const responds = await sandbox.vm.responds(this.#options.timeoutMs);
    watch.isAskingVmm = false;
    if (sandbox.state !== 'running' || watch.wasSaving) return;
    const before = watch.vmmSilences;
    watch.vmmSilences = responds ? 0 : before + 1;
    if (watch.vmmSilences === VMM_SILENCES)
      this.#log(sandbox).warn({ seconds: this.#seconds }, 'the VMM of a sandbox does not answer');
    if (responds && before >= VMM_SILENCES) this.#log(sandbox).info('the VMM of a sandbox answers again');
  }

  /** An agent that answers may have commands that never end, as their disk does not. */
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
