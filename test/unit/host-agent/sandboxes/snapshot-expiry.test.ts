// Snapshots that are deleted by themselves: at their expiry, and automatic ones beyond keep_last.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

t.test('a snapshot is deleted at its expiry, which can be changed, also by the next daemon', async (t) => {
  const home = await makeHome(t);
  const daemon = await startMemoryDaemon(t, { home });
  const { manager, happened } = daemon;
  const { id } = await manager.create({});
  const take = (expiresS?: number) =>
    manager.get(id).snapshot(undefined, { owner: undefined, policy: undefined, about: { expiresS } });
  const kept = await take();
  t.notOk(kept.expiresAt);
  const short = await take(1);
  t.equal(short.expiresAt?.getTime(), short.createdAt.getTime() + 1000);
  await until(() => happened.some(({ kind }) => kind === 'snapshot-deleted'));
  t.match(happened.at(-1), { kind: 'snapshot-deleted', snapshot: short.id, reason: 'expires_s' });
  const long = await take(100_000);
  t.ok((await manager.snapshots.change(long.id, { comment: 'stays' })).expiresAt, 'not named, so it stays');
  t.notOk((await manager.snapshots.change(long.id, { expiresS: 0 })).expiresAt);
  await manager.snapshots.change(long.id, { expiresS: 1 });
  await daemon.crash();
  const next = await startMemoryDaemon(t, { home });
  await until(() => next.manager.listSnapshots().length === 1);
  t.equal(next.manager.listSnapshots()[0]?.id, kept.id);
});

t.test('a new automatic snapshot replaces older ones that it came from, and no others', async (t) => {
  const { manager, happened } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const owner = { owner: undefined, policy: undefined };
  const take = async (from: string, automatic?: { keepLast?: number }) => {
    const [fork] = await manager.fork(from, 1);
    const { id } = await manager.get(fork!.id).snapshot(undefined, { ...owner, automatic });
    await manager.delete(fork!.id);
    await manager.snapshots.deleteOlder(id);
    return id;
  };
  const made = (await manager.get(id).snapshot()).id;
  const keep = { keepLast: 2 };
  const first = await take(made, keep);
  const beside = await take(made, keep);
  const second = await take(first, keep);
  const byHand = await take(second);
  const third = await take(byHand, keep);
  t.same(
    manager
      .listSnapshots()
      .map((each) => each.id)
      .sort(),
    [made, beside, second, byHand, third].sort(),
  );
  t.match(
    happened.filter(({ kind }) => kind === 'snapshot-deleted'),
    [{ snapshot: first, reason: 'keep_last' }],
  );
  const all = await take(third, {});
  t.equal(manager.listSnapshots().length, 6, 'without keep_last all stay');
  t.ok(manager.getSnapshot(all).isAutomatic);
});

t.test('one whose expiry was changed while another is deleted stays', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const take = (expiresS: number) =>
    manager.get(id).snapshot(undefined, { owner: undefined, about: { expiresS } });
  const [first, second] = [await take(1), await take(2)];
  const { promise, resolve } = Promise.withResolvers<void>();
  const use = manager.snapshots.open(first.id).use(() => promise);
  const isThere = () => manager.listSnapshots().some((each) => each.id === first.id);
  await sleep(1300);
  await manager.snapshots.change(second.id, { expiresS: 3600 });
  await sleep(1000);
  resolve();
  await use;
  await until(() => !isThere());
  t.same(
    manager.listSnapshots().map((each) => each.id),
    [second.id],
  );
});

t.test('a daemon that was killed before an idle sandbox was deleted leaves what it came from', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  const auto = { owner: undefined, automatic: { keepLast: 1 } };
  const older = await first.manager.get(id).snapshot(undefined, auto);
  const [fork] = await first.manager.fork(older.id, 1);
  await first.manager.get(fork?.id ?? '').snapshot(undefined, auto);
  await first.crash();
  const next = await startMemoryDaemon(t, { home });
  t.ok(next.manager.listSnapshots().some((each) => each.id === older.id));
});
