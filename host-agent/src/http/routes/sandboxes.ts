// Create, list, show and delete sandboxes.
import type { SandboxInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import type { HttpApp } from '../context.ts';
import { createSchema, toCreateOptions } from '../input/create-request.ts';
import { readSandboxId } from '../input/ids.ts';
import { readFields } from '../input/read-fields.ts';
import type { HttpServices } from '../services.ts';

export function addSandboxRoutes(app: HttpApp, services: HttpServices): void {
  const { sandboxes } = services;
  const schema = createSchema(services.limits);

  app.get('/sandboxes', (c) => c.json({ sandboxes: sandboxes.list().map(toSandboxBody) }));

  app.post('/sandboxes', async (c) => {
    const options = toCreateOptions(await readFields(c, schema, services.bodyIdleMs));
    const sandbox = await sandboxes.create(options, clientSignal(c));
    c.set('log', c.var.log.child({ sandbox: sandbox.id }));
    return c.json(toSandboxBody(sandbox), 201);
  });

  app.get('/sandboxes/:id', (c) => c.json(toSandboxBody(sandboxes.get(readSandboxId(c)).info)));

  app.delete('/sandboxes/:id', async (c) => {
    await sandboxes.delete(readSandboxId(c));
    return c.body(null, 204);
  });
}

export function toSandboxBody(sandbox: SandboxInfo) {
  return {
    id: sandbox.id,
    created_at: sandbox.createdAt.toISOString(),
    memory_mib: sandbox.memoryMib,
    vcpus: sandbox.vcpus,
    ...(sandbox.rootfs.kind === 'profile' && { profile: sandbox.rootfs.name }),
    workdir: sandbox.workdir,
    ...(sandbox.sourceSnapshotId !== undefined && { source_snapshot_id: sandbox.sourceSnapshotId }),
  };
}
