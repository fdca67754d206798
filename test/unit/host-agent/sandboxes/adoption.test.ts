// What the next daemon makes of what the last one left.
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

t.test('sandboxes go on, with their clocks set', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const created = await first.manager.create({ timeoutS: 3600 });
  await execText(first.manager, created.id, ['note', 'x', 'kept']);
  await first.crash();
  home.host.of(created.id).isPaused = true;
  const { agent } = home.host.of(created.id);
  const before = agent.clocks.length;
  const next = await startMemoryDaemon(t, { home });
  t.same(next.manager.list(), [created]);
  t.equal(await execText(next.manager, created.id, ['recall', 'x']), 'kept');
  await until(() => agent.clocks.length > before, 'its clock to be set');
  t.ok(agent.clocks.at(-1)! > created.createdAt.getTime() * 1000);
  t.notOk(home.host.of(created.id).isPaused);
});

t.test('one that ended meanwhile is listed with its cause until it is deleted', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  await first.crash();
  home.host.of(id).end('killed');
  const next = await startMemoryDaemon(t, { home });
  t.equal(next.manager.get(id).info.id, id);
  t.throws(() => next.manager.get(id).assertAlive(), { message: /ended while nobody looked/ });
  await next.manager.delete(id);
  t.same(next.manager.list(), []);
  await next.manager.stop('keep');
  t.same(
    readdirSync(join(home.dataDir, 'sandboxes')),
    [],
    'the stop has waited for what was behind the answer',
  );
});

t.test('one whose end this daemon saw says the same of it in the next', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  home.host.of(id).end('the guest panicked');
  const records = first.store.table<SandboxRecord>('sandboxes');
  await until(() => records.get(id)?.exit !== undefined, 'its end in the registry');
  await first.crash();
  const next = await startMemoryDaemon(t, { home });
  t.throws(() => next.manager.get(id).assertAlive(), { message: /is dead: the guest panicked;/ });
  t.same(
    next.happened.map(({ kind }) => kind),
    ['adopted'],
    'and it is told once only',
  );
});

t.test('what was half made is removed, also from a run directory of another daemon', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const kept = await first.manager.create({});
  const { id } = await first.manager.create({});
  const record = first.store.table<Record<string, unknown>>('sandboxes').get(id)!;
  await first.store.table('sandboxes').put(id, { ...record, isReady: false });
  await first.crash();
  const socketDir = join(home.runDir, id);
  t.ok(existsSync(socketDir));
  const elsewhere = `${home.runDir}-2`;
  mkdirSync(elsewhere);
  const next = await startMemoryDaemon(t, { home: { ...home, runDir: elsewhere } });
  t.same(
    next.manager.list().map((sandbox) => sandbox.id),
    [kept.id],
  );
  t.notOk(existsSync(socketDir), 'its sockets were where the record says');
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), [kept.id]);
  t.same(
    next.store
      .table('sandboxes')
      .all()
      .map(({ id }) => id),
    [kept.id],
  );
  t.same(
    home.host.running.map(({ identity }) => identity.paths.socketDir.endsWith(kept.id)),
    [true],
  );
});
