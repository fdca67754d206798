// Adoption: what the next daemon does with sandboxes of the last one.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { type Home, makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Several daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

t.test('sandboxes keep running after a restart, with their clocks set', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const created = await first.manager.create({ timeoutS: 3600 });
  await execText(first.manager, created.id, ['note', 'x', 'kept']);
  const listed = first.manager.list();
  await first.crash();
  home.host.of(created.id).isPaused = true;
  const { agent } = home.host.of(created.id);
  const before = agent.clocks.length;
  const next = await startMemoryDaemon(t, { home });
  t.same(next.manager.list(), listed);
  t.equal(await execText(next.manager, created.id, ['recall', 'x']), 'kept');
  await until(() => agent.clocks.length > before, 'its clock to be set');
  t.ok(agent.clocks.at(-1)! > created.createdAt.getTime() * 1000);
  t.notOk(home.host.of(created.id).isPaused);
});

t.test('a sandbox that died between two daemons is listed with its cause until it is deleted', async (t) => {
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
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), [], 'the stop has waited for the background clean-up');
});

t.test('an exit that one daemon saw has the same reason in the next', async (t) => {
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
    'and it is published only once',
  );
});

t.test('half-created sandboxes are removed, also from another run directory', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const retained = await first.manager.create({});
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
    [retained.id],
  );
  t.notOk(existsSync(socketDir), 'its sockets were where the record says');
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), [retained.id]);
  t.same(
    next.store
      .table('sandboxes')
      .all()
      .map(({ id }) => id),
    [retained.id],
  );
  t.same(
    home.host.running.map(({ identity }) => identity.paths.socketDir.endsWith(retained.id)),
    [true],
  );
});

/** A crashed daemon, whose registry `change` modified before. */
async function crashed(
  t: Test,
  home: Home,
  change: (record: SandboxRecord, id: string) => SandboxRecord = (record) => record,
) {
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const caller = { kind: 'key', id: 'i', key: 'k', tenant: 'red' } as const;
  const { id } = await first.manager.create({}, undefined, { principal: caller });
  const records = first.store.table<SandboxRecord>('sandboxes');
  await records.put(id, change(records.get(id)!, id));
  await first.crash();
  return id;
}

const kindsOf = ({ happened }: Awaited<ReturnType<typeof startMemoryDaemon>>) =>
  happened.map((event) => [event.kind, 'sandbox' in event && event.sandbox]);

const ofEarlierBoot = (record: SandboxRecord): SandboxRecord =>
  record.vmm === null ? record : { ...record, vmm: { ...record.vmm, bootId: 'an earlier one' } };

t.test('after a reboot of the host its sandboxes have failed, until a delete', async (t) => {
  const home = await makeHome(t);
  const id = await crashed(t, home, ofEarlierBoot);
  home.host.of(id).end('the host stopped');
  rmSync(join(home.runDir, id), { recursive: true });
  for (const isFirst of [true, false]) {
    const next = await startMemoryDaemon(t, { home });
    const reason = { code: 'host_rebooted', message: 'the host was rebooted' };
    t.match(next.manager.list(), [{ id, state: 'failed', reason }]);
    t.throws(() => next.manager.get(id).assertAlive(), { message: /is dead: the host was rebooted/ });
    t.same(kindsOf(next), [...(isFirst ? [['died', id]] : []), ['adopted', id]]);
    next.journal.refresh();
    const died = next.journal.read(0).filter(({ event }) => event.kind === 'died');
    t.same(
      died.map(({ event }) => [event.owner?.tenant, event.reason]),
      [['red', 'the host was rebooted']],
    );
    await next.crash();
  }
  const last = await startMemoryDaemon(t, { home });
  await last.manager.delete(id);
  t.same(last.manager.list(), []);
  await last.crash();
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), []);
});

t.test(
  'a day after the reboot was found they are forgotten, also by a daemon that starts then',
  async (t) => {
    const home = await makeHome(t);
    const id = await crashed(t, home, ofEarlierBoot);
    home.host.of(id).end('the host stopped');
    const next = await startMemoryDaemon(t, { home });
    const [info] = next.manager.list();
    const leftMs = Number(info?.expiresAt) - Date.now();
    t.ok(leftMs > 86_000_000 && leftMs <= 86_400_000, `${leftMs} ms`);
    const records = next.store.table<SandboxRecord>('sandboxes');
    const { exit, ...record } = records.get(id)!;
    await next.manager.stop('keep');
    await records.put(id, { ...record, exit: { ...exit!, rebootFoundAtMs: Date.now() - 86_400_000 } });
    await next.crash();
    const last = await startMemoryDaemon(t, { home });
    await until(() => kindsOf(last).length === 2, 'the end');
    t.same(last.manager.list(), []);
    t.same(kindsOf(last), [
      ['adopted', id],
      ['deleted', id],
    ]);
  },
);

t.test('the addresses of a sandbox of an earlier boot are not taken from another', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const { id } = await first.manager.create({ network: { allowlist: ['a.example'] } });
  const records = first.store.table<SandboxRecord>('sandboxes');
  await records.put(id, ofEarlierBoot(records.get(id)!));
  await first.crash();
  home.host.of(id).end('the host stopped');
  const next = await startMemoryDaemon(t, { home });
  t.same(next.network.calls, ['adopt tap1', 'clear tap1', 'free tap1', 'tidy'], 'before there is another');
  next.network.calls.length = 0;
  await next.manager.delete(id);
  t.same(
    next.network.calls.filter((call) => !String(call).startsWith('tidy')),
    [],
  );
});

