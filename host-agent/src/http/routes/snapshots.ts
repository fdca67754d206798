// Take, list, show, export, import, delete and fork snapshots.
import { isUtf8 } from 'node:buffer';
import {
  MAX_COMPARISONS,
  MAX_COMPARISONS_OF_EACH,
  MAX_MOVES,
  MAX_MOVES_OF_EACH,
  MAX_PAGE_ITEMS,
  type Routes,
} from '@sandboxd/api';
import { ownerOf, sharerOf, tenantOf } from '../../keys/index.ts';
import { onEnd } from '../../lib/byte-queue.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import { matchesLabels } from '../../lib/labels.ts';
import type { ComparedFile, Difference } from '../../sandboxes/saved/compare-disks.ts';
import { toAbout } from '../../sandboxes/snapshot-about.ts';
import type { ForkOptions, SandboxInfo, SnapshotInfo, TreeNode } from '../../sandboxes/types.ts';
import { auditAbout, clientSignal, type HttpContext } from '../context.ts';
import { readBody } from '../input/body-source.ts';
import { toPage } from '../input/page.ts';
import type { Input } from '../input/request-input.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';
import { toPorts } from './create-options.ts';
import { callersOf, sortKeyOf, toPlacedRequest, toSandboxBody } from './sandboxes.ts';

