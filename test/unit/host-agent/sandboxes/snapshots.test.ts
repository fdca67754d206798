// Snapshots and forks: what a copy has of its source, and what remains when one cannot be made.
import { readdirSync } from 'node:fs';
import { open, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { allocatedBytes } from '../../../../host-agent/src/lib/extents.ts';
import { SavedGuest } from '../../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import type { SnapshotRecord } from '../../../../host-agent/src/sandboxes/snapshots.ts';
import { checksummed } from '../../../support/checksummed.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

t.test('a fork continues where its source was, with a new identity', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  const source = await manager.create({ vcpus: 2, memoryMib: 256, timeoutS: 3600 });
  await execText(manager, source.id, ['note', 'state', 'prepared once']);
  const snapshot = await manager.get(source.id).snapshot();
  await execText(manager, source.id, ['note', 'state', 'changed since']);
  const [fork, other] = await manager.fork(snapshot.id, 2);
  t.equal(await execText(manager, fork!.id, ['recall', 'state']), 'prepared once');
  t.equal(await execText(manager, source.id, ['recall', 'state']), 'changed since');
  t.match(fork, {
    vcpus: 2,
    memoryMib: 256,
    rootfs: { kind: 'profile', name: 'base' },
    sourceSnapshotId: snapshot.id,
  });
  const [a, b] = [fork!, other!].map(({ id }) => host.of(id).agent.identities.at(-1)!);
  t.equal(a!.sandboxId, fork!.id);
  t.equal(a!.hostname, fork!.id.replace('_', '-'));
  t.not(a!.machineId, b!.machineId);
  t.notSame(Buffer.from(a!.entropy), Buffer.from(b!.entropy));
});

t.test('forks are all or none', async (t) => {
  const { host, manager, home } = await startMemoryDaemon(t);
  const source = await manager.create({});
  const snapshot = await manager.get(source.id).snapshot();
  const before = host.counts.restores;
  host.onRestore = (count) => {
    if (count === before + 3) throw new Error('no more of this');
  };
  await t.rejects(manager.fork(snapshot.id, 4), { message: /no more of this/ });
  t.same(
    manager.list().map(({ id }) => id),
    [source.id],
  );
  t.equal(host.running.length, 1);
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), [source.id]);
});

t.test('the first copy that fails cancels the starts of the others', async (t) => {
  const { host, manager } = await startMemoryDaemon(t, { maxConcurrentStarts: 1 });
  const source = await manager.create({});
  const snapshot = await manager.get(source.id).snapshot();
  const before = host.counts.restores;
  host.onRestore = (count) => {
    if (count === before + 2) throw new Error('no more of this');
  };
  await t.rejects(manager.fork(snapshot.id, 6), { message: /no more of this/ });
  t.equal(host.counts.restores, before + 2);
});

t.test('a failed snapshot leaves its source unchanged, and nothing else', async (t) => {
  const { host, manager, home } = await startMemoryDaemon(t);
  const source = await manager.create({});
  host.onPaused = () => {
    throw new Error('the disk is broken');
  };
  await t.rejects(manager.get(source.id).snapshot(), { message: /the disk is broken/ });
  t.same(manager.listSnapshots(), []);
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
  t.notOk(host.of(source.id).isPaused);
  t.equal(await execText(manager, source.id, ['note', 'a', 'b']), '');
});

t.test('a snapshot without space is refused before its source is paused', async (t) => {
  let diskFreeBytes = 2 ** 40;
  const readCapacity = async () => ({
    memoryTotalBytes: 2 ** 40,
    memoryAvailableBytes: 2 ** 40,
    diskFreeBytes,
  });
  const { host, manager } = await startMemoryDaemon(t, { readCapacity });
  const source = await manager.create({ memoryMib: 256 });
  const before = host.counts.saves;
  // The reserve, and not quite the memory.
  diskFreeBytes = (256 + 255) * 2 ** 20;
  await t.rejects(manager.get(source.id).snapshot(), { code: 'exhausted', message: /no disk space/ });
  t.equal(host.counts.saves, before);
});

t.test('a snapshot that cannot be recorded leaves nothing', async (t) => {
  const { manager, home } = await startMemoryDaemon(t, {
    changeSnapshotRecords: (records) => {
      const put = records.put.bind(records);
      return Object.assign(records, {
        put: (id: string, record: SnapshotRecord) =>
          record.isComplete ? Promise.reject(new Error('the registry is full')) : put(id, record),
      });
    },
  });
  const source = await manager.create({});
  await t.rejects(manager.get(source.id).snapshot(), { message: /the registry is full/ });
  t.same(manager.listSnapshots(), []);
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
});

