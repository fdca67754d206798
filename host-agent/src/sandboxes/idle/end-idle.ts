// The end of a sandbox that nobody used for as long as it may be so.
import type { Logger } from 'pino';
import type { Principal } from '../../keys/index.ts';
import { toError } from '../../lib/errors.ts';
import type { LifecycleEvent, LifecycleEvents } from '../lifecycle-events.ts';
import type { Sandbox } from '../sandbox.ts';
import type { SnapshotInfo } from '../types.ts';

export type EndIdleParts = {
  readonly events: LifecycleEvents;
  readonly log: Logger;
  readonly save: (principal: Principal | undefined) => Promise<SnapshotInfo>;
  readonly unsave: (snapshotId: string) => Promise<void>;
  readonly remove: (why: string, events: readonly LifecycleEvent[]) => Promise<void>;
};

/** Whoever uses it before it is being deleted wins: then it stays, without a snapshot. Never rejects. */
export async function endIdle(
  sandbox: Pick<Sandbox, 'id' | 'record' | 'state' | 'note'>,
  signal: AbortSignal,
  { events, log, save, unsave, remove }: EndIdleParts,
): Promise<void> {
  const { idle } = sandbox.record.options;
  // One whose VM died says why until somebody deletes it, as it would without.
  if (idle === undefined || sandbox.state !== 'running') return;
  let snapshot: string | undefined;
  try {
    if (idle.action === 'snapshot') {
      const { owner } = sandbox.record;
      ({ id: snapshot } = await save(owner && { ...owner, id: owner.key }));
      if (signal.aborted || sandbox.state !== 'running') throw new Error('it is used again, or was deleted');
    }
    const about = { kind: 'idle', sandbox: sandbox.id, idleS: idle.timeoutS } as const;
    const event = { ...about, ...(snapshot !== undefined && { snapshot }) };
    events.notify(event);
    const saved = snapshot === undefined ? '' : `, and was saved as ${snapshot}`;
    await remove(`: nobody used it for its idle_timeout_s of ${idle.timeoutS}${saved}`, [event]);
  } catch (error) {
    // What stays is not saved again and again.
    if (snapshot !== undefined) await unsave(snapshot).catch(() => undefined);
    if (signal.aborted || sandbox.state !== 'running') return;
    const reason = toError(error).message;
    log.warn({ err: error, sandbox: sandbox.id }, 'cannot end an idle sandbox; it is tried again');
    if (idle.action !== 'snapshot') return;
    sandbox.note(`idle for ${idle.timeoutS} s, but it could not be saved and stays: ${reason}`);
    events.emit({ kind: 'idle-kept', sandbox: sandbox.id, reason }, sandbox.record.owner);
  }
}
