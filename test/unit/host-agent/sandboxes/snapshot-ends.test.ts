// Failed, found and deleted snapshots: what remains of them, and which events are published.
import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import type { SnapshotRecord } from '../../../../host-agent/src/sandboxes/snapshots.ts';
import { checksummed } from '../../../support/checksummed.ts';
import { type MemoryDaemon, makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { MemoryEngine } from '../../../support/memory-host/engine.ts';
import { oneEngine } from '../../../support/one-engine.ts';
import { scaled } from '../../../support/time-scale.ts';

// Several daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

/** Persisted events, by kind. */
function received({ journal }: MemoryDaemon): string[] {
  journal.refresh();
  return journal.read(0).map(({ event }) => event.kind);
}

t.test('a cancelled snapshot is undone, at any point', async (t) => {
  for (const [point, saves, events] of [
    ['snapshot.recorded', 0, []],
    ['snapshot.published', 1, ['snapshot-taken', 'snapshot-deleted']],
    ['snapshot.committed', 1, ['snapshot-taken', 'snapshot-deleted']],
  ] as const) {
    let left = new AbortController();
    const faults = {
      reach: (reached: string) => {
        if (reached === point) left.abort(new AppError('cancelled', 'the client left'));
      },
    };
    const daemon = await startMemoryDaemon(t, { faults, templateBudgetBytes: 0 });
    const { manager, home, store, host } = daemon;
    const { id } = await manager.create({});
    left = new AbortController();
    await t.rejects(manager.get(id).snapshot(left.signal), { code: 'cancelled', message: 'the client left' });
    t.equal(host.counts.saves, saves, point);
    t.same(manager.listSnapshots(), []);
    t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
    t.same(store.table('snapshots').all(), []);
    t.same(received(daemon).slice(1), events, point);
    t.notOk(daemon.happened.some(({ kind }) => kind === 'snapshot-taken'));
    const stopped = AbortSignal.abort(new AppError('cancelled', 'too late'));
    await t.rejects(manager.get(id).snapshot(stopped), { message: 'too late' });
    t.equal(host.counts.saves, saves);
  }
});

t.test('a source that dies while it is saved has no snapshot, and that is the reason', async (t) => {
  const { manager, host, home } = await startMemoryDaemon(t);
  for (const fails of [false, true]) {
    const { id } = await manager.create({});
    host.onPaused = () => {
      host.of(id).end('the guest panicked');
      if (fails) throw new Error('the VMM is gone');
    };
    await t.rejects(manager.get(id).snapshot(), { code: 'internal', message: /is dead: the guest panicked/ });
    t.equal(manager.get(id).awake.isSaving, false);
  }
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
});

t.test('a full disk and other failures are reported to the client', async (t) => {
  const { manager, host, happened } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  let error: Error = Object.assign(new Error('write failed'), { code: 'ENOSPC' });
  host.onSave = () => {
    throw error;
  };
  const full = { code: 'exhausted', message: /cannot take the snapshot \(stage save\): no space left/ };
  await t.rejects(manager.get(id).snapshot(), full);
  error = new AppError('unsupported', 'this engine cannot');
  await t.rejects(manager.get(id).snapshot(), { code: 'unsupported', message: 'this engine cannot' });
  error = new Error('it broke');
  await t.rejects(manager.get(id).snapshot(), {
    code: 'internal',
    message: 'cannot take the snapshot: it broke',
  });
  host.onSave = () => undefined;
  const startedAt = performance.now();
  const { id: snapshot } = await manager.get(id).snapshot();
  const event = happened.at(-1) as Extract<(typeof happened)[number], { kind: 'snapshot-taken' }>;
  t.match(event, { kind: 'snapshot-taken', snapshot, sandbox: id, pausedMs: 1 });
  t.ok(event.totalMs >= 0 && event.totalMs <= performance.now() - startedAt + 1);
});

t.test('lists are in the order of creation, also in the next daemon', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  for (let count = 0; count < 2; count++) {
    await first.manager.get(id).snapshot();
    await first.manager.create({});
  }
  // Records are found by their names, whatever they are.
  for (const table of ['snapshots', 'sandboxes']) {
    const records = first.store.table<Record<string, unknown>>(table);
    const all = records.all();
    for (const [at, { id, record }] of all.entries())
      await records.put(id, { ...record, createdAtMs: 1e12 + (all.length - at) * 1000 });
  }
  await first.crash();
  const { manager } = await startMemoryDaemon(t, { home });
  for (const list of [manager.list(), manager.listSnapshots()]) {
    t.ok(list.length >= 2);
    const ids = list.map(({ id }) => id);
    t.same(ids, [...ids].sort().reverse());
  }
});

