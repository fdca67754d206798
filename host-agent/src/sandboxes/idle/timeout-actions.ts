// The actions at the end of a timeout_s or of an idle timeout: delete, pause, or take a snapshot and delete.
import type { Logger } from 'pino';
import type { Owner } from '../../keys/index.ts';
import { toError } from '../../lib/errors.ts';
import type { SnapshotRequest } from '../interface.ts';
import type { LifecycleEvent, LifecycleEvents } from '../lifecycle-events.ts';
import type { Sandbox } from '../sandbox.ts';
import type { PauseRequest } from '../sleep/sleep.ts';
import type { IdleRule, SnapshotInfo } from '../types.ts';
import type { SandboxOwner } from './timeouts.ts';

export type EndIdleDeps = {
  readonly events: LifecycleEvents;
  readonly log: Logger;
  readonly save: (owner: Owner | undefined) => Promise<SnapshotInfo>;
  readonly deleteSnapshot: (snapshotId: string) => Promise<void>;
  /** Deletes those that the rule of the sandbox keeps no longer. */
  readonly deleteOlder: (snapshotId: string) => Promise<void>;
  readonly remove: (reason: string, events: readonly LifecycleEvent[]) => Promise<void>;
  readonly pause: () => Promise<void>;
};

/**
 * Deletes an idle sandbox, after a snapshot if its idle rule says so. A use before the delete starts cancels it: the
 * sandbox stays, and the snapshot is deleted. Never rejects.
 */
export async function endIdle(
  sandbox: Pick<Sandbox, 'id' | 'record' | 'state' | 'note'>,
  signal: AbortSignal,
  { events, log, save, deleteSnapshot, deleteOlder, remove, pause }: EndIdleDeps,
): Promise<void> {
  const { idle } = sandbox.record.options;
  // A sandbox whose VM died stays listed with the cause until a client deletes it.
  if (idle === undefined || sandbox.state !== 'running') return;
  if (idle.action === 'pause') return pauseIdle(sandbox, signal, { events, log, pause });
  let snapshot: string | undefined;
  try {
    if (idle.action === 'snapshot') {
      ({ id: snapshot } = await save(sandbox.record.owner));
      if (signal.aborted || sandbox.state !== 'running') throw new Error('it is used again, or was deleted');
    }
    const idleEvent = { kind: 'idle', sandbox: sandbox.id, idleS: idle.timeoutS } as const;
    const event = { ...idleEvent, ...(snapshot !== undefined && { snapshot }) };
    events.notify(event);
    const saved = snapshot === undefined ? '' : `, and was saved as ${snapshot}`;
    await remove(`: it was not used for its idle_timeout_s of ${idle.timeoutS}${saved}`, [event]);
    if (snapshot !== undefined) await deleteOlder(snapshot);
  } catch (error) {
    // A sandbox that stays must not leave a snapshot after each attempt.
    if (snapshot !== undefined) await deleteSnapshot(snapshot).catch(() => undefined);
    if (signal.aborted || sandbox.state !== 'running') return;
    const reason = toError(error).message;
    log.warn({ err: error, sandbox: sandbox.id }, 'cannot delete an idle sandbox; retrying');
    if (idle.action !== 'snapshot') return;
    sandbox.note(`idle for ${idle.timeoutS} s, but it could not be saved and stays: ${reason}`);
    events.emit(
      { kind: 'idle-kept', sandbox: sandbox.id, reason },
      sandbox.record.owner,
      sandbox.record.metadata,
    );
  }
}

/** A use before everything is on disk cancels it. */
async function pauseIdle(
  sandbox: Pick<Sandbox, 'id' | 'record' | 'state' | 'note'>,
  signal: AbortSignal,
  { events, log, pause }: Pick<EndIdleDeps, 'events' | 'log' | 'pause'>,
): Promise<void> {
  try {
    await pause();
  } catch (error) {
    if (signal.aborted || sandbox.state !== 'running') return;
    reportPauseFailure(sandbox, error, { events, log });
  }
}

