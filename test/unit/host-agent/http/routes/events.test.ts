// Events for one reader, of a journal in memory: where it begins, what it is sent of them, and what ends it.
import { getEventListeners } from 'node:events';
import { MAX_WATCHERS_OF_EACH } from '@sandboxd/api';
import { pino } from 'pino';
import t from 'tap';
import type { Entry, Journal } from '../../../../../host-agent/src/events/journal.ts';
import { Authenticator } from '../../../../../host-agent/src/http/authentication.ts';
import { EventStream, type EventStreamOptions } from '../../../../../host-agent/src/http/routes/events.ts';
import type { StoredEvent } from '../../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { makeApp } from '../../../../http/support.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';

const ID = 'sbx_0123456789abc';
const OTHER = 'sbx_0123456789abd';

class FakeJournal {
  readonly entries: Entry<StoredEvent>[] = [];
  readonly listeners = new Set<() => void>();
  prunedTo = 0;
  isRecent = (_seq: number): boolean => true;
  batch = Number.POSITIVE_INFINITY;

  get last(): number {
    return this.entries.at(-1)?.seq ?? 0;
  }

  happen(kind: StoredEvent['kind'], sandbox = ID, tenant?: string): void {
    const event = { kind, sandbox, atMs: 0, ...(tenant !== undefined && { owner: { key: 'k', tenant } }) };
    this.entries.push({ seq: this.last + 1, event });
    for (const listener of this.listeners) listener();
  }

  onMore(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  read(from: number): readonly Entry<StoredEvent>[] {
    return this.entries.filter(({ seq }) => seq > from).slice(0, this.batch);
  }

  toId(seq: number): string {
    return `j-${seq}`;
  }

  toSeq(id: string): number {
    return Number(id.slice(2));
  }
}

function follow(journal: FakeJournal, changes: Partial<EventStreamOptions> = {}) {
  const seen = { ends: 0 };
  const stream = new EventStream({
    journal: journal as unknown as Journal<StoredEvent>,
    from: 0,
    isFollowing: true,
    areLines: true,
    matches: () => true,
    signals: [],
    onEnd: () => void seen.ends++,
    ...changes,
  });
  const next = async () => (await stream.next())?.bytes.toString();
  return { stream, next, seen };
}

const kinds = (text: string | undefined): unknown[] =>
  (text ?? '')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line).kind);

t.test('existing events come at once, later ones as they happen, to every waiting reader', async (t) => {
  const journal = new FakeJournal();
  journal.happen('created');
  journal.happen('hung');
  const { next, stream } = follow(journal);
  t.same(kinds(await next()), ['created', 'hung']);
  const later = next();
  await settle();
  journal.happen('deleted');
  t.same(kinds(await later), ['deleted']);
  stream.cancel();
  t.equal(journal.listeners.size, 0);
  t.equal(await next(), undefined);
});

t.test('as messages: first how to come again and from where, then each with its id', async (t) => {
  const journal = new FakeJournal();
  journal.happen('created');
  journal.happen('hung');
  const { next, stream } = follow(journal, { areLines: false, from: 1 });
  t.equal(await next(), 'retry: 1000\nid: j-1\n\n');
  t.match(await next(), /^id: j-2\ndata: \{.*"kind":"hung".*\}\n\n$/);
  const poked = next();
  stream.keepalive();
  t.equal(await poked, 'id: j-2\n\n', 'a position is no event');
  const lines = follow(journal, { from: 2 });
  lines.stream.keepalive();
  t.equal(await lines.next(), '\n');
  journal.happen('deleted');
  lines.stream.keepalive();
  t.same(kinds(await lines.next()), ['deleted'], 'what happened goes before');
  t.equal(await lines.next(), '\n', 'it was poked all the same');
  const waiting = lines.next();
  let isGiven = false;
  void waiting.then(() => {
    isGiven = true;
  });
  await settle();
  t.notOk(isGiven, 'once');
});

t.test('filtered events advance the position and are not sent', async (t) => {
  const journal = new FakeJournal();
  for (let count = 0; count < 5; count++) journal.happen('created');
  journal.happen('deleted');
  journal.batch = 2;
  const { next, stream } = follow(journal, { matches: ({ kind }) => kind === 'deleted', areLines: false });
  await next();
  t.match(await next(), /^id: j-6\n/);
  journal.happen('created');
  const poked = next();
  stream.keepalive();
  t.equal(await poked, 'id: j-7\n\n');
});

t.test('a reader without follow ends at the newest event, once', async (t) => {
  const journal = new FakeJournal();
  journal.happen('created');
  const { next, seen } = follow(journal, { isFollowing: false });
  t.same(kinds(await next()), ['created']);
  t.equal(await next(), undefined);
  t.equal(seen.ends, 1);
  const pruned = follow(journal, { isFollowing: true, from: 0 });
  journal.prunedTo = 1;
  t.equal(await pruned.next(), undefined, 'it has missed one');
  const kept = follow(journal, { isFollowing: true, from: 1 });
  journal.happen('hung');
  t.same(kinds(await kept.next()), ['hung'], 'it has missed none');
});

t.test('a reader that is far behind gets some 64 KiB at once', async (t) => {
  const journal = new FakeJournal();
  for (let count = 0; count < 2000; count++) journal.happen('created');
  const { next } = follow(journal);
  const sizes: number[] = [];
  let all = 0;
  while (all < 2000) {
    const text = (await next()) ?? '';
    sizes.push(text.length);
    all += kinds(text).length;
  }
  t.equal(all, 2000);
  t.ok(sizes.length > 2);
  for (const size of sizes.slice(0, -1)) t.ok(size >= 65_536 && size < 65_536 + 200, `${size}`);
});

