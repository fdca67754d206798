// Take, list, show, delete and fork snapshots.
import { MAX_MOVES, MAX_MOVES_OF_EACH } from '@sandboxd/api';
import { sharerOf, toOwner } from '../../keys/index.ts';
import type { PullStream } from '../../lib/byte-queue.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError } from '../../lib/errors.ts';
import type { SnapshotInfo } from '../../sandboxes/types.ts';
import { clientSignal } from '../client-signal.ts';
import type { HttpContext } from '../context.ts';
import { readBody } from '../input/body-source.ts';
import { toPage } from '../input/page.ts';
import { answerPullStream } from '../pull-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { callersOf, placeOf, toPorts, toSandboxBody } from './sandboxes.ts';

export function snapshotHandlers({ sandboxes: host, bodyIdleMs }: HttpServices) {
  const most = { max: MAX_MOVES, maxPerClient: MAX_MOVES_OF_EACH };
  const exportPlaces = new ConcurrencyLimit({ what: 'exports', ...most });
  const importPlaces = new ConcurrencyLimit({ what: 'imports', ...most });
  const placeFor = (places: ConcurrencyLimit, c: HttpContext): Disposable => {
    const principal = c.get('principal');
    return places.acquire(sharerOf(toOwner(principal)));
  };
  return {
    takeSnapshot: async ({ params: { id } }, c) => {
      const snapshot = await host.as(c.get('principal')).get(id).snapshot(clientSignal(c));
      c.get('audit').made = [snapshot.id];
      return toSnapshotBody(snapshot);
    },

    listSnapshots: ({ query }, c) => {
      const { entries, next } = toPage(host.as(c.get('principal')).listSnapshots(), placeOf, query);
      return { snapshots: entries.map(toSnapshotBody), ...next };
    },

    getSnapshot: ({ params: { id } }, c) => toSnapshotBody(host.as(c.get('principal')).getSnapshot(id)),

    exportSnapshot: ({ params: { id } }, c) => {
      const sandboxes = host.as(c.get('principal'));
      const headers = { 'Content-Type': 'application/zstd' };
      sandboxes.getSnapshot(id);
      if (c.req.raw.method === 'HEAD') return c.body(null, 200, headers);
      const place = placeFor(exportPlaces, c);
      return answerPullStream(c, holding(sandboxes.exportSnapshot(id), place), headers);
    },

    importSnapshot: async ({ query: { disk_only: isDiskOnly } }, c) => {
      assertNoTenant(c);
      using _place = placeFor(importPlaces, c);
      const body = readBody(c, bodyIdleMs);
      try {
        const sandboxes = host.as(c.get('principal'));
        const snapshot = await sandboxes.importSnapshot(body.read, { isDiskOnly }, clientSignal(c));
        c.get('audit').made = [snapshot.id];
        return toSnapshotBody(snapshot);
      } finally {
        body.discard(); // what was answered early is still being sent
      }
    },

    deleteSnapshot: async ({ params: { id } }, c) => {
      await host.as(c.get('principal')).deleteSnapshot(id);
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

/** Gives the place back when it is over, however it ends. */
function holding(stream: PullStream, place: Disposable): PullStream {
  const end = () => place[Symbol.dispose]();
  return {
    next: () =>
      stream.next().then(
        (chunk) => {
          if (chunk === undefined) end();
          return chunk;
        },
        (error) => {
          end();
          throw error;
        },
      ),
    cancel: () => {
      stream.cancel();
      end();
    },
  };
}

/** What a VMM reads of it is written by nobody whom the operator knows. AppError forbidden. */
function assertNoTenant(c: HttpContext): void {
  const tenant = c.get('principal').tenant;
  if (tenant === undefined) return;
  const message = `a key of tenant ${tenant} imports no snapshots, as a VMM would read what anybody wrote; use a key without a tenant`;
  throw new AppError('forbidden', message);
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
