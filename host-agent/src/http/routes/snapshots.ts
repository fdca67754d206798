// Take, list, show, delete and fork snapshots.
import type { SnapshotInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import { type HttpApp, readSandboxId, readSnapshotId } from '../context.ts';
import { forkSchema, readForkCount } from '../input/fork-request.ts';
import { readFields } from '../input/read-fields.ts';
import type { HttpServices } from '../services.ts';
import { toSandboxBody } from './sandboxes.ts';

export function addSnapshotRoutes(app: HttpApp, services: HttpServices): void {
  const { sandboxes, limits } = services;
  const schema = forkSchema(limits.fork);

  app.post('/sandboxes/:id/snapshot', async (c) => {
    const snapshot = await sandboxes.get(readSandboxId(c)).snapshot(clientSignal(c));
    return c.json(toSnapshotBody(snapshot), 201);
  });

  app.get('/snapshots', (c) => c.json({ snapshots: sandboxes.listSnapshots().map(toSnapshotBody) }));

  app.get('/snapshots/:id', (c) => c.json(toSnapshotBody(sandboxes.getSnapshot(readSnapshotId(c)))));

  app.delete('/snapshots/:id', async (c) => {
    await sandboxes.deleteSnapshot(readSnapshotId(c));
    return c.body(null, 204);
  });

  app.post('/snapshots/:id/fork', async (c) => {
    const id = readSnapshotId(c);
    const count = readForkCount(
      c.req.query('count'),
      await readFields(c, schema, services.bodyIdleMs),
      limits.fork,
    );
    const forks = await sandboxes.fork(id, count, clientSignal(c));
    return c.json({ sandboxes: forks.map(toSandboxBody) }, 201);
  });
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
