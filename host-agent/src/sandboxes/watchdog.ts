// Notices guests that hang: each agent is asked for a sign of life again and again, and operations on one that gives none
// say so instead of waiting.
import type { LifeEvents } from './life-events.ts';
import type { Sandbox } from './sandbox.ts';

export type WatchdogOptions = {
  /** An agent that has not answered for this long hangs; 0 watches nothing. */
  readonly timeoutMs: number;
  readonly sandboxes: () => Iterable<Sandbox>;
  readonly events: LifeEvents;
};

/** Looks in the time after which a guest counts as hanging. */
const ROUNDS = 3;
const VMM_ANSWER_MS = 2000;

export class Watchdog implements Disposable {
  readonly #options: WatchdogOptions;
  readonly #asked = new WeakSet<Sandbox>();
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
      // One question at a time: a hanging guest's would pile up.
      if (sandbox.state !== 'running' || !sandbox.guest.isConnected || this.#asked.has(sandbox)) continue;
      this.#asked.add(sandbox);
      void this.#ask(sandbox).finally(() => this.#asked.delete(sandbox));
    }
  }

  async #ask(sandbox: Sandbox): Promise<void> {
    const { timeoutMs, events } = this.#options;
    const timer = setTimeout(() => void this.#report(sandbox), timeoutMs).unref();
    try {
      await sandbox.guest.ping();
      if (sandbox.hang !== undefined) events.emit({ kind: 'recovered', sandbox: sandbox.id });
    } catch {
      // The connection broke: that has its own message, and is made again.
    } finally {
      clearTimeout(timer);
      sandbox.hang = undefined;
    }
  }

  async #report(sandbox: Sandbox): Promise<void> {
    // It stands still while it is saved.
    if (sandbox.isSaving || sandbox.state !== 'running') return;
    const who = (await sandbox.vm.responds(VMM_ANSWER_MS)) ? 'the guest agent' : 'the VMM, and so its guest,';
    if (sandbox.state !== 'running' || !this.#asked.has(sandbox)) return;
    const seconds = Math.round(this.#options.timeoutMs / 1000);
    sandbox.hang = sandbox.vm.standstill ?? `${who} has not answered for ${seconds} s`;
    this.#options.events.emit({ kind: 'hung', sandbox: sandbox.id, reason: sandbox.hang });
  }
}
