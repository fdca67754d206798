// Graceful shutdown of a daemon's sandboxes: new work is refused, starts and saves are cancelled, and the sandboxes are
// left to the next daemon, or deleted.
import type { Logger } from 'pino';
import { AppError, toError } from '../lib/errors.ts';
import type { Sandbox } from './sandbox.ts';
import type { Operations, Sweeps } from './sweeps.ts';

type StoppingDeps = {
  readonly sandboxes: ReadonlyMap<string, Sandbox>;
  readonly operations: Operations;
  readonly sweeps: Sweeps;
  readonly remove: (id: string) => Promise<void>;
  /** Each ends its own work; in order. */
  readonly before: readonly (() => Promise<void>)[];
  readonly stopSnapshots: () => Promise<void>;
  readonly log: Logger;
};

/** Rejects when a delete failed. */
export async function stopSandboxes(
  { sandboxes, operations, sweeps, remove, before, stopSnapshots, log }: StoppingDeps,
  onExit: 'keep' | 'destroy',
): Promise<void> {
  const cause = new AppError('cancelled', 'the daemon is stopping');
  operations.cancel(cause);
  for (const stop of before) await stop();
  await operations.settled();
  // Deletes of expired sandboxes have no waiting request, so they are awaited here.
  const leaving = [...sandboxes.values()].filter(({ state }) => state === 'deleting');
  const deletes = leaving.map(({ id }) => remove(id));
  await Promise.all([sweeps.finishSoon(deletes), stopSnapshots()]);
  if (onExit === 'keep') {
    const { size } = sandboxes;
    await Promise.all([...sandboxes.values()].map((sandbox) => sandbox.detach(cause)));
    if (size > 0) log.info({ sandboxes: size }, 'sandboxes keep running; the next daemon adopts them');
    return;
  }
  const ids = [...sandboxes.keys()];
  const deletions = await Promise.allSettled(ids.map((id) => remove(id)));
  // What is not there is on another host by now.
  const isHere = (at: number): boolean => sandboxes.has(ids[at] ?? '');
  const failure = deletions.find((deletion, at) => deletion.status === 'rejected' && isHere(at));
  await sweeps.finish();
  if (failure?.status === 'rejected') throw toError(failure.reason);
}
