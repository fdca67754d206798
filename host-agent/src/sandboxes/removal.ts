// The end of a sandbox on this host: hidden first, then cleaned up in the background.
import type { LifecycleEvent, LifecycleEvents } from './lifecycle-events.ts';
import type { Sandbox } from './sandbox.ts';
import type { Snapshots } from './snapshots.ts';
import type { Sweeps } from './sweeps.ts';

type RemovalDeps = {
  readonly sandboxes: Map<string, Sandbox>;
  readonly events: Pick<LifecycleEvents, 'notify'>;
  readonly sweeps: Sweeps;
  readonly snapshots: Pick<Snapshots, 'forgetUnused'>;
};

export type Removal = {
  /** See `Sandbox.leave`. */
  readonly reason?: string | undefined;
  readonly events?: readonly LifecycleEvent[] | undefined;
  /** Another host has it; called when nothing of it is left here. */
  readonly onGone?: (() => Promise<void>) | undefined;
};

export async function removeSandbox(
  sandbox: Sandbox,
  { sandboxes, events, sweeps, snapshots }: RemovalDeps,
  { reason, events: persisted, onGone }: Removal,
): Promise<void> {
  const isMoved = onGone !== undefined;
  await sandbox.leave(reason, persisted, isMoved);
  if (!sandboxes.delete(sandbox.id)) return;
  events.notify({ kind: isMoved ? 'moved' : 'deleted', sandbox: sandbox.id });
  sweeps.start(sandbox, async () => {
    if (sandbox.state === 'deleted') await onGone?.();
    await snapshots.forgetUnused();
  });
}
