// Which snapshot others came from, also after it was deleted.
import t from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { ancestorsOf, compactStubs } from '../../../../host-agent/src/sandboxes/ancestry.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

t.test('a snapshot came from what its sandbox was forked from, or last saved as', async (t) => {
  const home = await makeHome(t);
  const daemon = await startMemoryDaemon(t, { home });
  const { manager } = daemon;
  const { id: source } = await manager.create({});
  const take = (id: string) => manager.get(id).snapshot();
  const a = await take(source);
  t.notOk(a.parentSnapshotId, 'of a sandbox that was created');
  const [fork] = await manager.fork(a.id, 1);
  t.match(fork, { sourceSnapshotId: a.id, parentSnapshotId: a.id });
  const b = await take(fork!.id);
  const c = await take(fork!.id);
  t.same([b.parentSnapshotId, c.parentSnapshotId], [a.id, b.id]);
  t.equal(manager.get(fork!.id).info.parentSnapshotId, c.id);
  t.same(manager.snapshots.ancestorsOf(c.id), [b.id, a.id]);

  await manager.deleteSnapshot(b.id);
  t.same(manager.snapshots.ancestorsOf(c.id), [a.id], 'over one that was deleted');
  t.equal(manager.getSnapshot(c.id).parentSnapshotId, b.id);
  await manager.rollback(manager.get(fork!.id), a.id);
  t.equal(manager.get(fork!.id).info.parentSnapshotId, a.id, 'it went back over a deleted one');
  await manager.rollback(manager.get(fork!.id), c.id);
  const [further] = await manager.fork(c.id, 1);
  t.equal(further!.parentSnapshotId, c.id, 'what came from a deleted one can be used');

  await daemon.crash();
  const next = await startMemoryDaemon(t, { home });
  t.same(next.manager.snapshots.ancestorsOf(c.id), [a.id], 'in the next daemon');
  t.equal(next.manager.get(fork!.id).info.parentSnapshotId, c.id);
  t.same(
    next.manager.listSnapshots().map(({ id }) => id),
    [a.id, c.id],
    'a deleted one is not listed',
  );
  await next.manager.deleteSnapshot(c.id);
  t.same(next.manager.snapshots.ancestorsOf(c.id), [a.id], 'a sandbox came from it');
  for (const id of [fork!.id, further!.id]) await next.manager.delete(id);
  await until(() => next.store.table('sandboxes').all().length === 1);
  await next.manager.deleteSnapshot(a.id);
  t.same(next.manager.snapshots.ancestorsOf(c.id), [], 'nothing came from it any more');
  t.same(
    next.store
      .table('snapshots')
      .all()
      .map(({ id }) => id)
      .filter((id) => id !== a.id),
    [],
  );
});

t.test('the tree of a snapshot has all that came from its root, also over deleted ones', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const view = manager.as(OPERATOR);
  const { id: source } = await manager.create({ name: 'source' });
  const take = (id: string) => manager.get(id).snapshot();
  const a = await take(source);
  const b = await take(source);
  const [fork] = await manager.fork(a.id, 1);
  const c = await take(fork!.id);
  const shown = (id: string) =>
    view.snapshotTree(id).map((node) => [node.id, node.parentId, node.isDeleted ?? node.state]);
  const all = [
    [a.id, undefined, undefined],
    [b.id, a.id, undefined],
    [c.id, a.id, undefined],
    [source, b.id, 'running'],
    [fork!.id, c.id, 'running'],
  ];
  t.same(shown(c.id).sort(), all.sort());
  await manager.deleteSnapshot(a.id);
  const without = all.map((node) => (node[0] === a.id ? [a.id, undefined, true] : node));
  for (const id of [a.id, b.id])
    t.same(shown(id).sort(), without.sort(), 'the deleted root holds it together');
  const other = await manager.create({});
  const alone = await take(other.id);
  t.same(shown(alone.id), [
    [alone.id, undefined, undefined],
    [other.id, alone.id, 'running'],
  ]);
  t.throws(() => shown('snap_0000000000000'), { code: 'not_found' });
  const red = { kind: 'key', key: 'k', tenant: 'red' } as unknown as typeof OPERATOR;
  t.throws(() => manager.as(red).snapshotTree(a.id), { code: 'not_found' }, 'of another tenant');
});

t.test('a snapshot that is undone leaves its sandbox where it was', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const first = await manager.get(id).snapshot();
  host.onPaused = () => {
    throw new Error('the disk is broken');
  };
  await t.rejects(manager.get(id).snapshot());
  t.equal(manager.get(id).info.parentSnapshotId, first.id);
});

t.test('deleted snapshots stay known only as far as others came from them', async (t) => {
  const chain = (names: string) =>
    new Map([...names].map((id, at) => [id, at === 0 ? {} : { parentId: names[at - 1]! }]));
  const shown = (kept: Map<string, { parentId?: string }>) =>
    [...kept].map(([id, { parentId = '' }]) => `${id}<${parentId}`);
  t.same(shown(compactStubs(chain('abcd'), ['d'])), ['d<'], 'a line is one');
  t.same(shown(compactStubs(chain('abcd'), [undefined, 'x'])), []);
  t.same(shown(compactStubs(chain('abcd'), ['b', 'd', 'd'])), ['b<', 'd<b']);
  const parted = new Map([...chain('abcd'), ['e', { parentId: 'c' }], ['f', { parentId: 'e' }]]);
  t.same(shown(compactStubs(parted, ['d', 'f'])), ['c<', 'd<c', 'f<c'], 'where lines part');
  const through = new Map([['b', { parentId: 'living' }]]);
  t.same(shown(compactStubs(through, ['b'])), ['b<living']);
  const long = new Map(Array.from({ length: 20_000 }, (_, at) => [`${at}`, { parentId: `${at - 1}` }]));
  t.equal(compactStubs(long, ['19999']).size, 1);
  const loop = new Map([
    ['a', { parentId: 'b' }],
    ['b', { parentId: 'a' }],
  ]);
  t.same([...ancestorsOf('a', (id) => loop.get(id))], ['b']);
  t.ok(compactStubs(loop, ['a']).has('a'), 'a registry that is wrong ends no daemon');
});

t.test('what is left of a deleted snapshot goes with the last sandbox that came from it', async (t) => {
  const { manager, store } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const snapshot = await manager.snapshot(manager.get(id));
  await manager.deleteSnapshot(snapshot.id);
  t.equal(store.table('snapshots').all().length, 1);
  await manager.delete(id);
  await until(() => store.table('snapshots').all().length === 0);
});
