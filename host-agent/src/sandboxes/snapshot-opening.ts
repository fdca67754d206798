// Opens the snapshots that an earlier daemon left, and removes those that a crash left incomplete or half deleted.
import { toError } from '../lib/errors.ts';
import type { Ancestry } from './ancestry.ts';
import { SavedGuest, snapshotsRoot, sweepSaved } from './saved/saved-guest.ts';
import { prepareDeleted, snapshotDir } from './snapshot-making.ts';
import type { Entry, SnapshotsOptions } from './snapshot-record.ts';

/** A complete snapshot that cannot be read is user data: its files stay, and it is not among the result. */
export async function openSnapshots(
  { dataDir, records, events, log }: SnapshotsOptions,
  ancestry: Ancestry,
): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>();
  const all = new Map(records.all().map(({ id, record }) => [id, record]));
  const present = await sweepSaved(snapshotsRoot(dataDir), (name) => all.get(name)?.isComplete === true);
  for (const [id, record] of all) {
    if (record.deletedAtMs !== undefined) {
      ancestry.add(id, record);
      continue;
    }
    if (!present.includes(id)) {
      const deleted = prepareDeleted(events, id, record);
      await ancestry.forget(id, record, record.isComplete ? deleted.persist : undefined);
      if (record.isComplete) deleted.publish();
      const reason = record.isComplete ? 'its files are missing' : 'it is incomplete or half deleted';
      log.warn({ snapshot: id, reason }, 'snapshot record removed');
      continue;
    }
    try {
      const saved = await SavedGuest.open(snapshotDir(dataDir, id));
      entries.set(id, { record, saved });
    } catch (error) {
      const reason = toError(error).message;
      log.error({ snapshot: id, reason }, 'a snapshot cannot be read and is not listed; its files stay');
    }
  }
  return entries;
}
