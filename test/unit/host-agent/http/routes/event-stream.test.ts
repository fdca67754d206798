// Many who read old events at once, and find nothing of theirs: others have their turn in between.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Journal } from '../../../../../host-agent/src/events/journal.ts';
import { EventStream } from '../../../../../host-agent/src/http/routes/events.ts';
import type { StoredEvent } from '../../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { Store } from '../../../../../host-agent/src/store/store.ts';

/** Far more than what is in memory. */
const EVENTS = 8000;
const READERS = 50;

async function open(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'stream-'));
  const store = await Store.open(join(dir, 'state.lmdb'));
  const log = pino({ level: 'silent' });
  const journal = await Journal.open<StoredEvent>(store, { keepMs: 1e9, maxBytes: 2 ** 30, log });
  t.teardown(async () => {
    await journal.close();
    await store.close();
    await rm(dir, { recursive: true });
  });
  await store.atomically(() => {
    for (let count = 0; count < EVENTS; count++)
      journal.put({ kind: 'hung', sandbox: 'sbx_0123456789abc', atMs: Date.now() });
  });
  journal.refresh();
  return journal;
}

function follow(journal: Journal<StoredEvent>, matches: (event: StoredEvent) => boolean): EventStream {
  const options = {
    journal,
    from: 0,
    isFollowing: false,
    areLines: true,
    signals: [],
    onEnd: () => undefined,
  };
  return new EventStream({ ...options, matches });
}

t.test('one batch of old events is read between two turns of everything else', async (t) => {
  const journal = await open(t);
  let reads = 0;
  let most = 0;
  let isOver = false;
  const read = journal.read.bind(journal);
  journal.read = (seq) => {
    if (!journal.isRecent(seq)) reads++;
    return read(seq);
  };
  const count = () => {
    most = Math.max(most, reads);
    reads = 0;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const streams = Array.from({ length: READERS }, () => follow(journal, () => false));
  t.same(new Set(await Promise.all(streams.map((stream) => stream.next()))), new Set([undefined]));
  isOver = true;
  t.ok(most >= 1 && most <= 2, `${most} batches in one turn`);
});

t.test('a reader that waits while events are pruned is ended, so that it notices the gap', async (t) => {
  const journal = await open(t);
  const stream = follow(journal, () => true);
  const chunk = stream.next();
  Object.defineProperty(journal, 'prunedTo', { get: () => 1 });
  t.equal(await chunk, undefined, 'it ends, and is told when it comes again');
});

t.test('a cancelled reader that waits ends', async (t) => {
  const journal = await open(t);
  const streams = Array.from({ length: READERS }, () => follow(journal, () => true));
  const pieces = streams.map((stream) => stream.next());
  for (const stream of streams) stream.cancel();
  t.same(new Set(await Promise.all(pieces)), new Set([undefined]));
});
