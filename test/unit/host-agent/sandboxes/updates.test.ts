// Changes of a sandbox that exists: all or none, under the limits of the key, over restarts and deletes.
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Policy } from '@sandboxd/api';
import t from 'tap';
import { execText } from '../../../support/memory-host/client.ts';
import { type MemoryDaemon, makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

function as({ manager }: Pick<MemoryDaemon, 'manager'>, policy: Policy = {}, tenant = 'red', key = 'key') {
  return manager.as({ kind: 'key', id: key, key, tenant, policy });
}

/** Names and labels of all stored events of a kind. */
function eventsOf({ store }: Pick<MemoryDaemon, 'store'>, kind: string) {
  const events = store.table<{ readonly event: Record<string, unknown> }>('events').all();
  return events.map(({ record }) => record.event).filter((event) => event.kind === kind);
}

t.test('what is absent stays; null removes; each change is an event, and no change is none', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const red = as(daemon);
  const { id } = await red.create({ name: 'web', labels: { a: '1', b: '2' }, timeoutS: 600 });
  const before = Date.now();
  t.match(await red.update(id, { labels: { a: null, c: '3' } }), { name: 'web', labels: { b: '2', c: '3' } });
  t.same(red.get(id).info.labels, { b: '2', c: '3' });
  t.equal((await red.update(id, { name: null })).name, undefined);
  t.same((await red.update(id, { labels: null })).labels, {});
  const renamed = await red.update(id, {
    name: 'api',
    timeoutS: 60,
    idleTimeoutS: 30,
    idleAction: 'snapshot',
  });
  t.match(renamed, { name: 'api', timeoutS: 60, idle: { timeoutS: 30, action: 'snapshot' } });
  const leftMs = (renamed.expiresAt?.getTime() ?? 0) - before;
  t.ok(leftMs >= 60_000 && leftMs < 90_000, 'from now');
  t.match(await red.update(id, { idleTimeoutS: 40 }), { idle: { timeoutS: 40, action: 'snapshot' } });
  const endless = await red.update(id, { timeoutS: 0, idleTimeoutS: 0, idleAction: 'delete' });
  t.same([endless.expiresAt, endless.timeoutS, endless.idle], [undefined, 0, undefined]);
  const kept = await red.update(id, { timeoutAction: 'pause', autoResume: false });
  t.match(kept, { timeoutAction: 'pause', autoResume: false });
  t.match(await red.update(id, { autoResume: true }), { timeoutAction: 'pause', autoResume: true });
  const count = eventsOf(daemon, 'updated').length;
  await red.update(id, {});
  await red.update(id, { name: 'api', labels: { gone: null }, timeoutS: 0, timeoutAction: 'pause' });
  t.equal(eventsOf(daemon, 'updated').length, count);
  t.match(eventsOf(daemon, 'updated'), [
    { sandbox: id, changed: ['labels'], name: 'web', labels: { b: '2', c: '3' }, owner: { tenant: 'red' } },
    { changed: ['name'] },
    { changed: ['labels'] },
    { changed: ['name', 'timeout_s', 'idle_timeout_s', 'idle_action'], name: 'api' },
    { changed: ['idle_timeout_s'] },
    { changed: ['timeout_s', 'idle_timeout_s', 'idle_action'] },
    { changed: ['timeout_action', 'auto_resume'] },
    { changed: ['auto_resume'] },
  ]);
  t.match(eventsOf(daemon, 'created'), [{ name: 'web', labels: { a: '1', b: '2' } }]);
  await red.delete(id);
  t.match(eventsOf(daemon, 'deleted'), [{ sandbox: id, name: 'api' }]);
});

t.test('a change is refused whole', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const red = as(daemon);
  const { id } = await red.create({ name: 'web', labels: { a: '1' } });
  const other = await red.create({ name: 'taken' });
  const before = red.get(id).info;
  const same = (info: object) => ({ ...info, lastUsedAt: 0 });
  for (const [patch, error] of [
    [
      { labels: { b: '2' }, name: 'taken' },
      { code: 'conflict', message: new RegExp(other.id) },
    ],
    [
      { labels: { b: '2' }, idleAction: 'snapshot' },
      { code: 'invalid_argument', message: /needs idle_timeout_s/ },
    ],
    [
      { name: 'new', labels: Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`k${at}`, ''])) },
      { code: 'invalid_argument', message: /at most 64, those that exist included, got 65/ },
    ],
    [
      {
        labels: Object.fromEntries(
          Array.from({ length: 63 }, (_, at) => [`${'x'.repeat(59)}.${at}`, 'v'.repeat(63)]),
        ),
      },
      { code: 'invalid_argument' },
    ],
  ] as const) {
    if (error.code === 'invalid_argument' && !('message' in error)) {
      await red.update(id, patch);
      await red.update(id, { labels: null });
      await red.update(id, { labels: { a: '1' } });
      continue;
    }
    await t.rejects(red.update(id, patch), error);
    t.same(same(red.get(id).info), same(before));
  }
  await red.update(id, { name: 'web' });
  await red.delete(other.id);
  t.equal((await red.update(id, { name: 'taken' })).name, 'taken', 'free after the delete');
  t.equal((await red.create({ name: 'web' })).name, 'web', 'the old name is free too');
});

