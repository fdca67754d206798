// Creates, from the request to a sandbox or a complete rollback.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { ServiceSpec } from '@sandboxd/api';
import t from 'tap';
import { execText } from '../../../support/memory-host/client.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

t.test('the first create boots once, and all others are copies', async (t) => {
  const { host, manager, happened } = await startMemoryDaemon(t);
  const first = await manager.create({});
  await until(() => happened.some(({ kind }) => kind === 'template-made'));
  const second = await manager.create({});
  t.equal(host.counts.boots, 1);
  t.equal(host.counts.restores, 1, 'the first has the guest that was booted');
  t.equal(host.running.length, 2);
  t.not(first.id, second.id);
  t.same(manager.list(), [first, second]);
  await manager.delete(first.id);
  t.same(
    happened
      .filter(({ kind }) => kind !== 'template-made')
      .map((event) => [event.kind, 'sandbox' in event && event.sandbox]),
    [
      ['created', first.id],
      ['created', second.id],
      ['deleted', first.id],
    ],
  );
});

t.test('a reserved disk is allocated completely, for a copy as for its source', async (t) => {
  const diskBytes = 64 * 2 ** 20;
  const sizes = async (reservesDisks: boolean): Promise<number[]> => {
    const { manager, home } = await startMemoryDaemon(t, { reservesDisks });
    const { id } = await manager.create({ diskBytes });
    const [copy] = await manager.fork((await manager.get(id).snapshot()).id, 1);
    const layer = (id = '') => join(home.dataDir, 'sandboxes', id, 'layer.ext4');
    return [id, copy?.id].map((id) => statSync(layer(id)).blocks * 512);
  };
  for (const bytes of await sizes(true)) t.ok(bytes >= diskBytes, `${bytes} bytes`);
  for (const bytes of await sizes(false)) t.ok(bytes < diskBytes, `${bytes} bytes`);
});

t.test('a reserved disk is allocated for a cold boot, but not in a template', async (t) => {
  const diskBytes = 64 * 2 ** 20;
  for (const templateBudgetBytes of [0, 2 ** 30]) {
    const { manager, home } = await startMemoryDaemon(t, { reservesDisks: true, templateBudgetBytes });
    const { id } = await manager.create({ diskBytes });
    const bytesOf = (path: string) => statSync(path).blocks * 512;
    const bytes = bytesOf(join(home.dataDir, 'sandboxes', id, 'layer.ext4'));
    t.ok(bytes >= diskBytes, `${bytes} bytes`);
    if (templateBudgetBytes === 0) continue;
    const root = join(home.dataDir, 'templates');
    const made = () => readdirSync(root).filter((name) => !name.startsWith('.'));
    await until(() => made().length === 1);
    const disk = bytesOf(join(root, made()[0] ?? '', 'disk'));
    t.ok(disk < diskBytes, `${disk} bytes`);
  }
});

t.test('a cancelled create leaves nothing', async (t) => {
  const { host, manager, home } = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  const gone = new AbortController();
  host.onBoot = () => gone.abort(new Error('the client left'));
  await t.rejects(manager.create({}, gone.signal), { message: 'the client left' });
  t.same(manager.list(), []);
  t.equal(host.running.length, 0);
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), []);
  t.notOk(existsSync(join(home.runDir, 'x')));
});

t.test('a failed start leaves no record, and closes its connection for good', async (t) => {
  const { host, manager, store } = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  host.agentFaults = { refuses: 'identity' };
  await t.rejects(manager.create({}), { code: 'internal', message: /identity was refused/ });
  t.equal(host.running.length, 0);
  t.same(store.table('sandboxes').all(), []);
  const { channels } = host.counts;
  // The delay before a reconnect is one second.
  await new Promise((resolve) => setTimeout(resolve, 1300));
  t.equal(host.counts.channels, channels, 'an aborted guest is not reconnected');
});

t.test('a VM that exits during its start names the cause, whatever else was pending', async (t) => {
  const { host, manager } = await startMemoryDaemon(t, { templateBudgetBytes: 0, bootTimeoutMs: 600_000 });
  host.agentFaults = { deafFrom: 1 };
  const creating = manager.create({});
  creating.catch(() => undefined);
  await until(() => host.running.length > 0, 'the VM');
  host.running[0]?.end('the guest panicked');
  await t.rejects(creating, { code: 'internal', message: /the guest panicked/ });
  t.same(manager.list(), []);
});

t.test('a create that cannot be recorded leaves nothing', async (t) => {
  const home = await makeHome(t);
  const { manager, host } = await startMemoryDaemon(t, {
    home,
    templateBudgetBytes: 0,
    changeRecords: (records) =>
      Object.assign(records, { putAll: () => Promise.reject(new Error('the registry is full')) }),
  });
  await t.rejects(manager.create({}), { message: /the registry is full/ });
  t.equal(host.running.length, 0);
  t.same(manager.list(), []);
  t.same(readdirSync(join(home.dataDir, 'logs')), [], 'not even a log, as it was never visible');
});

t.test('commands and services get their profile’s environment without the home of root', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  const service: ServiceSpec = {
    ...{ cmd: ['serve'], env: { A: '1' }, env_exact: false, user: 'app' },
    ...{ stop_signal: 'SIGTERM', stop_grace_s: 10, log_buffer_bytes: 65_536 },
    restart: { policy: 'never', max_retries: 0 },
  };
  const { id } = await manager.create({ service });
  await execText(manager, id, ['true']);
  await manager.get(id).service().configure(service);
  const { agent } = host.of(id);
  t.same(agent.execs.at(-1)?.exec.env, ['PATH=/bin']);
  t.same(
    agent.services.map(({ baseEnv, env }) => [baseEnv, env]),
    [
      [['PATH=/bin'], ['A=1']],
      [['PATH=/bin'], ['A=1']],
    ],
  );
});
