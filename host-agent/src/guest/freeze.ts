// Freezes a guest's commands and service while its memory is saved, and thaws them in the original and in each fork.
import { type Channel, FREEZE, type RequestInput, type Result } from '@sandboxd/proto';
import { AppError } from '../lib/errors.ts';
import { loadScaledTimeout } from '../lib/load-scaled-timeout.ts';
import { refusalOf } from './agent-errors.ts';

/** An idle guest answers within a millisecond; a busy one is not waited for. */
const HOLD_TIMEOUT_MS = 1000;
/** On an idle host; the guest allows its commands half a second. */
const FREEZE_TIMEOUT_MS = 10_000;
/** Interval between retries of a thaw that the guest did not accept. */
const THAW_PAUSE_MS = 1000;

type FreezeCalls = {
  /** False once the channel was lost or replaced; the hello of the next one thaws. */
  readonly isCurrent: (channel: Channel) => boolean;
  readonly call: (request: RequestInput, signal: AbortSignal) => Promise<Result>;
};

export class GuestFreeze {
  readonly #calls: FreezeCalls;
  #holds = 0;

  constructor(calls: FreezeCalls) {
    this.#calls = calls;
  }

  /** Returns whether the guest has read everything. The channel's `release` must follow, even if this rejects. */
  async hold(channel: Channel): Promise<boolean> {
    this.#holds += 1;
    using limit = loadScaledTimeout({
      timeoutMs: FREEZE_TIMEOUT_MS,
      reason: (waitedMs) =>
        new AppError('guest_unreachable', `the guest agent did not stop its commands within ${waitedMs} ms`),
    });
    // Older agents do not support it.
    const frozen = channel.can(FREEZE)
      ? this.#calls.call({ freeze: { isFrozen: true } }, limit.signal)
      : Promise.resolve();
    const quiet = waitQuiet(channel);
    // The thaw is the first message after the hold, as nothing can be started before it.
    if (channel.can(FREEZE)) this.#thaw(channel);
    const [isQuiet] = await Promise.all([quiet, frozen]);
    return isQuiet;
  }

  /** Retries if the guest refuses the thaw or does not read; after a reconnect, the hello thaws. */
  #thaw(channel: Channel): void {
    const holds = this.#holds;
    const tryAgain = (): void => {
      if (this.#calls.isCurrent(channel) && this.#holds === holds) this.#thaw(channel);
    };
    const retry = () => void setTimeout(tryAgain, THAW_PAUSE_MS).unref();
    try {
      channel.open({ freeze: { isFrozen: false } }, { result: (result) => refusalOf(result) && retry() });
    } catch {
      retry();
    }
  }
}

/** A guest that does not answer soon is left as it is. */
function waitQuiet(channel: Channel): Promise<boolean> {
  const answered = channel.hold().then(
    () => true,
    () => false,
  );
  const timeout = new Promise<boolean>((resolve) => setTimeout(resolve, HOLD_TIMEOUT_MS, false).unref());
  return Promise.race([answered, timeout]);
}