t.test('a change that cannot be stored changes nothing, and frees the name', async (t) => {
  let isFull = false;
  const { manager } = await startMemoryDaemon(t, {
    changeRecords: (records) => {
      const put = records.put.bind(records);
      return Object.assign(records, {
        put: (...call: Parameters<typeof put>) => (isFull ? Promise.reject(new Error('full')) : put(...call)),
      });
    },
  });
  const { id } = await manager.create({ name: 'web', timeoutS: 600 });
  const sandbox = manager.get(id);
  isFull = true;
  const request = { principal: { kind: 'operator' } } as const;
  await t.rejects(manager.update(sandbox, { name: 'api', timeoutS: 5 }, request), {
    code: 'internal',
    message: 'cannot change the sandbox: full',
  });
  isFull = false;
  t.match(sandbox.info, { name: 'web', timeoutS: 600 });
  t.match(await manager.create({ name: 'api' }), { name: 'api' });
});

t.test('limits of a key bound the whole lifetime; repeated changes do not prolong it', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const policy = { max_timeout_s: 100, max_idle_timeout_s: 50 };
  const red = as(daemon, policy);
  const { id } = await red.create({ timeoutS: 50, idle: { timeoutS: 50, action: 'delete' } });
  await red.update(id, { timeoutS: 90 });
  for (const [patch, message] of [
    [{ timeoutS: 0 }, /timeout_s from the creation on 0, which means no end, is over max_timeout_s 100/],
    [{ timeoutS: 101 }, /timeout_s from the creation on 10\d is over max_timeout_s 100/],
    [{ idleTimeoutS: 0 }, /idle_timeout_s 0, which means no end, is over max_idle_timeout_s 50/],
    [{ idleTimeoutS: 51 }, /idle_timeout_s 51 is over/],
  ] as const)
    await t.rejects(red.update(id, patch), { code: 'forbidden', message });
  const free = await as(daemon, {}, 'red', 'free').create({});
  t.match(
    await red.update(free.id, { labels: { a: '1' } }),
    { labels: { a: '1' } },
    'only what is changed counts',
  );
  const blind = as(daemon, { operations: ['create'] });
  await t.rejects(blind.update(free.id, { idleTimeoutS: 9, idleAction: 'snapshot' }), {
    code: 'forbidden',
    message: /idle_action snapshot needs snapshot: operation snapshot is not among create/,
  });
  const one = as(daemon, { max_snapshots: 1 }, 'red', 'free');
  const second = await one.create({});
  await one.update(free.id, { idleTimeoutS: 9, idleAction: 'snapshot' });
  await one.update(free.id, { idleTimeoutS: 10 });
  await t.rejects(one.update(second.id, { idleTimeoutS: 9, idleAction: 'snapshot' }), { code: 'forbidden' });
  await t.rejects(as(daemon, {}, 'blue').update(free.id, { name: 'mine' }), { code: 'not_found' });
});

t.test('fifty renames to one name at a time: one has it', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const red = as(daemon);
  const all = await Promise.all(Array.from({ length: 8 }, () => red.create({})));
  const renames = Array.from({ length: 50 }, (_, at) => red.update(all[at % 8]?.id ?? '', { name: 'web' }));
  const settled = await Promise.allSettled(renames);
  t.equal(red.list().filter(({ name }) => name === 'web').length, 1);
  for (const each of settled) if (each.status === 'rejected') t.match(each.reason, { code: 'conflict' });
});

t.test('concurrent changes of one sandbox lose nothing', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const red = as(daemon);
  const { id } = await red.create({});
  await Promise.all(
    Array.from({ length: 50 }, (_, at) =>
      red.update(id, at % 2 === 0 ? { labels: { [`k${at}`]: 'v' } } : { timeoutS: 600 + at }),
    ),
  );
  t.equal(Object.keys(red.get(id).info.labels).length, 25);
  t.same(
    daemon.store.table<{ metadata: object }>('sandboxes').get(id)?.metadata,
    daemon.manager.get(id).record.metadata,
  );
});