t.test('the next daemon keeps, opens or removes what it finds, and publishes only removals', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  const [whole, gone, half] = [
    await first.manager.get(id).snapshot(),
    await first.manager.get(id).snapshot(),
    await first.manager.get(id).snapshot(),
  ];
  const records = first.store.table<SnapshotRecord>('snapshots');
  await records.put(half.id, { ...records.get(half.id)!, isComplete: false });
  const before = received(first).length;
  await first.crash();
  rmSync(gone.dir, { recursive: true });
  const engine = new MemoryEngine(home.host, { engine: 'memory 2' });
  const next = await startMemoryDaemon(t, { home, engines: oneEngine(engine) });
  t.same(
    next.manager.listSnapshots().map((info) => info.id),
    [whole.id],
  );
  const deleted = next.happened.filter(({ kind }) => kind === 'snapshot-deleted');
  t.match(deleted, [{ snapshot: gone.id }]);
  t.same(
    received(next)
      .slice(before)
      .filter((kind) => kind === 'snapshot-deleted').length,
    1,
  );
  t.same(next.lines.filter(({ msg }) => msg === 'snapshot record removed').length, 2);
  t.match(next.manager.getSnapshot(whole.id), {
    dir: whole.dir,
    memoryPath: join(whole.dir, 'memory'),
    statePath: join(whole.dir, 'state'),
    rootfsPath: join(whole.dir, 'disk'),
  });
  const unfit = {
    code: 'conflict',
    message: /does not fit the engine any more: engine was memory 1, is memory 2/,
  };
  await t.rejects(next.manager.fork(whole.id, 1), unfit);
});

t.test('a retried delete is published once, whatever could be recorded', async (t) => {
  for (const isFull of [false, true]) {
    const daemon = await startMemoryDaemon(t, {
      changeSnapshotRecords: (records) => {
        const put = records.put.bind(records);
        return Object.assign(records, {
          put: (id: string, record: SnapshotRecord, also?: () => void) =>
            isFull && !record.isComplete && records.get(id)?.isComplete
              ? Promise.reject(new Error('the registry is full'))
              : put(id, record, also),
        });
      },
    });
    const { manager, happened, store } = daemon;
    const { id } = await manager.create({});
    const snapshot = await manager.get(id).snapshot();
    await manager.delete(id);
    await checksummed(snapshot.dir);
    const manifest = join(snapshot.dir, 'manifest.json');
    rmSync(manifest);
    mkdirSync(manifest);
    await t.rejects(manager.deleteSnapshot(snapshot.id));
    const record = store.table<SnapshotRecord>('snapshots').get(snapshot.id);
    t.equal(record?.isComplete, isFull, 'the next daemon would go on with it');
    rmdirSync(manifest);
    const both = await Promise.allSettled([1, 2].map(() => manager.deleteSnapshot(snapshot.id)));
    t.equal(both[0]?.status, 'fulfilled');
    t.equal(received(daemon).filter((kind) => kind === 'snapshot-deleted').length, 1);
    t.equal(happened.filter(({ kind }) => kind === 'snapshot-deleted').length, 1);
    t.equal(store.table('snapshots').get(snapshot.id), undefined);
    t.notOk(existsSync(snapshot.dir));
  }
});

t.test('two concurrent deletes are published once', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const { manager, happened } = daemon;
  const { id } = await manager.create({});
  const snapshot = await manager.get(id).snapshot();
  await Promise.all([1, 2, 3].map(() => manager.deleteSnapshot(snapshot.id)));
  t.same(received(daemon).slice(-2), ['snapshot-taken', 'snapshot-deleted']);
  t.equal(happened.filter(({ kind }) => kind === 'snapshot-deleted').length, 1);
  await t.rejects(manager.deleteSnapshot(snapshot.id), { code: 'not_found' });
});

t.test('one whose delete has failed half-way is not changed', async (t) => {
  let isFailing = false;
  const { manager } = await startMemoryDaemon(t, {
    faults: {
      reach: (point) => {
        if (!isFailing || point !== 'snapshot-delete.files') return;
        isFailing = false;
        throw new Error('EIO');
      },
    },
  });
  const { id } = await manager.create({});
  const snapshot = await manager.snapshot(manager.get(id));
  isFailing = true;
  await t.rejects(manager.snapshots.delete(snapshot.id), { message: 'EIO' });
  await t.rejects(manager.snapshots.change(snapshot.id, { comment: 'x' }), { code: 'not_found' });
  await manager.snapshots.delete(snapshot.id);
  t.same(manager.listSnapshots(), []);
});
