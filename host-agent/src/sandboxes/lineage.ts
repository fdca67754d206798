// Which snapshots a sandbox may go back to: those of its own, and those that it comes from.
import { AppError } from '../lib/errors.ts';
import type { Sandbox } from './sandbox.ts';
import type { SnapshotInfo } from './types.ts';

/** `find`: a snapshot that exists. AppError conflict. */
export function assertComesFrom(
  { id, record }: Pick<Sandbox, 'id' | 'record'>,
  snapshot: SnapshotInfo,
  find: (id: string) => SnapshotInfo | undefined,
): void {
  if (snapshot.sourceId === id) return;
  const seen = new Set<string>();
  const starts = [record.parentSnapshotId, record.sourceSnapshotId];
  for (const start of starts) {
    for (let at = start; at !== undefined && !seen.has(at); at = find(at)?.parentSnapshotId) {
      if (at === snapshot.id) return;
      seen.add(at);
    }
  }
  const message = `snapshot ${snapshot.id} is not of sandbox ${id}, which does not come from it, either`;
  throw new AppError('conflict', `${message}; fork the snapshot`);
}