t.test('a shorter lifetime ends it, a removed one does not', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const red = as(daemon);
  const [short, long] = [await red.create({}), await red.create({ timeoutS: 1 })];
  await red.update(long.id, { timeoutS: 0 });
  await red.update(short.id, { timeoutS: 1 });
  await until(() => !red.list().some(({ id }) => id === short.id), 'it is deleted');
  await sleep(500);
  t.ok(red.list().some(({ id }) => id === long.id));
});

t.test('an idle timeout that is set later counts, and a command in progress is a use', async (t) => {
  const daemon = await startMemoryDaemon(t, { readCounters: () => ({ cpuMs: 0, networkBytes: 0 }) });
  const red = as(daemon);
  const { id } = await red.create({});
  await red.update(id, { idleTimeoutS: 1 });
  await until(() => red.list().length === 0, 'it is deleted');
});

t.test('the next daemon has what was changed, also after a kill in between', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const red = as(first);
  const { id } = await red.create({ name: 'web', timeoutS: 600 });
  const { expiresAt } = await red.update(id, {
    name: 'api',
    labels: { a: '1' },
    timeoutS: 1200,
    idleTimeoutS: 900,
  });
  const lost = red.update(id, { name: 'lost' }).catch(() => undefined);
  await first.crash();
  await lost;
  const second = await startMemoryDaemon(t, { home });
  const info = as(second).get(id).info;
  t.match(info, { labels: { a: '1' }, timeoutS: 1200, idle: { timeoutS: 900 }, expiresAt });
  t.match(info.name, /^(api|lost)$/, 'one or the other');
  await t.rejects(as(second).create({ name: info.name }), { code: 'conflict' });
  await as(second).create({ name: 'web' });
});

t.test('a change beside a delete never brings a sandbox back', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const red = as(first);
  const made = await Promise.all(Array.from({ length: 5 }, () => red.create({})));
  await Promise.all(
    made.flatMap(({ id }, at) => [
      red.update(id, { name: `a${at}` }).catch(() => undefined),
      red.delete(id),
      red.update(id, { name: `b${at}` }).catch(() => undefined),
    ]),
  );
  for (const { id } of made) await t.rejects(red.update(id, { name: 'c' }), { code: 'not_found' });
  t.same(red.list(), []);
  await first.crash();
  const second = await startMemoryDaemon(t, { home });
  t.same(second.manager.list(), []);
});

t.test('a failed sandbox says why, and can be labelled', async (t) => {
  const home = await makeHome(t);
  const daemon = await startMemoryDaemon(t, { home });
  const { id } = await daemon.manager.create({ name: 'web' });
  daemon.host.of(id).end('the VMM was killed by SIGKILL');
  await until(() => daemon.manager.get(id).info.state === 'failed', 'it has failed');
  const failed = { state: 'failed', reason: { code: 'vm_exited', message: /killed/ }, name: 'web' };
  t.match(daemon.manager.list(), [failed]);
  t.match(await as(daemon).update(id, {}).catch(String), /not exist/);
  await daemon.manager.as({ kind: 'operator' }).update(id, { labels: { checked: 'yes' } });
  await until(() => eventsOf(daemon, 'died').length === 1, 'it is told');
  t.match(eventsOf(daemon, 'died'), [{ name: 'web' }]);
  await daemon.crash();
  const next = await startMemoryDaemon(t, { home });
  t.match(next.manager.list(), [{ ...failed, labels: { checked: 'yes' } }]);
});

t.test('the last use is that of clients, and the next daemon knows it', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id, createdAt, lastUsedAt } = await first.manager.create({});
  t.equal(lastUsedAt.getTime(), createdAt.getTime());
  await sleep(20);
  await execText(first.manager, id, ['true']);
  const used = first.manager.get(id).info.lastUsedAt.getTime();
  t.ok(used > createdAt.getTime());
  await sleep(20);
  first.manager.list();
  t.equal(first.manager.get(id).info.lastUsedAt.getTime(), used, 'a list is no use');
  await first.crash();
  const next = await startMemoryDaemon(t, { home });
  t.equal(next.manager.get(id).info.lastUsedAt.getTime(), used);
  t.same(await readdir(join(home.runDir, 'used')), [id]);
  await next.manager.delete(id);
  t.notOk(existsSync(join(home.runDir, 'used')), 'nothing is left of it');
});
