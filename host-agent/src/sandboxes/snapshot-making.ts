// Makes a snapshot: its record, its files, and their commit in one transaction with the event. Each step puts its undo
// action on a stack, which a failure unwinds.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Faults } from '../lib/faults.ts';
import { newId } from '../lib/ids.ts';
import { moveTo } from './ancestry.ts';
import type { LifecycleEvents, PendingEvent } from './lifecycle-events.ts';
import { toSavedOptions } from './record.ts';
import type { Sandbox } from './sandbox.ts';
import { flush, saveGuest } from './saved/save.ts';
import { publishSaved, removeSaved, SavedGuest, snapshotsRoot, unfinishedDir } from './saved/saved-guest.ts';
import {
  type Entry,
  type Fill,
  newRecord,
  type SnapshotFor,
  type SnapshotRecord,
  type SnapshotsOptions,
  toInfo,
} from './snapshot-record.ts';

type MakeSnapshotDeps = Pick<
  SnapshotsOptions,
  'dataDir' | 'records' | 'sandboxRecords' | 'faults' | 'events'
>;

export type MakeSnapshot = {
  readonly sourceId: string;
  /** A sandbox of this host, which continues from the new snapshot. */
  readonly source: Sandbox | undefined;
  readonly by: SnapshotFor;
  readonly fill: Fill;
  readonly signal: AbortSignal;
  /** Of one of another host; absent: it is new. */
  readonly existing?: { readonly id: string; readonly record: SnapshotRecord } | undefined;
};

/** AppError with everything undone; the signal's reason when cancelled. `event`: persisted, and not published yet. */
export async function makeSnapshot(
  deps: MakeSnapshotDeps,
  { sourceId, source, by, fill, signal, existing }: MakeSnapshot,
): Promise<{ readonly id: string; readonly entry: Entry; readonly event: PendingEvent }> {
  const { dataDir, records, sandboxRecords, faults, events } = deps;
  const { owner, commit, about = {}, automatic, secrets } = by;
  const id = existing?.id ?? newId('snap');
  const root = snapshotsRoot(dataDir);
  const dir = snapshotDir(dataDir, id);
  const temporary = unfinishedDir(root, id);
  const { record = newRecord(sourceId, { owner, about, automatic, secrets }, source?.record) } =
    existing ?? {};
  await using undo = new AsyncDisposableStack();
  const undone = prepareDeleted(events, id, record);
  const before = source?.record.parentSnapshotId;
  let isCommitted = false;
  undo.defer(async () => {
    if (isCommitted) await commit?.retract();
    const forget = (also?: () => void) =>
      records.remove(id, () => {
        if (isCommitted) undone.persist();
        also?.();
      });
    await (isCommitted && source ? moveTo(sandboxRecords, source, before, forget) : forget());
    events.published();
  });
  await records.put(id, record);
  faults.reach('snapshot.recorded');
  undo.defer(() => removeSaved(temporary));
  await mkdir(root, { recursive: true, mode: 0o700 });
  signal.throwIfAborted();
  const { saved, event } = await fill(temporary, id);
  undo.defer(() => removeSaved(dir));
  await publishSaved(temporary, dir);
  await flush(root);
  faults.reach('snapshot.published');
  const pending = events.prepare(event, record.owner, record.about);
  const published = new SavedGuest(dir, saved.manifest, true);
  const entry = { record: { ...record, isComplete: true }, saved: published };
  const publish = (also?: () => void) =>
    records.put(id, entry.record, () => {
      pending.persist();
      commit?.persist(toInfo(id, entry));
      also?.();
    });
  await (source === undefined ? publish() : moveTo(sandboxRecords, source, id, publish));
  isCommitted = true;
  await records.flush();
  faults.reach('snapshot.committed');
  // With a hook, another request already relies on it.
  if (commit === undefined) signal.throwIfAborted();
  undo.move();
  return { id, entry, event: pending };
}

export function prepareDeleted(
  events: LifecycleEvents,
  id: string,
  { owner, about }: SnapshotRecord,
  reason?: string,
): PendingEvent {
  const event = { kind: 'snapshot-deleted', snapshot: id, ...(reason && { reason }) } as const;
  return events.prepare(event, owner, about);
}

export function snapshotDir(dataDir: string, id: string): string {
  return join(snapshotsRoot(dataDir), id);
}

/** Saves a running sandbox, which keeps running, to the directory of a new snapshot. */
export function fillFrom(sandbox: Sandbox, faults: Faults, signal: AbortSignal): Fill {
  const { compatibility, kernelDigest } = sandbox.record;
  const options = toSavedOptions(sandbox.record);
  return async (dir, snapshot) => {
    const { saved, pausedMs, totalMs } = await saveGuest({
      dir,
      vm: sandbox.awake.vm,
      guest: sandbox.awake.guest,
      layerPath: sandbox.paths.layerPath,
      manifest: { compatibility, kernelDigest, options },
      writesOut: true,
      onPaused: () => faults.reach('snapshot.paused'),
      signal,
    });
    faults.reach('snapshot.saved');
    sandbox.assertAlive();
    const times = { pausedMs: Math.round(pausedMs), totalMs: Math.round(totalMs) };
    return { saved, event: { kind: 'snapshot-taken', snapshot, sandbox: sandbox.id, ...times } };
  };
}
