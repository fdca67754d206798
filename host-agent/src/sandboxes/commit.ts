// The moment from which sandboxes are somebody's: they survive a crash, and it is told that they are there.
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';

/** All of them or none; what fails, or was cancelled, leaves nothing of any. */
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
