// Take, list, show, delete and fork snapshots.
import { AppError } from '../../lib/errors.ts';
import type { SnapshotInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import type { HttpApp } from '../context.ts';
import { forkSchema, isPublishing, readForkCount } from '../input/fork-request.ts';
import { readSandboxId, readSnapshotId } from '../input/ids.ts';
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
    const fields = await readFields(c, schema, services.bodyIdleMs);
    const count = readForkCount(c, fields, limits.fork);
    if (isPublishing(fields)) {
      sandboxes.getSnapshot(id);
      throw new AppError(
        'invalid_argument',
        'publish needs a snapshot that has a network, and this one has none',
      );
    }
    const forks = await sandboxes.fork(id, count, clientSignal(c));
    const oldestFirst = forks.toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
    return c.json({ sandboxes: oldestFirst.map(toSandboxBody) }, 201);
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
