// Commits new sandboxes: they become visible to users and survive a crash.
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';

/** Commits all sandboxes or none. On failure or cancellation all of them are removed. */
export async function commitSandboxes<T extends readonly Sandbox[]>(
  { records, faults }: Pick<ResourceContext, 'records' | 'faults'>,
  sandboxes: T,
  signal: AbortSignal,
): Promise<T> {
  try {
    signal.throwIfAborted();
    const ready = sandboxes.map((sandbox) => ({ id: sandbox.id, ...sandbox.becomeReady() }));
    await records.putAll(ready, () => {
      for (const { event } of ready) event.persist();
    });
    for (const sandbox of sandboxes) sandbox.announce();
    faults.reach('start.committed');
    signal.throwIfAborted();
    return sandboxes;
  } catch (error) {
    await Promise.allSettled(sandboxes.map((sandbox) => sandbox.discard()));
    throw error;
  }
}
