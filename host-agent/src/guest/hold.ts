// Prepares a guest for a save: its commands are frozen, and the channel is between two frames.
import { type Channel, FREEZE, type RequestInput, type Result, SLEEP } from '@sandboxd/proto';
import { AppError } from '../lib/errors.ts';
import { loadScaledTimeout } from '../lib/load-scaled-timeout.ts';
import { refusalOf } from './agent-errors.ts';

/** An idle guest answers within a millisecond; a busy one is not waited for. */
const HOLD_TIMEOUT_MS = 1000;
/** On an idle host; the guest allows its commands half a second. */
const FREEZE_TIMEOUT_MS = 10_000;
/** Writing a disk out takes as long as the disk needs. */
const SYNC_TIMEOUT_MS = 60_000;
/** The same before a snapshot, which is taken even if the guest is not done by then. */
const WRITE_OUT_TIMEOUT_MS = 10_000;
/** Interval between retries of a thaw that the guest did not accept. */
const THAW_PAUSE_MS = 1000;

export class GuestHold {
  readonly #call: (request: RequestInput, signal?: AbortSignal) => Promise<Result>;
  readonly #current: () => Channel | undefined;
  #holds = 0;

  constructor(
    call: (request: RequestInput, signal?: AbortSignal) => Promise<Result>,
    current: () => Channel | undefined,
  ) {
    this.#call = call;
    this.#current = current;
  }

  /**
   * Freezes the guest's commands and service, stops sending, and waits until the guest has read everything. Returns
   * true if it has, so that a fork needs no resync. `sync`: what was written is on the guest's disks then. A `release`
   * of the channel must follow, even if this rejects. AppError guest_unreachable if the commands may not be frozen: a
   * fork would resume them before it has its own identity.
   */
  async hold(channel: Channel, { sync = false }: { readonly sync?: boolean } = {}): Promise<boolean> {
    if (sync && !(channel.can(SLEEP) && channel.can(FREEZE))) {
      const what = 'the guest agent of this sandbox is too old to write its disk out';
      throw new AppError('unsupported', `${what}; keep its memory, too`);
    }
    this.#holds += 1;
    const timeoutMs = sync ? SYNC_TIMEOUT_MS : FREEZE_TIMEOUT_MS;
    using limit = loadScaledTimeout({
      timeoutMs,
      reason: (waitedMs) =>
        new AppError('guest_unreachable', `the guest agent did not stop its commands within ${waitedMs} ms`),
    });
    // Older agents do not support it.
    const frozen = channel.can(FREEZE)
      ? this.#call({ freeze: { isFrozen: true, sync } }, limit.signal)
      : Promise.resolve();
    const quiet = this.#quiet(channel);
    // The thaw is the first message after the hold, as nothing can be started before it.
    if (channel.can(FREEZE)) this.#thaw(channel);
    const [isQuiet] = await Promise.all([quiet, frozen]);
    return isQuiet;
  }

  /**
   * Lets the guest write out what it has cached, so that its disk alone has its files; it goes on meanwhile. Never
   * rejects: an older agent, or a disk that takes too long, leaves the disk as it is.
   */
  async writeOut(channel: Channel): Promise<void> {
    if (!channel.can(SLEEP) || !channel.can(FREEZE)) return;
    using limit = loadScaledTimeout({
      timeoutMs: WRITE_OUT_TIMEOUT_MS,
      reason: () => new Error('the guest did not write its disk out in time'),
    });
    await this.#call({ freeze: { isFrozen: false, sync: true } }, limit.signal).catch(() => undefined);
  }

  /** A guest that does not answer soon is left as it is. */
  #quiet(channel: Channel): Promise<boolean> {
    const answered = channel.hold().then(
      () => true,
      () => false,
    );
    const timeout = new Promise<boolean>((resolve) => setTimeout(resolve, HOLD_TIMEOUT_MS, false).unref());
    return Promise.race([answered, timeout]);
  }

  /** Retries if the guest refuses the thaw or does not read; after a reconnect, the hello thaws. */
  #thaw(channel: Channel): void {
    const holds = this.#holds;
    const tryAgain = (): void => {
      if (this.#current() === channel && this.#holds === holds) this.#thaw(channel);
    };
    const retry = () => void setTimeout(tryAgain, THAW_PAUSE_MS).unref();
    try {
      channel.open({ freeze: { isFrozen: false } }, { result: (result) => refusalOf(result) && retry() });
    } catch {
      retry();
    }
  }
}
