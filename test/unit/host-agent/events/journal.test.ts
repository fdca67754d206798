// The journal: ordered, atomic with its changes, bounded, reopened.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Journal } from '../../../../host-agent/src/events/journal.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

type Event = { readonly atMs: number; readonly name: string };

async function openJournal(t: Test, dir?: string, limits: { keepMs?: number; maxBytes?: number } = {}) {
  const at = dir ?? (await mkdtemp(join(tmpdir(), 'journal-')));
  if (dir === undefined) t.teardown(() => rm(at, { recursive: true }));
  const store = await Store.open(join(at, 'state.lmdb'));
  const log = pino({ level: 'silent' });
  const journal = await Journal.open<Event>(store, { keepMs: 1e12, maxBytes: 2 ** 20, log, ...limits });
  const close = async () => {
    await journal.close();
    await store.close();
  };
  return { at, store, journal, close };
}

const names = (journal: Journal<Event>, from = journal.prunedTo) => {
  const found: string[] = [];
  for (let seq = from; ; ) {
    const entries = journal.read(seq);
    if (entries.length === 0) return found;
    found.push(...entries.map(({ event }) => event.name));
    seq = entries.at(-1)?.seq ?? seq;
  }
};
const now = (name: string) => ({ atMs: Date.now(), name });

t.test('written events are read again in order, and numbers continue', async (t) => {
  const first = await openJournal(t);
  for (const name of 'abc') await first.journal.append(now(name));
  const id = first.journal.toId(2);
  await first.close();
  const second = await openJournal(t, first.at);
  t.same(names(second.journal), ['a', 'b', 'c']);
  await second.journal.append(now('d'));
  t.same(names(second.journal, second.journal.toSeq(id)), ['c', 'd']);
  await second.close();
});

t.test('an event exists exactly when its change does', async (t) => {
  const { store, journal, close } = await openJournal(t);
  const table = store.table<string>('things');
  await table.put('1', 'one', () => journal.put(now('one')));
  await t.rejects(
    table.put('2', 'two', () => {
      journal.put(now('two'));
      throw new Error('no');
    }),
  );
  t.same([table.get('1'), table.get('2')], ['one', undefined]);
  await table.remove('1', () => journal.put(now('none')));
  journal.refresh();
  t.same(names(journal), ['one', 'none']);
  await close();
});

t.test('many events are delivered in order, once each, to all subscribers', async (t) => {
  const { journal, close } = await openJournal(t);
  const seen: string[] = [];
  let seq = 0;
  const unlisten = journal.onMore(() => {
    const more = journal.read(seq);
    seq = more.at(-1)?.seq ?? seq;
    seen.push(...more.map(({ event }) => event.name));
  });
  await Promise.all(Array.from({ length: 3000 }, (_, at) => journal.append(now(String(at)))));
  const requested = Array.from({ length: 3000 }, (_, at) => String(at));
  while (seq < journal.last) {
    const more = journal.read(seq);
    seq = more.at(-1)?.seq ?? seq;
    seen.push(...more.map(({ event }) => event.name));
  }
  t.same(seen, requested);
  t.same(names(journal), requested, 'also those that are on disk only');
  unlisten();
  await close();
});

t.test('the oldest are pruned first, by age and size, and a reader before them gets an error', async (t) => {
  const { at, journal, close } = await openJournal(t, undefined, { keepMs: 1000, maxBytes: 400 });
  const clock = new FakeClock(t);
  const start = clock.nowMs;
  await journal.append({ atMs: start - 2000, name: 'old' });
  await journal.append({ atMs: start, name: 'new' });
  const old = journal.toId(1);
  await journal.prune();
  t.same(names(journal), ['new']);
  t.equal(journal.toSeq(old), 1, 'nothing after it is missing');
  t.throws(() => journal.toSeq(journal.toId(0)), { code: 'gone', message: /not kept any more/ });
  for (let count = 0; count < 50; count++) await journal.append({ atMs: start, name: `n${count}` });
  await journal.prune();
  t.ok(journal.bytes <= 400);
  t.equal(names(journal).at(-1), 'n49');
  t.throws(() => journal.toSeq(old), { code: 'gone' });
  clock.nowMs += 5000;
  await journal.prune();
  clock.restore();
  t.same(names(journal), []);
  const newest = journal.toId(journal.last);
  await close();
  const again = await openJournal(t, at);
  t.equal(
    again.journal.toId(again.journal.toSeq(newest)),
    newest,
    'the last one is known although it is pruned',
  );
  await again.journal.append(now('next'));
  t.same(names(again.journal, again.journal.toSeq(newest)), ['next']);
  await again.close();
});

t.test('ids of other journals are invalid', async (t) => {
  const { journal, close } = await openJournal(t);
  const other = await openJournal(t);
  await journal.append(now('a'));
  await other.journal.append(now('b'));
  t.throws(() => journal.toSeq(other.journal.toId(1)), {
    code: 'gone',
    message: /not an event of this daemon/,
  });
  t.throws(() => journal.toSeq(journal.toId(2)), { code: 'gone' });
  for (const bad of ['', 'x', '1', `${journal.toId(1)}x`, `${'9'.repeat(5000)}`])
    t.throws(() => journal.toSeq(bad), { code: 'invalid_argument' });
  await close();
  await other.close();
});
