// Take, list, show, delete and fork snapshots.
import type { SnapshotInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { callersOf, toPorts, toSandboxBody } from './sandboxes.ts';

export function snapshotHandlers({ sandboxes: host }: HttpServices) {
  return {
    takeSnapshot: async ({ params: { id } }, c) => {
      const snapshot = await host.as(c.get('caller')).get(id).snapshot(clientSignal(c));
      c.get('audit').made = [snapshot.id];
      return toSnapshotBody(snapshot);
    },

    listSnapshots: (_, c) => ({ snapshots: host.as(c.get('caller')).listSnapshots().map(toSnapshotBody) }),

    getSnapshot: ({ params: { id } }, c) => toSnapshotBody(host.as(c.get('caller')).getSnapshot(id)),

    deleteSnapshot: async ({ params: { id } }, c) => {
      await host.as(c.get('caller')).deleteSnapshot(id);
      return undefined;
    },

    forkSnapshot: async ({ params: { id }, query, body }, c) => {
      const sandboxes = callersOf(host, c);
      const count = body.count || query.count;
      const forks = await sandboxes.fork(id, count, clientSignal(c), toPorts(body.publish));
      c.get('audit').made = forks.map((fork) => fork.id);
      const oldestFirst = forks.toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
      return { sandboxes: oldestFirst.map(toSandboxBody) };
    },
  } satisfies Partial<Handlers>;
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