t.test('a VMM that ended while no daemon ran, without its run directory, has failed', async (t) => {
  const home = await makeHome(t);
  const id = await crashed(t, home);
  home.host.of(id).end('it was killed');
  rmSync(join(home.runDir, id), { recursive: true });
  const next = await startMemoryDaemon(t, { home });
  t.match(next.manager.list(), [{ id, state: 'failed', reason: { code: 'vm_exited' } }]);
  t.same(kindsOf(next), [
    ['died', id],
    ['adopted', id],
  ]);
});

t.test('a sandbox of a removed engine is dead, and its owner gets one event', async (t) => {
  const home = await makeHome(t);
  const id = await crashed(t, home);
  const next = await startMemoryDaemon(t, { home, adopters: [] });
  t.throws(() => next.manager.get(id).assertAlive(), { message: /this daemon has no engine memory/ });
  t.equal(next.manager.get(id).state, 'failed');
  t.same(kindsOf(next), [
    ['died', id],
    ['adopted', id],
  ]);
  const received = next.journal.read(0).map(({ event }) => [event.kind, event.owner?.tenant, event.reason]);
  t.same(received.slice(1, 2), [['died', 'red', 'this daemon has no engine memory']]);
  t.match(
    next.lines.find(({ msg }) => msg === 'sandboxes adopted'),
    { adopted: 0, failed: 1, removed: 0, foreignVmms: 0 },
  );
  t.equal(home.host.running.length, 1, 'a daemon without the engine does not touch its VMs');
  await next.manager.delete(id);
});

t.test('an exit that cannot be recorded is published nevertheless', async (t) => {
  const home = await makeHome(t);
  const id = await crashed(t, home);
  home.host.of(id).end('killed');
  const next = await startMemoryDaemon(t, {
    home,
    changeRecords: (records) =>
      Object.assign(records, { put: () => Promise.reject(new Error('the registry is full')) }),
  });
  t.throws(() => next.manager.get(id).assertAlive(), { message: /ended while nobody looked/ });
  t.equal(kindsOf(next)[0]?.[0], 'died');
  t.ok(next.lines.some(({ msg }) => msg === 'cannot record the exit of a VM'));
  t.equal(next.store.table<SandboxRecord>('sandboxes').get(id)?.exit, undefined);
});

t.test('what cannot be removed does not block the start, and the next start tries again', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const ids: string[] = [];
  for (let count = 0; count < 3; count++) ids.push((await first.manager.create({})).id);
  const [stuck = '', half = '', whole = ''] = ids;
  const made = first.store.table<SandboxRecord>('sandboxes');
  for (const id of [stuck, half]) await made.put(id, { ...made.get(id)!, isReady: false });
  await first.crash();
  const second = await startMemoryDaemon(t, {
    home,
    changeRecords: (records) => {
      const remove = records.remove.bind(records);
      return Object.assign(records, {
        remove: (id: string, also?: () => void) =>
          id === stuck ? Promise.reject(new Error('the registry is full')) : remove(id, also),
      });
    },
  });
  t.same(
    second.manager.list().map(({ id }) => id),
    [whole],
  );
  const failure = 'cannot remove leftovers of a sandbox of an earlier daemon';
  t.same(
    second.lines.filter(({ msg }) => msg === failure).map(({ sandbox }) => sandbox),
    [stuck],
  );
  t.same(kindsOf(second), [['adopted', whole]], 'the others were never visible');
  const records = second.store.table<SandboxRecord>('sandboxes');
  t.same([records.get(half), records.get(stuck)?.isReady], [undefined, false]);
  await second.crash();
  const third = await startMemoryDaemon(t, { home });
  t.equal(third.store.table('sandboxes').get(stuck), undefined);
});

t.test('an exit after adoption is recorded and published', async (t) => {
  const home = await makeHome(t);
  const id = await crashed(t, home);
  const next = await startMemoryDaemon(t, { home });
  home.host.of(id).end('the guest panicked');
  const records = next.store.table<SandboxRecord>('sandboxes');
  await until(() => records.get(id)?.exit !== undefined, 'its end in the registry');
  t.match(records.get(id), { isReady: true, exit: { reason: 'the guest panicked' } });
  await until(() => next.happened.some(({ kind }) => kind === 'died'));
  t.match(next.happened.at(-1), { kind: 'died', sandbox: id, diagnosis: 'console: (empty)' });
  next.journal.refresh();
  t.match(next.journal.read(0).at(-1)?.event, { kind: 'died', reason: 'the guest panicked' });
});

t.test('a stopping daemon logs how many sandboxes keep running', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const stays = (lines: typeof first.lines) =>
    lines.filter(({ msg }) => msg?.startsWith('sandboxes keep running'));
  await first.crash();
  t.same(stays(first.lines), []);
  const second = await startMemoryDaemon(t, { home });
  const { id } = await second.manager.create({ idle: { timeoutS: 60, action: 'delete' }, timeoutS: 60 });
  const { agent } = home.host.of(id);
  await second.crash();
  t.match(stays(second.lines), [{ sandboxes: 1 }]);
  t.equal(agent.connections, 0, 'it is let go of');
  t.ok(existsSync(join(home.runDir, 'idle', id)), 'with its idle time');
});
