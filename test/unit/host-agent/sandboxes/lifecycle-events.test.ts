// Lifecycle events: what listeners and users get.
import { pino } from 'pino';
import t from 'tap';
import type { Journal } from '../../../../host-agent/src/events/journal.ts';
import {
  type LifecycleEvent,
  LifecycleEvents,
  type StoredEvent,
  toEventBody,
  toStored,
} from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import { logLifecycleEvents } from '../../../../host-agent/src/sandboxes/lifecycle-log.ts';

const OWNER = { key: 'k', tenant: 'red' };
const EXIT = { reason: 'the guest panicked', exitCode: 1, signal: null };
const TIMES = { diskMs: 2, totalMs: 7 };

const CREATED: LifecycleEvent = {
  kind: 'created',
  sandbox: 'sbx',
  origin: 'saved',
  rootfs: 'image',
  times: TIMES,
};
const TEMPLATE: LifecycleEvent = {
  kind: 'template-made',
  template: 'key',
  rootfs: 'base',
  hasNetwork: false,
  pausedMs: 1,
  totalMs: 2,
};

t.test('stored events have no details of the host', (t) => {
  t.same(toStored(CREATED, OWNER, {}, 5), {
    atMs: 5,
    kind: 'created',
    sandbox: 'sbx',
    origin: 'template',
    durationMs: 7,
    owner: OWNER,
  });
  const forked = { ...CREATED, kind: 'forked', sourceSnapshot: 'snap', times: {} } as const;
  t.same(toStored(forked, undefined, {}, 5), {
    atMs: 5,
    kind: 'forked',
    sandbox: 'sbx',
    origin: 'snapshot',
    durationMs: 0,
    sourceSnapshot: 'snap',
  });
  t.notOk('sourceSnapshot' in (toStored(CREATED, OWNER) ?? {}));
  t.notOk('owner' in (toStored(CREATED, undefined) ?? {}));
  t.same(toStored({ kind: 'died', sandbox: 'sbx', exit: EXIT, diagnosis: 'secrets' }, undefined, {}, 5), {
    atMs: 5,
    kind: 'died',
    sandbox: 'sbx',
    reason: EXIT.reason,
  });
  const taken = {
    kind: 'snapshot-taken',
    sandbox: 'sbx',
    snapshot: 'snap',
    pausedMs: 3,
    totalMs: 9,
  } as const;
  t.same(toStored(taken, undefined, {}, 5), {
    atMs: 5,
    kind: 'snapshot-taken',
    sandbox: 'sbx',
    snapshot: 'snap',
    pausedMs: 3,
    durationMs: 9,
  });
  t.equal(toStored(TEMPLATE, OWNER), undefined);
  t.equal(toStored({ kind: 'template-evicted', template: 'key', sizeBytes: 1 }, OWNER), undefined);
  const idle = { kind: 'idle', sandbox: 'sbx', idleS: 60, snapshot: 'snap' } as const;
  t.same(toStored(idle, undefined, {}, 5), { atMs: 5, ...idle });
  t.ok((toStored(idle, undefined)?.atMs ?? 0) > 1e12, 'it is of now');
  t.end();
});

t.test('an event for clients has all stored fields', (t) => {
  const event: StoredEvent = {
    kind: 'forked',
    atMs: 86_400_000,
    sandbox: 'sbx',
    snapshot: 'snap',
    owner: OWNER,
    origin: 'snapshot',
    sourceSnapshot: 'source',
    durationMs: 1,
    pausedMs: 2,
    timeoutS: 3,
    idleS: 4,
    reason: 'why',
  };
  t.same(toEventBody('7', event), {
    id: '7',
    at: '1970-01-02T00:00:00.000Z',
    kind: 'forked',
    sandbox: 'sbx',
    snapshot: 'snap',
    origin: 'snapshot',
    source_snapshot_id: 'source',
    duration_ms: 1,
    paused_ms: 2,
    timeout_s: 3,
    idle_s: 4,
    reason: 'why',
    tenant: 'red',
  });
  t.equal(toEventBody('7', { kind: 'deleted', atMs: 0 }).tenant, undefined);
  t.end();
});

/** A journal that records its calls. */
function makeJournal(appended: () => Promise<void> = async () => undefined) {
  const calls: string[] = [];
  const journal = {
    append: (event: StoredEvent) => {
      calls.push(`append ${event.kind}`);
      return appended();
    },
    put: (event: StoredEvent) => calls.push(`put ${event.kind}`),
    refresh: () => calls.push('refresh'),
  } as unknown as Journal<StoredEvent>;
  return { calls, journal };
}

t.test('listeners get each event once, and the journal is refreshed each time', (t) => {
  const { calls, journal } = makeJournal();
  const events = new LifecycleEvents(journal);
  const heard: string[] = [];
  const unsubscribe = events.subscribe(({ kind }) => heard.push(kind));
  const received = events.prepare(CREATED, OWNER);
  t.same([calls, heard], [[], []], 'nothing of it has happened yet');
  received.persist();
  t.same([calls, heard], [['put created'], []]);
  received.publish();
  received.publish();
  t.same([calls, heard], [['put created', 'refresh', 'refresh'], ['created']]);
  const hidden = events.prepare(TEMPLATE);
  hidden.persist();
  hidden.publish();
  events.emit(TEMPLATE);
  events.emit({ kind: 'hung', sandbox: 'sbx', reason: 'why' });
  events.notify({ kind: 'expired', sandbox: 'sbx', timeoutS: 1 });
  events.published();
  t.same(calls.slice(3), ['refresh', 'append hung', 'refresh']);
  t.same(heard.slice(1), ['template-made', 'template-made', 'hung', 'expired']);
  unsubscribe();
  events.emit(CREATED);
  t.equal(heard.length, 5);
  t.end();
});

t.test('a failed write is reported, and without a journal nothing is written', async (t) => {
  const lost: unknown[] = [];
  const { journal } = makeJournal(() => Promise.reject(new Error('no room')));
  new LifecycleEvents(journal, (error) => lost.push(error)).emit(CREATED);
  new LifecycleEvents(journal).emit(CREATED);
  await new Promise(setImmediate);
  t.match(lost, [{ message: 'no room' }]);
  const heard: string[] = [];
  const events = new LifecycleEvents();
  events.subscribe(({ kind }) => heard.push(kind));
  events.emit(CREATED);
  const received = events.prepare(CREATED);
  received.persist();
  received.publish();
  events.published();
  t.same(heard, ['created', 'created']);
});

t.test('each event is one line of the log, with its times beside its other fields', (t) => {
  const lines: Record<string, unknown>[] = [];
  const listen = logLifecycleEvents(pino({}, { write: (line: string) => lines.push(JSON.parse(line)) }));
  listen(CREATED);
  listen({ kind: 'died', sandbox: 'sbx', exit: EXIT, diagnosis: 'console' });
  listen({ kind: 'idle-kept', sandbox: 'sbx', reason: 'why' });
  listen({ kind: 'snapshot-imported', sandbox: 'sbx', snapshot: 'snap' });
  t.match(lines, [
    { level: 30, msg: 'sandbox created', sandbox: 'sbx', diskMs: 2, totalMs: 7 },
    { level: 40, msg: 'the VM of a sandbox exited unexpectedly', exit: EXIT, diagnosis: 'console' },
    { level: 40, msg: 'an idle sandbox could not be saved and keeps running', reason: 'why' },
    { level: 30, msg: 'snapshot imported', snapshot: 'snap' },
  ]);
  for (const line of lines) t.notOk('times' in line || 'kind' in line);
  t.end();
});
