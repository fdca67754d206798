// Tools for snapshots.
import { z } from 'zod';
import type { SnapshotInfo } from '../../contract.ts';
import { json, listed, text, tool } from '../tool.ts';
import { describe as describeSandbox, sandboxWord } from './sandboxes.ts';

const snapshotWord = z.string().min(1).max(100).describe('id or name of the snapshot');

function describe({ id, name, comment, created_at, source_id, disk_bytes }: SnapshotInfo) {
  return {
    id,
    ...(name !== undefined && { name }),
    ...(comment !== undefined && { comment }),
    created_at,
    sandbox: source_id,
    ...(disk_bytes !== undefined && { disk_bytes }),
  };
}

export const createSnapshot = tool({
  name: 'create_snapshot',
  description:
    'Save a sandbox with its files, memory and programs, without stopping it. rollback_sandbox goes back to it.',
  effect: 'writes',
  input: z.strictObject({
    sandbox: sandboxWord,
    name: z.string().max(63).optional().describe('name: small letters, digits and hyphens'),
    comment: z.string().max(1000).optional(),
  }),
  async run({ sandbox, name, comment }, { scope, signal }) {
    const found = await scope.sandbox(sandbox, { signal });
    const { id } = await found.snapshot({
      ...(name !== undefined && { name }),
      ...(comment !== undefined && { comment }),
      labels: scope.bounds.labels,
      signal,
    });
    return json(describe(await scope.client.snapshots.get(id).info({ signal })));
  },
});

export const listSnapshots = tool({
  name: 'list_snapshots',
  description: 'List the snapshots.',
  effect: 'reads',
  input: z.strictObject({}),
  async run(_, { scope, signal }) {
    const all = await scope.snapshots({ signal });
    return json(listed('snapshots', all.map(describe)));
  },
});

export const rollbackSandbox = tool({
  name: 'rollback_sandbox',
  description:
    'Put a sandbox back to one of its snapshots: its files, memory and programs are as they were. What runs now ends.',
  effect: 'deletes',
  input: z.strictObject({ sandbox: sandboxWord, snapshot: snapshotWord }),
  async run({ sandbox, snapshot }, { scope, signal }) {
    const [found, to] = await Promise.all([
      scope.sandbox(sandbox, { signal }),
      scope.snapshot(snapshot, { signal }),
    ]);
    return json(describeSandbox(await found.rollback(to.id, { signal })));
  },
});

export const deleteSnapshot = tool({
  name: 'delete_snapshot',
  description: 'Delete a snapshot. Sandboxes that came from it stay.',
  effect: 'deletes',
  input: z.strictObject({ snapshot: snapshotWord }),
  async run({ snapshot }, { scope, signal }) {
    const found = await scope.snapshot(snapshot, { signal });
    await found.delete({ signal });
    return text(`deleted ${found.id}`);
  },
});
