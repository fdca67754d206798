// Sandboxes that end without a request: timeout_s has passed, or no client used one for its idle_timeout_s.
import type { Logger } from 'pino';
import type { Owner, SnapshotMaker } from '../../keys/index.ts';
import { toError } from '../../lib/errors.ts';
import type { LifecycleEvent, LifecycleEvents } from '../lifecycle-events.ts';
import type { Sandbox, SandboxOwner } from '../sandbox.ts';
import type { SnapshotInfo } from '../types.ts';

export type EndIdleParts = {
  readonly events: LifecycleEvents;
  readonly log: Logger;
  readonly save: (owner: Owner | undefined) => Promise<SnapshotInfo>;
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
      ({ id: snapshot } = await save(sandbox.record.owner));
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

/** A delete that failed is tried again: a disk in trouble may recover. */
const RETRY_MS = 10_000;

export type AutomaticEndDeps = Pick<EndIdleParts, 'events' | 'log' | 'unsave'> & {
  readonly save: (
    sandbox: Sandbox,
    signal: AbortSignal | undefined,
    by: SnapshotMaker | undefined,
  ) => Promise<SnapshotInfo>;
  readonly remove: (sandbox: Sandbox, why: string, events: readonly LifecycleEvent[]) => Promise<void>;
  /** Whether the daemon still has it, and is not stopping. */
  readonly isWanted: (sandbox: Sandbox) => boolean;
};

/** What sandboxes ask of the manager for themselves. */
export class AutomaticEnd implements SandboxOwner {
  readonly #deps: AutomaticEndDeps;

  constructor(deps: AutomaticEndDeps) {
    this.#deps = deps;
  }

  snapshot(sandbox: Sandbox, signal?: AbortSignal, by?: SnapshotMaker): Promise<SnapshotInfo> {
    return this.#deps.save(sandbox, signal, by);
  }

  idle(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    return endIdle(sandbox, signal, {
      ...this.#deps,
      save: (owner) => this.#deps.save(sandbox, signal, owner),
      remove: (why, events) => this.#remove(sandbox, why, events),
    });
  }

  expired(sandbox: Sandbox): void {
    const { timeoutS } = sandbox.record.options;
    const expired = { kind: 'expired', sandbox: sandbox.id, timeoutS } as const;
    this.#deps.events.notify(expired);
    void this.#remove(sandbox, ': its timeout_s has passed', [expired]);
  }

  /** A delete at the same time waits for this one. Never rejects. */
  #remove(sandbox: Sandbox, why: string, events: readonly LifecycleEvent[]): Promise<void> {
    const { remove, isWanted, log } = this.#deps;
    return remove(sandbox, why, events).catch((err) => {
      if (!isWanted(sandbox)) return;
      log.error({ err, sandbox: sandbox.id }, 'cannot delete an expired sandbox; it is tried again');
      setTimeout(() => void this.#remove(sandbox, why, events), RETRY_MS).unref();
    });
  }
}
