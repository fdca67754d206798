// Persisted lifecycle events: each once, atomically with its change, wherever the daemon is killed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';
import type { Engines } from '../../../../host-agent/src/engines/choice.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import type { StoredEvent } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import type { SnapshotRecord } from '../../../../host-agent/src/sandboxes/snapshots.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { type MemoryDaemon, makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { MemoryEngine } from '../../../support/memory-host/engine.ts';
import { oneEngine } from '../../../support/one-engine.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

function received({ journal }: Pick<MemoryDaemon, 'journal'>): StoredEvent[] {
  journal.refresh();
  return journal.read(0).map(({ event }) => event);
}
const kinds = (daemon: Pick<MemoryDaemon, 'journal'>) => received(daemon).map(({ kind }) => kind);
t.setTimeout(scaled(180_000));
const caller = { kind: 'key', key: 'k', id: '1', tenant: 'acme' } as const;

t.test('the events of one sandbox have its owner and no details of the host', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const { manager, host } = daemon;
  const { id } = await manager.create({}, undefined, { principal: caller });
  const snapshot = await manager.get(id).snapshot(undefined, { owner: { key: 'k', tenant: 'acme' } });
  const [fork] = await manager.fork(snapshot.id, 1, undefined, { principal: caller });
  await manager.deleteSnapshot(snapshot.id);
  await manager.get(fork?.id ?? '').awake.vm.kill();
  await until(() => kinds(daemon).includes('died'));
  await manager.delete(id);
  await manager.delete(fork?.id ?? '');
  const events = received(daemon);
  t.same(
    events.map(({ kind, sandbox, snapshot: of }) => [kind, sandbox, of]),
    [
      ['created', id, undefined],
      ['snapshot-taken', id, snapshot.id],
      ['forked', fork?.id, undefined],
      ['snapshot-deleted', undefined, snapshot.id],
      ['died', fork?.id, undefined],
      ['deleted', id, undefined],
      ['deleted', fork?.id, undefined],
    ],
  );
  for (const { owner } of events) t.same(owner, { key: 'k', tenant: 'acme' });
  t.match(events[2], { origin: 'snapshot', sourceSnapshot: snapshot.id });
  t.notMatch(JSON.stringify(events), /diagnosis|memory|\/data|console/);
  t.ok(host);
});

t.test('after a kill at any point the next daemon continues without gap or duplicate', async (t) => {
  const points = [
    'start.recorded',
    'start.made',
    'start.committed',
    'delete.marked',
    'delete.killed',
    'delete.forgotten',
    'snapshot.recorded',
    'snapshot.committed',
    'snapshot-delete.marked',
    'snapshot-delete.files',
  ];
  for (const point of points) {
    const home = await makeHome(t);
    let isDead = false;
    const faults = {
      reach: (name: string) => {
        if (name === point || isDead) {
          isDead = true;
          // From here on this daemon does nothing more.
          throw new AppError('internal', `killed at ${point}`);
        }
      },
    };
    const first = await startMemoryDaemon(t, { home, faults, templateBudgetBytes: 0 });
    const live = async () => {
      const { id } = await first.manager.create({});
      const snapshot = await first.manager.get(id).snapshot();
      await first.manager.deleteSnapshot(snapshot.id);
      await first.manager.delete(id);
    };
    await live().catch(() => undefined);
    await first.crash().catch(() => undefined);
    const second = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
    const events = received(second).filter(({ kind }) => kind !== 'adopted');
    const listed = new Set(second.manager.list().map(({ id }) => id));
    for (const { id } of second.manager.listSnapshots()) listed.add(id);
    // The sandboxes that users know are exactly those with a creation event and no deletion event.
    const alive = new Set<string>();
    for (const { kind, sandbox = '', snapshot = '' } of events) {
      if (kind === 'created') {
        t.notOk(alive.has(sandbox), `${point}: created once`);
        alive.add(sandbox);
      }
      if (kind === 'snapshot-taken') {
        t.notOk(alive.has(snapshot), `${point}: taken once`);
        alive.add(snapshot);
      }
      if (kind === 'deleted') t.ok(alive.delete(sandbox), `${point}: deleted once`);
      if (kind === 'snapshot-deleted') t.ok(alive.delete(snapshot), `${point}: snapshot deleted once`);
    }
    t.same(alive, listed, `${point}: ${events.map(({ kind }) => kind).join(' ')}`);
  }
});

