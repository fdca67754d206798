// Using a guest before it is saved: what runs once is compiled, opened and cached in every copy.
import { AppError } from '../lib/errors.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import { makeIdentity } from './identity.ts';
import type { Sandbox } from './sandbox.ts';

const WARM_ROUNDS = 2;
const WARM_TIMEOUT_MS = 60_000;

/** As its copies will be used, over connections of their own. AppError when it hangs meanwhile: it makes no template. */
export async function warm(
  { id, guest, record }: Pick<Sandbox, 'id' | 'guest' | 'record'>,
  timeoutMs: number,
  outer: AbortSignal,
): Promise<void> {
  const tooLate = () => new AppError('internal', `the guest agent did not answer within ${timeoutMs} ms`);
  for (let round = 0; round < WARM_ROUNDS; round++) {
    using limit = deadline(timeoutMs, tooLate, outer);
    await guest.reconnect(`warm-${round}`, limit.signal);
    await guest.setIdentity(makeIdentity(id, record.network), limit.signal);
    await raceSignal(guest.warm(WARM_TIMEOUT_MS), limit.signal);
  }
}