t.test('old events are read one batch at a time, and none after the client has left', async (t) => {
  const journal = new FakeJournal();
  journal.happen('created');
  journal.isRecent = () => false;
  let reads = 0;
  const read = journal.read.bind(journal);
  journal.read = (from) => {
    reads += 1;
    return read(from);
  };
  const { next, stream } = follow(journal);
  const waiting = next();
  await Promise.resolve();
  t.equal(reads, 0);
  stream.cancel();
  t.equal(await waiting, undefined);
  t.equal(reads, 0);
});

t.test('each signal ends the stream, also an earlier one, and no listener is left', async (t) => {
  const journal = new FakeJournal();
  const stop = new AbortController();
  const other = new AbortController();
  const { next, seen } = follow(journal, { signals: [undefined, other.signal, stop.signal] });
  const waiting = next();
  await settle();
  stop.abort();
  t.equal(await waiting, undefined);
  t.equal(seen.ends, 1);
  t.equal(getEventListeners(other.signal, 'abort').length, 0);
  const late = follow(journal, { signals: [stop.signal] });
  t.equal(late.seen.ends, 1);
  t.equal(await late.next(), undefined);
});

/** The app with such a journal. */
function appWith(journal: FakeJournal, tenant?: string) {
  const authenticator = new Authenticator(
    {
      isClosed: tenant !== undefined,
      find: (text) => ({
        state: 'valid',
        principal: { kind: 'key', id: text, key: text, ...(tenant && { tenant }) },
      }),
      noteUse: async () => undefined,
      isStillValid: () => true,
      assertDecided: () => undefined,
    },
    pino({ level: 'silent' }),
  );
  return makeApp({ events: journal as unknown as Journal<StoredEvent>, authenticator }).app;
}

t.test('a reader begins at the newest, at the oldest, or after the event that it names', async (t) => {
  const journal = new FakeJournal();
  for (const kind of ['created', 'hung', 'deleted'] as const) journal.happen(kind);
  journal.prunedTo = 1;
  const app = appWith(journal);
  const begin = async (query: string, headers = {}) => {
    const response = await app.request(`/events?${query}`, { headers });
    t.equal(response.headers.get('content-type'), 'text/event-stream');
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    await reader.cancel();
    return /id: j-(\d+)/.exec(Buffer.from(value ?? []).toString())?.[1];
  };
  t.equal(await begin(''), '3');
  t.equal(await begin('follow=0'), '1');
  t.equal(await begin('last_event_id=0'), '1');
  t.equal(await begin('last_event_id=j-2'), '2');
  t.equal(await begin('last_event_id=j-2', { 'last-event-id': 'j-1' }), '1', 'a browser’s own goes before');
  t.equal(await begin('last_event_id=j-2', { 'last-event-id': '' }), '2');
  t.equal(await begin('last_event_id='), '3');
});

t.test('only requested events of the caller’s own tenant are sent', async (t) => {
  const journal = new FakeJournal();
  journal.happen('created', ID, 'acme');
  journal.happen('hung', ID, 'acme');
  journal.happen('created', OTHER, 'acme');
  journal.happen('deleted', ID, 'other');
  const read = async (query: string, tenant = 'acme') => {
    const headers = { accept: 'Application/X-NDJSON', authorization: 'Bearer k' };
    const response = await appWith(journal, tenant).request(`/events?follow=0&${query}`, { headers });
    t.equal(response.headers.get('content-type'), 'application/x-ndjson');
    t.equal(response.headers.get('cache-control'), 'no-store');
    return kinds(await response.text());
  };
  t.same(await read(''), ['created', 'hung', 'created']);
  t.same(await read(`sandbox=${ID}`), ['created', 'hung']);
  t.same(await read('kind=created'), ['created', 'created']);
  t.same(await read(`kind=created&sandbox=${OTHER}`), ['created']);
  t.same(await read('', 'other'), ['deleted']);
});

t.test('a stream shows now and then that it is there, and leaves nothing behind', async (t) => {
  const timers = new FakeClock(t);
  const journal = new FakeJournal();
  const app = appWith(journal, 'acme');
  const headers = { authorization: 'Bearer k' };
  const response = await app.request('/events', { headers });
  const reader = response.body!.getReader();
  await reader.read();
  t.equal(timers.count, 1);
  t.equal(timers.keeping, 0);
  const second = reader.read();
  await timers.pass(14_999);
  t.equal(await Promise.race([second, settle()]), undefined);
  await timers.pass(1);
  t.match(Buffer.from((await second).value ?? []).toString(), /^id: j-0\n\n$/);
  const head = await app.request('/events', { method: 'HEAD', headers });
  t.match([head.status, head.body], [200, null]);
  t.equal(timers.count, 1, 'which takes nothing');
  const held = [];
  for (let count = 1; count < MAX_WATCHERS_OF_EACH; count++)
    held.push(await app.request('/events', { headers: { authorization: `Bearer ${count}` } }));
  t.equal(new Set(held.map(({ status }) => status)).size, 1);
  t.equal((await app.request('/events', { headers })).status, 503, 'all that a tenant may have');
  await reader.cancel();
  t.equal((await app.request('/events', { headers })).status, 200);
  for (const { body } of held) await body?.cancel();
  t.equal(timers.count, 1);
  t.equal(journal.listeners.size, 1);
  timers.restore();
});
