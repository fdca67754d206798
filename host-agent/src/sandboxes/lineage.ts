// Which snapshots a sandbox may go back to: those of its own, and those that it comes from.
import { AppError } from '../lib/errors.ts';
import type { Sandbox } from './sandbox.ts';
import type { SnapshotInfo } from './types.ts';

/** `ancestorsOf`: of a snapshot, also of a deleted one, over deleted ones. AppError conflict. */
export function assertComesFrom(
  { id, record }: Pick<Sandbox, 'id' | 'record'>,
  snapshot: SnapshotInfo,
  ancestorsOf: (id: string) => readonly string[],
): void {
  if (snapshot.sourceId === id) return;
  const starts = [record.parentSnapshotId, record.sourceSnapshotId];
  for (const start of starts)
    if (start === snapshot.id || (start !== undefined && ancestorsOf(start).includes(snapshot.id))) return;
  const message = `snapshot ${snapshot.id} is not of sandbox ${id}, which does not come from it, either`;
  throw new AppError('conflict', `${message}; fork the snapshot`);
}
