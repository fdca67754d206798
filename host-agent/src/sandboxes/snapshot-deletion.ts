// Deletes a snapshot of this host: the registry names the delete before the first file goes, so that the next daemon
// would finish it.
import type { Ancestry } from './ancestry.ts';
import type { PendingEvent } from './lifecycle-events.ts';
import { prepareDeleted } from './snapshot-making.ts';
import type { Entry, SnapshotRecord, SnapshotsOptions } from './snapshot-record.ts';

/** Resolves when files and record are removed, with the event to publish. */
export async function deleteSnapshot(
  options: SnapshotsOptions,
  ancestry: Ancestry,
  id: string,
  { saved, record }: Entry,
  reason?: string,
): Promise<PendingEvent> {
  const { records, faults, events } = options;
  const event = prepareDeleted(events, id, record, reason);
  const current = records.get(id);
  // If an earlier delete failed, the snapshot is already marked and the event persisted.
  if (current !== undefined)
    await markDeleting(options, id, record, current.isComplete ? event.persist : undefined);
  const isPersisted = records.get(id)?.isComplete !== true;
  faults.reach('snapshot-delete.marked');
  await saved.remove();
  faults.reach('snapshot-delete.files');
  await ancestry.forget(id, record, isPersisted ? undefined : event.persist).catch(() => records.remove(id));
  faults.reach('snapshot-delete.forgotten');
  return event;
}

/** Records the delete, so that the next daemon would finish it. */
async function markDeleting(
  { records, log }: SnapshotsOptions,
  id: string,
  record: SnapshotRecord,
  persist?: () => void,
): Promise<void> {
  try {
    await records.put(id, { ...record, isComplete: false }, persist);
  } catch (err) {
    // A delete must also work on a full disk, because it frees space.
    log.warn({ err, snapshot: id }, 'cannot record the delete of a snapshot in advance; deleting it without');
  }
}