function reportPauseFailure(
  sandbox: Pick<Sandbox, 'id' | 'record' | 'note'>,
  error: unknown,
  { events, log }: Pick<EndIdleDeps, 'events' | 'log'>,
): void {
  const reason = toError(error).message;
  const { id, record } = sandbox;
  log.warn({ err: error, sandbox: id }, 'cannot pause a sandbox; retrying');
  sandbox.note(`it could not be paused and goes on: ${reason}`);
  events.emit({ kind: 'pause-failed', sandbox: id, reason }, record.owner, record.metadata);
}

function toRequest({
  keepLast,
  snapshotExpiresS: expiresS,
}: Partial<IdleRule> = {}): Pick<SnapshotRequest, 'about' | 'automatic'> {
  return { automatic: keepLast === undefined ? {} : { keepLast }, about: { expiresS } };
}

/** A failed delete is retried after this time: a failing disk may recover. */
const RETRY_MS = 10_000;

/** A failed pause at the end of a lifetime is retried after this time; so often it may write its memory. */
const PAUSE_RETRY_MS = 60_000;

export type TimeoutActionsDeps = Pick<EndIdleDeps, 'events' | 'log' | 'deleteSnapshot' | 'deleteOlder'> & {
  readonly save: (
    sandbox: Sandbox,
    signal: AbortSignal | undefined,
    by: SnapshotRequest | undefined,
  ) => Promise<SnapshotInfo>;
  readonly remove: (sandbox: Sandbox, reason: string, events: readonly LifecycleEvent[]) => Promise<void>;
  readonly pause: (sandbox: Sandbox, request: PauseRequest) => Promise<void>;
  /** Whether the daemon still manages it and is not stopping. */
  readonly isManaged: (sandbox: Sandbox) => boolean;
};

/** The manager's side of timeouts. */
export class TimeoutActions implements SandboxOwner<Sandbox> {
  readonly #deps: TimeoutActionsDeps;

  constructor(deps: TimeoutActionsDeps) {
    this.#deps = deps;
  }

  snapshot(sandbox: Sandbox, signal?: AbortSignal, by?: SnapshotRequest): Promise<SnapshotInfo> {
    return this.#deps.save(sandbox, signal, by);
  }

  idle(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    return endIdle(sandbox, signal, {
      ...this.#deps,
      save: (owner) => this.#deps.save(sandbox, signal, { owner, ...toRequest(sandbox.record.options.idle) }),
      remove: (reason, events) => this.#remove(sandbox, reason, events),
      pause: () => this.#deps.pause(sandbox, { hasMemory: true, reason: 'idle_timeout_s', signal }),
    });
  }

  expired(sandbox: Sandbox): void {
    const { options, exit } = sandbox.record;
    if (exit?.rebootFoundAtMs !== undefined) return void this.#remove(sandbox, ': the host was rebooted', []);
    const { timeoutS, timeoutAction } = options;
    if (timeoutAction === 'pause') {
      void this.#pauseExpired(sandbox);
      return;
    }
    const expired = { kind: 'expired', sandbox: sandbox.id, timeoutS } as const;
    this.#deps.events.notify(expired);
    void this.#remove(sandbox, ': its timeout_s has passed', [expired]);
  }

  async #pauseExpired(sandbox: Sandbox): Promise<void> {
    const { pause, isManaged } = this.#deps;
    try {
      await pause(sandbox, { hasMemory: true, reason: 'timeout_s' });
    } catch (error) {
      if (!isManaged(sandbox) || sandbox.state !== 'running') return;
      reportPauseFailure(sandbox, error, this.#deps);
      setTimeout(() => {
        if (isManaged(sandbox) && sandbox.state === 'running') void this.#pauseExpired(sandbox);
      }, PAUSE_RETRY_MS).unref();
    }
  }

  /** A concurrent delete waits for this one. Never rejects. */
  #remove(sandbox: Sandbox, reason: string, events: readonly LifecycleEvent[]): Promise<void> {
    const { remove, isManaged, log } = this.#deps;
    return remove(sandbox, reason, events).catch((err) => {
      if (!isManaged(sandbox)) return;
      log.error({ err, sandbox: sandbox.id }, 'cannot delete an expired sandbox; retrying');
      setTimeout(() => void this.#remove(sandbox, reason, events), RETRY_MS).unref();
    });
  }
}
