// Take, list, show, delete and fork snapshots.
import { AppError } from '../../lib/errors.ts';
import type { SnapshotInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { toSandboxBody } from './sandboxes.ts';

export function snapshotHandlers({ sandboxes }: HttpServices) {
  return {
    takeSnapshot: async ({ params: { id } }, c) =>
      toSnapshotBody(await sandboxes.get(id).snapshot(clientSignal(c))),

    listSnapshots: () => ({ snapshots: sandboxes.listSnapshots().map(toSnapshotBody) }),

    getSnapshot: ({ params: { id } }) => toSnapshotBody(sandboxes.getSnapshot(id)),

    deleteSnapshot: async ({ params: { id } }) => {
      await sandboxes.deleteSnapshot(id);
      return undefined;
    },

    forkSnapshot: async ({ params: { id }, query, body }, c) => {
      const count = body.count || query.count;
      if (body.publish.length > 0) refusePublish(count, () => sandboxes.getSnapshot(id));
      const forks = await sandboxes.fork(id, count, clientSignal(c));
      const oldestFirst = forks.toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
      return { sandboxes: oldestFirst.map(toSandboxBody) };
    },
  } satisfies Partial<Handlers>;
}

/** Always throws; AppError not_found where there is no snapshot. */
function refusePublish(count: number, findSnapshot: () => void): never {
  // That of the body was checked with it.
  if (count !== 1) {
    const message = `publish needs count 1, because host ports are exclusive, got ${count}`;
    throw new AppError('invalid_argument', message);
  }
  findSnapshot();
  throw new AppError(
    'invalid_argument',
    'publish needs a snapshot that has a network, and this one has none',
  );
}

function toSnapshotBody(snapshot: SnapshotInfo) {
  return {
    id: snapshot.id,
    created_at: snapshot.createdAt.toISOString(),
    source_id: snapshot.sourceId,
    dir: snapshot.dir,
    mem_path: snapshot.memoryPath,
    rootfs_path: snapshot.rootfsPath,
    state_path: snapshot.statePath,
    memory_mib: snapshot.memoryMib,
    vcpus: snapshot.vcpus,
  };
}