t.test('a changed byte is detected at the first use, whatever the times of the file are', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const source = await first.manager.create({});
  const snapshot = await first.manager.get(source.id).snapshot();
  await checksummed(snapshot.dir);
  await first.crash();
  const { mtime, atime } = await stat(snapshot.memoryPath);
  const file = await open(snapshot.memoryPath, 'r+');
  await file.write('X', 2);
  await file.close();
  await utimes(snapshot.memoryPath, atime, mtime);
  const next = await startMemoryDaemon(t, { home });
  await t.rejects(next.manager.fork(snapshot.id, 1), { message: /damaged.*memory has checksum/ });
});

t.test('the guest’s clock is set after the pause of a save', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const { agent } = host.of(id);
  const before = agent.clocks.length;
  host.onPaused = () => new Promise((resolve) => setTimeout(resolve, 50));
  const pausedUntil = Date.now() + 50;
  await manager.get(id).snapshot();
  await until(() => agent.clocks.length > before, 'its clock to be set');
  t.ok(agent.clocks.at(-1)! >= pausedUntil * 1000, 'to a time after the pause');
});

t.test('forks whose layers together exceed the disk are refused before any is started', async (t) => {
  let diskFreeBytes = 2 ** 40;
  const readCapacity = async () => ({
    memoryTotalBytes: 2 ** 40,
    memoryAvailableBytes: 2 ** 40,
    diskFreeBytes,
  });
  const { host, manager } = await startMemoryDaemon(t, { readCapacity });
  const source = await manager.create({});
  const snapshot = await manager.get(source.id).snapshot();
  const before = host.counts.restores;
  // Space for the reserve and three layers.
  diskFreeBytes = 256 * 2 ** 20 + 3 * (await allocatedBytes(snapshot.rootfsPath));
  await t.rejects(manager.fork(snapshot.id, 4), { code: 'exhausted', message: /no disk space/ });
  t.equal(host.counts.restores, before);
  t.equal((await manager.fork(snapshot.id, 3)).length, 3);
});

t.test('a hang after a snapshot is named', async (t) => {
  const { host, manager, happened } = await startMemoryDaemon(t, { watchdogTimeoutMs: 90 });
  const { id } = await manager.create({});
  await manager.get(id).snapshot();
  host.of(id).agent.isHanging = true;
  await until(() => happened.some(({ kind }) => kind === 'hung'), 'the hang to be named');
  t.throws(() => manager.get(id).assertAlive(), { code: 'guest_unreachable', message: /has not answered/ });
  host.of(id).agent.isHanging = false;
  await until(() => happened.some(({ kind }) => kind === 'recovered'), 'its end');
  manager.get(id).assertAlive();
});

t.test('a snapshot is acknowledged when it survives a crash of the host', async (t) => {
  const flushed: string[] = [];
  const { manager, store } = await startMemoryDaemon(t, {
    changeSnapshotRecords: (records) => {
      const [put, flush] = [records.put.bind(records), records.flush.bind(records)];
      let unflushed: string[] = [];
      return Object.assign(records, {
        put: async (id: string, record: SnapshotRecord) => {
          if (record.isComplete) unflushed.push(id);
          await put(id, record);
        },
        flush: async () => {
          await flush();
          flushed.push(...unflushed);
          unflushed = [];
        },
      });
    },
  });
  const { id } = await manager.create({});
  const snapshot = await manager.get(id).snapshot();
  t.same(flushed, [snapshot.id]);
  t.match(store.table<SnapshotRecord>('snapshots').get(snapshot.id), { isComplete: true });
});

t.test('a guest that was saved in the middle of a frame is marked', async (t) => {
  const { host, manager } = await startMemoryDaemon(t, { bootTimeoutMs: 5000 });
  const { id } = await manager.create({});
  const quiet = await manager.get(id).snapshot();
  // It does not answer in the second that a save gives it.
  host.of(id).agent.isHanging = true;
  const busy = await manager.get(id).snapshot();
  host.of(id).agent.isHanging = false;
  const needsResync = async (dir: string) => (await SavedGuest.open(dir)).manifest.needsResync;
  t.same([await needsResync(quiet.dir), await needsResync(busy.dir)], [false, true]);
  const [fork] = await manager.fork(busy.id, 1);
  t.equal(await execText(manager, fork!.id, ['note', 'a', 'b']), '');
});

t.test('the space of all is that of each', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  t.equal(await manager.snapshots.diskBytes(), 0);
  const { id } = await manager.create({});
  const [first, second] = [await manager.get(id).snapshot(), await manager.get(id).snapshot()];
  const each = async (snapshot: string) => (await manager.snapshots.measure(snapshot)).diskBytes;
  t.ok((await each(first.id)) > 0);
  t.equal(await manager.snapshots.diskBytes(), (await each(first.id)) + (await each(second.id)));
  await manager.deleteSnapshot(first.id);
  t.equal(await manager.snapshots.diskBytes(), await each(second.id));
});