export function snapshotHandlers({ sandboxes: host, placement, bodyIdleMs }: HttpServices) {
  const limits = { max: MAX_MOVES, maxPerClient: MAX_MOVES_OF_EACH };
  const exportLimit = new ConcurrencyLimit({ what: 'exports', ...limits });
  const importLimit = new ConcurrencyLimit({ what: 'imports', ...limits });
  const compareLimit = new ConcurrencyLimit({
    what: 'comparisons of snapshots',
    max: MAX_COMPARISONS,
    maxPerClient: MAX_COMPARISONS_OF_EACH,
  });
  const acquire = (limit: ConcurrencyLimit, c: HttpContext): Disposable => {
    const principal = c.get('principal');
    return limit.acquire(sharerOf(ownerOf(principal)));
  };
  return {
    takeSnapshot: async ({ params: { id }, body }, c) => {
      const commit = c.get('keyed')?.commitHook(toSnapshotBody);
      auditAbout(c, body);
      const sandbox = host.as(c.get('principal')).get(id);
      const { expires_s: expiresS, ...about } = body;
      const snapshot = await sandbox.snapshot(clientSignal(c), commit, { ...about, expiresS });
      c.get('audit').made = [snapshot.id];
      return toSnapshotBody(snapshot);
    },

    listSnapshots: async ({ query }, c) => {
      const sandboxes = host.as(c.get('principal'));
      const problem = await sandboxes.refreshSnapshots(undefined, clientSignal(c));
      const found = sandboxes
        .listSnapshots()
        .filter(({ name, labels }) => (query.name ?? name) === name && matchesLabels(labels, query.label));
      const { entries, next } = toPage(found, sortKeyOf, query);
      return { snapshots: entries.map(toSnapshotBody), ...next, ...(problem && { store_error: problem }) };
    },

    getSnapshot: async ({ params: { id } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      await sandboxes.refreshSnapshots(id, clientSignal(c));
      const body = toSnapshotBody(sandboxes.getSnapshot(id));
      const { diskBytes, uniqueBytes } = await sandboxes.measureSnapshot(id);
      return { ...body, disk_bytes: diskBytes, unique_bytes: uniqueBytes };
    },

    showSnapshotTree: async ({ params: { id }, query }, c) => {
      const sandboxes = host.as(c.get('principal'));
      await sandboxes.refreshSnapshots(id, clientSignal(c));
      const all = sandboxes.snapshotTree(id);
      const { entries, next } = toPage(all, sortKeyOf, { ...query, limit: query.limit ?? MAX_PAGE_ITEMS });
      return { nodes: entries.map(toNodeBody), ...next };
    },

    diffSnapshots: async ({ params: { id }, body: { with: to, limit, cursor } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      using _slot = acquire(compareLimit, c);
      c.get('audit').effective = { with: to };
      await sandboxes.refreshSnapshots(id, clientSignal(c));
      const after = cursor === undefined ? undefined : Buffer.from(cursor, 'base64url');
      const { files, next } = await sandboxes.compareSnapshots(
        { from: id, to, limit, after },
        clientSignal(c),
      );
      return {
        files: files.map(toDifferenceBody),
        ...(next && { next_cursor: next.toString('base64url') }),
      };
    },

    changeSnapshot: async ({ params: { id }, body }, c) => {
      auditAbout(c, body);
      const { expires_s, ...about } = body;
      const patch = { ...about, expiresS: expires_s === null ? 0 : expires_s };
      const sandboxes = host.as(c.get('principal'));
      await sandboxes.refreshSnapshots(id, clientSignal(c));
      const changed = await sandboxes.changeSnapshot(id, patch);
      auditAbout(c, changed);
      return toSnapshotBody(changed);
    },

    exportSnapshot: async ({ params: { id } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      const headers = { 'Content-Type': 'application/zstd' };
      await sandboxes.refreshSnapshots(id, clientSignal(c));
      sandboxes.getSnapshot(id);
      if (c.req.raw.method === 'HEAD') return c.body(null, 200, headers);
      const slot = acquire(exportLimit, c);
      try {
        await sandboxes.fetchSnapshot(id, clientSignal(c));
        return answerPullStream(
          c,
          onEnd(sandboxes.exportSnapshot(id), () => slot[Symbol.dispose]()),
          headers,
        );
      } catch (error) {
        slot[Symbol.dispose]();
        throw error;
      }
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
        auditAbout(c, snapshot);
        return toSnapshotBody(snapshot);
      } finally {
        body.discard(); // after an early response the client may still send
      }
    },

    deleteSnapshot: async ({ params: { id } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      await sandboxes.refreshSnapshots(id, clientSignal(c));
      await sandboxes.deleteSnapshot(id);
      return undefined;
    },

    forkSnapshot: async ({ params: { id }, query, body }, c) => {
      const sandboxes = callersOf(host, c);
      const { count, options, toBody } = toForkOptions(body, query.count);
      auditAbout(c, options);
      await sandboxes.refreshSnapshots(id, clientSignal(c));
      const commit = c.get('keyed')?.commitHook(toBody);
      using placed = await placement.admit(toPlacedRequest(c, count, sandboxes.getSnapshot(id)));
      const placedOptions = { ...options, ...(placed.ids && { ids: placed.ids }) };
      const forks = await sandboxes.fork(id, count, clientSignal(c), placedOptions, commit);
      auditForks(c, forks);
      return toBody(forks);
    },

    forkSandbox: async ({ params: { id }, query, body }, c) => {
      const sandbox = callersOf(host, c).get(id);
      const { count, options, toBody } = toForkOptions(body, query.count);
      auditAbout(c, options);
      const commit = c.get('keyed')?.commitHook(toBody);
      using placed = await placement.admit(toPlacedRequest(c, count, sandbox.info));
      const placedOptions = { ...options, ...(placed.ids && { ids: placed.ids }) };
      const forks = await sandbox.fork(count, clientSignal(c), placedOptions, commit);
      auditForks(c, forks);
      return toBody(forks);
    },

    rollbackSandbox: async ({ params: { id }, body }, c) => {
      const sandboxes = host.as(c.get('principal'));
      await sandboxes.get(id).rollback(body.snapshot_id);
      return toSandboxBody(sandboxes.get(id).info);
    },
  } satisfies Partial<Handlers>;
}

type ForkCall = {
  readonly count: number;
  readonly options: ForkOptions;
  readonly toBody: typeof toChildrenBody;
};

function toForkOptions(
  { count, children, publish, name, labels, env, secrets }: Input<Routes['forkSnapshot']>['body'],
  queryCount: number,
): ForkCall {
  const own = children?.map((each) => ({ ...each, publish: toPorts(each.publish) }));
  const options = { publish: toPorts(publish), name, labels, env, secrets, ...(own && { children: own }) };
  return {
    count: children?.length ?? (count || queryCount),
    options,
    toBody: children === undefined ? toForksBody : toChildrenBody,
  };
}

/** Of several forks the names, and the labels that all of them have. */
function auditForks(c: HttpContext, forks: readonly SandboxInfo[]): void {
  const [first, ...others] = forks;
  const hasLabel = (key: string, value: string) => (fork: SandboxInfo) =>
    matchesLabels(fork.labels, [{ key, value }]);
  const common = Object.entries(first?.labels ?? {}).filter(([key, value]) =>
    others.every(hasLabel(key, value)),
  );
  const names = forks.flatMap(({ name }) => name ?? []);
  const audit = c.get('audit');
  audit.made = forks.map(({ id }) => id);
  auditAbout(c, { name: others.length === 0 ? first?.name : undefined, labels: Object.fromEntries(common) });
  if (others.length > 0 && names.length > 0) audit.effective = { ...audit.effective, names };
}

/** Oldest first. */
function toForksBody(forks: readonly SandboxInfo[]) {
  return toChildrenBody(forks.toSorted((a, b) => a.createdAt.getTime() - b.createdAt.getTime()));
}

/** In the order of `children`. */
function toChildrenBody(forks: readonly SandboxInfo[]) {
  return { sandboxes: forks.map(toSandboxBody) };
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
    ...(snapshot.storage && { storage: snapshot.storage }),
    ...(snapshot.storageError !== undefined && { storage_error: snapshot.storageError }),
    ...toAbout(snapshot),
  };
}

function toDifferenceBody({ path, before, after, differs }: Difference) {
  const now = after ?? before;
  if (now === undefined) throw new Error('a difference has no file');
  const change = before === undefined ? 'added' : after === undefined ? 'removed' : 'changed';
  return {
    path: path.toString(),
    ...(!isUtf8(path) && { path_base64: path.toString('base64') }),
    change,
    ...toAttributesBody(now),
    ...(before && after && { differs, before: toAttributesBody(before) }),
  } as const;
}

function toAttributesBody({ kind, sizeBytes, mode, uid, gid }: ComparedFile) {
  return {
    kind,
    ...(sizeBytes !== undefined && { size_bytes: sizeBytes }),
    mode: mode.toString(8).padStart(4, '0'),
    uid,
    gid,
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