t.test('a sandbox that was never visible leaves no event', async (t) => {
  const daemon = await startMemoryDaemon(t, {
    changeRecords: (records) =>
      Object.assign(records, { putAll: () => Promise.reject(new Error('the registry is full')) }),
    templateBudgetBytes: 0,
  });
  await t.rejects(daemon.manager.create({}));
  t.same(kinds(daemon), []);
});

t.test('a client that disconnects at the last moment gets a creation and a deletion event', async (t) => {
  const left = new AbortController();
  const faults = {
    reach: (name: string) => {
      if (name === 'start.committed') left.abort(new AppError('cancelled', 'left'));
    },
  };
  const daemon = await startMemoryDaemon(t, { faults, templateBudgetBytes: 0 });
  await t.rejects(daemon.manager.create({}, left.signal), { code: 'cancelled' });
  t.same(kinds(daemon), ['created', 'deleted']);
});

t.test('a client that disconnects a moment earlier gets no events', async (t) => {
  const left = new AbortController();
  const home = await makeHome(t);
  const engines: Engines = {
    ...oneEngine(new MemoryEngine(home.host)),
    withReplacement: async (work) => {
      const made = await work();
      left.abort(new AppError('cancelled', 'left'));
      return made;
    },
  };
  const daemon = await startMemoryDaemon(t, { home, engines, templateBudgetBytes: 0 });
  await t.rejects(daemon.manager.create({}, left.signal), { code: 'cancelled' });
  t.same(kinds(daemon), []);
});

t.test('an expired timeout is published before the deletion', async (t) => {
  const daemon = await startMemoryDaemon(t);
  await daemon.manager.create({ timeoutS: 1 });
  await until(() => kinds(daemon).includes('deleted'));
  t.same(kinds(daemon), ['created', 'expired', 'deleted']);
  t.equal(received(daemon)[1]?.timeoutS, 1);
});

t.test('a retried delete is published once', async (t) => {
  const daemon = await startMemoryDaemon(t);
  let failures = 1;
  const { id } = await daemon.manager.create({});
  const { guest } = daemon.manager.get(id).awake;
  const close = guest.close.bind(guest);
  guest.close = (error) => {
    if (failures-- > 0) throw new Error('not now');
    return close(error);
  };
  await daemon.manager.delete(id).catch(() => daemon.manager.delete(id));
  t.same(kinds(daemon), ['created', 'deleted']);
});

t.test('after SIGKILL at any moment the registry and the events agree', async (t) => {
  t.setTimeout(scaled(120_000));
  const home = await makeHome(t);
  const program = resolve(import.meta.dirname, 'killed-life.ts');
  let count = 0;
  for (let round = 0; round < 4; round++) {
    const child = spawn(process.execPath, [program, dirname(home.dataDir)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let steps = 0;
    child.stdout.on('data', (bytes: Buffer) => {
      steps += bytes.length;
    });
    await until(() => steps > 4 + 3 * round, 'some lives');
    await new Promise((done) => setTimeout(done, 7 * round));
    child.kill('SIGKILL');
    await once(child, 'exit');
    const store = await Store.open(join(home.dataDir, 'state.lmdb'));
    const known = new Set([
      ...store
        .table<SandboxRecord>('sandboxes')
        .all()
        .flatMap(({ id, record }) => (record.isReady ? [id] : [])),
      ...store
        .table<SnapshotRecord>('snapshots')
        .all()
        .flatMap(({ id, record }) => (record.isComplete ? [id] : [])),
    ]);
    const received = new Set<string>();
    const events = store.table<{ readonly event: StoredEvent }>('events').all();
    for (const { record } of events) {
      const { kind, sandbox = '', snapshot = '' } = record.event;
      const subject = kind.startsWith('snapshot-') ? snapshot : sandbox;
      if (kind === 'created' || kind === 'snapshot-taken') {
        if (received.has(subject)) t.fail(`${subject} began twice`);
        received.add(subject);
      }
      if ((kind === 'deleted' || kind === 'snapshot-deleted') && !received.delete(subject))
        t.fail(`${subject} ended without a beginning, or twice`);
    }
    t.same([...received].sort(), [...known].sort(), `round ${round}, ${events.length} events`);
    count = events.length;
    await store.close();
  }
  t.ok(count > 10, `${count} events`);
});
