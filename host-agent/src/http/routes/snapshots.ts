// Take, list, show, export, import, delete and fork snapshots.
import { MAX_MOVES, MAX_MOVES_OF_EACH, MAX_PAGE_ITEMS } from '@sandboxd/api';
import { ownerOf, sharerOf, tenantOf } from '../../keys/index.ts';
import { onEnd } from '../../lib/byte-queue.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import { matchesLabels } from '../../lib/labels.ts';
import { toAbout } from '../../sandboxes/snapshot-about.ts';
import type { SandboxInfo, SnapshotInfo, TreeNode } from '../../sandboxes/types.ts';
import { clientSignal, type HttpContext } from '../context.ts';
import { readBody } from '../input/body-source.ts';
import { toPage } from '../input/page.ts';
import { answerPullStream } from '../pull-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { callersOf, sortKeyOf, toPorts, toSandboxBody } from './sandboxes.ts';

export function snapshotHandlers({ sandboxes: host, bodyIdleMs }: HttpServices) {
  const limits = { max: MAX_MOVES, maxPerClient: MAX_MOVES_OF_EACH };
  const exportLimit = new ConcurrencyLimit({ what: 'exports', ...limits });
  const importLimit = new ConcurrencyLimit({ what: 'imports', ...limits });
  const acquire = (limit: ConcurrencyLimit, c: HttpContext): Disposable => {
    const principal = c.get('principal');
    return limit.acquire(sharerOf(ownerOf(principal)));
  };
  return {
    takeSnapshot: async ({ params: { id }, body }, c) => {
      const commit = c.get('keyed')?.commitHook(toSnapshotBody);
      const sandbox = host.as(c.get('principal')).get(id);
      const { expires_s: expiresS, ...about } = body;
      const snapshot = await sandbox.snapshot(clientSignal(c), commit, { ...about, expiresS });
      c.get('audit').made = [snapshot.id];
      return toSnapshotBody(snapshot);
    },

    listSnapshots: ({ query }, c) => {
      const found = host
        .as(c.get('principal'))
        .listSnapshots()
        .filter(({ name, labels }) => (query.name ?? name) === name && matchesLabels(labels, query.label));
      const { entries, next } = toPage(found, sortKeyOf, query);
      return { snapshots: entries.map(toSnapshotBody), ...next };
    },

    getSnapshot: async ({ params: { id } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      const body = toSnapshotBody(sandboxes.getSnapshot(id));
      const { diskBytes, uniqueBytes } = await sandboxes.measureSnapshot(id);
      return { ...body, disk_bytes: diskBytes, unique_bytes: uniqueBytes };
    },

    showSnapshotTree: ({ params: { id }, query }, c) => {
      const all = host.as(c.get('principal')).snapshotTree(id);
      const { entries, next } = toPage(all, sortKeyOf, { ...query, limit: query.limit ?? MAX_PAGE_ITEMS });
      return { nodes: entries.map(toNodeBody), ...next };
    },

    changeSnapshot: async ({ params: { id }, body: { expires_s, ...about } }, c) => {
      const patch = { ...about, expiresS: expires_s === null ? 0 : expires_s };
      return toSnapshotBody(await host.as(c.get('principal')).changeSnapshot(id, patch));
    },

    exportSnapshot: ({ params: { id } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      const headers = { 'Content-Type': 'application/zstd' };
      sandboxes.getSnapshot(id);
      if (c.req.raw.method === 'HEAD') return c.body(null, 200, headers);
      const slot = acquire(exportLimit, c);
      return answerPullStream(
        c,
        onEnd(sandboxes.exportSnapshot(id), () => slot[Symbol.dispose]()),
        headers,
      );
    },

    exportSandbox: async ({ params: { id } }, c) => {
      const sandbox = host.as(c.get('principal')).get(id);
      const headers = { 'Content-Type': 'application/zstd' };
      if (c.req.raw.method === 'HEAD') return c.body(null, 200, headers);
      const slot = acquire(exportLimit, c);
      try {
        const stream = await sandbox.export(clientSignal(c));
        return answerPullStream(
          c,
          onEnd(stream, () => slot[Symbol.dispose]()),
          headers,
        );
      } catch (error) {
        slot[Symbol.dispose]();
        throw error;
      }
    },

    importSnapshot: async ({ query: { disk_only: isDiskOnly } }, c) => {
      assertNoTenant(c);
      using _slot = acquire(importLimit, c);
      const body = readBody(c, bodyIdleMs);
      try {
        const sandboxes = host.as(c.get('principal'));
        const keyed = c.get('keyed');
        const read = keyed?.observe(body.read) ?? body.read;
        const commit = keyed?.commitHook(toSnapshotBody);
        const snapshot = await sandboxes.importSnapshot(read, { isDiskOnly }, clientSignal(c), commit);
        c.get('audit').made = [snapshot.id];
        return toSnapshotBody(snapshot);
      } finally {
        body.discard(); // after an early response the client may still send
      }
    },

    deleteSnapshot: async ({ params: { id } }, c) => {
      await host.as(c.get('principal')).deleteSnapshot(id);
      return undefined;
    },

    forkSnapshot: async ({ params: { id }, query, body }, c) => {
      const sandboxes = callersOf(host, c);
      const count = body.count || query.count;
      const { name, labels, env } = body;
      const options = { publish: toPorts(body.publish), name, labels, env };
      const commit = c.get('keyed')?.commitHook(toForksBody);
      const forks = await sandboxes.fork(id, count, clientSignal(c), options, commit);
      c.get('audit').made = forks.map((fork) => fork.id);
      return toForksBody(forks);
    },
  } satisfies Partial<Handlers>;
}

/** Oldest first. */
function toForksBody(forks: readonly SandboxInfo[]) {
  const oldestFirst = forks.toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
  return { sandboxes: oldestFirst.map(toSandboxBody) };
}

/** The VMM parses the imported device state, so only the operator may import. AppError forbidden. */
function assertNoTenant(c: HttpContext): void {
  const tenant = tenantOf(c.get('principal'));
  if (tenant === undefined) return;
  const message =
    `a key of tenant ${tenant} imports no snapshots, as a VMM would read what anybody wrote; use a key without a ` +
    'tenant';
  throw new AppError('forbidden', message);
}

function toSnapshotBody(snapshot: SnapshotInfo) {
  return {
    id: snapshot.id,
    created_at: snapshot.createdAt.toISOString(),
    source_id: snapshot.sourceId,
    ...(snapshot.parentSnapshotId !== undefined && { parent_snapshot_id: snapshot.parentSnapshotId }),
    dir: snapshot.dir,
    mem_path: snapshot.memoryPath,
    rootfs_path: snapshot.rootfsPath,
    state_path: snapshot.statePath,
    memory_mib: snapshot.memoryMib,
    vcpus: snapshot.vcpus,
    ...(snapshot.expiresAt && { expires_at: snapshot.expiresAt.toISOString() }),
    ...(snapshot.isAutomatic && { automatic: true as const }),
    ...toAbout(snapshot),
  };
}

function toNodeBody({ kind, id, parentId, createdAt, name, sourceId, state, isDeleted }: TreeNode) {
  return {
    kind,
    id,
    ...(parentId !== undefined && { parent_id: parentId }),
    created_at: createdAt.toISOString(),
    ...(name !== undefined && { name }),
    ...(sourceId !== undefined && { source_id: sourceId }),
    ...(state !== undefined && { state }),
    ...(isDeleted && { deleted: true as const }),
  };
}
