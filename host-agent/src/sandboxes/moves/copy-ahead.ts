// The first of the two uploads of a sandbox that leaves: it is saved and sent while it runs. Once it is paused, only
// what has changed since is to be sent. Nothing in the store names these chunks, so none has to be removed there.
import type { Logger } from 'pino';
import { firstLine } from '../../lib/errors.ts';
import type { ResourceContext } from '../resources/resource.ts';
import type { Sandbox } from '../sandbox.ts';
import type { SavedGuest } from '../saved/saved-guest.ts';
import { partsOf } from '../stored/description.ts';
import type { SharedOptions } from '../stored/shared.ts';

export type CopyDeps = {
  readonly context: Pick<ResourceContext, 'faults'>;
  readonly store: SharedOptions['store'];
  /** Under a hidden name; it runs on. */
  readonly save: (sandbox: Sandbox, signal: AbortSignal) => Promise<SavedGuest>;
  /** A stopping daemon waits for it, and aborts the signal. */
  readonly track: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly log: Logger;
};

/** Rejects only when aborted; after a failure, all is sent later. Nothing is left on this host. */
export async function copyAhead(sandbox: Sandbox, deps: CopyDeps, signal: AbortSignal): Promise<void> {
  const { context, log, track } = deps;
  try {
    await track((stop) => copy(sandbox, deps, AbortSignal.any([signal, stop])));
    context.faults.reach('move.copied');
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ sandbox: sandbox.id, reason: firstLine(error) }, 'a sandbox is sent only when it is paused');
  }
}

async function copy(
  sandbox: Sandbox,
  { context, log, save, store }: CopyDeps,
  signal: AbortSignal,
): Promise<void> {
  const { id, record } = sandbox;
  const startedAt = performance.now();
  const saved = await save(sandbox, signal);
  try {
    context.faults.reach('move.saved');
    const files = { tenant: record.owner?.tenant, files: partsOf(saved) };
    const { sentBytes } = await store.sendChunks(files, signal);
    const durationMs = Math.round(performance.now() - startedAt);
    log.info({ sandbox: id, sentBytes, durationMs }, 'a sandbox that is to leave was sent while it ran');
  } finally {
    // The next daemon removes what is left.
    await saved
      .remove()
      .catch((err) => log.warn({ err, sandbox: id }, 'cannot remove the copy of a sandbox'));
  }
}
