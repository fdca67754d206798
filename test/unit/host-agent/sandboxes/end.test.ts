// Deletes: calls in progress get the reason, and by then no client sees the sandbox.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { ExecOutcome } from '../../../../host-agent/src/guest/exec.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import type { OperatorManager } from '../../../support/memory-host/operator-manager.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Several daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

const MIB = 2 ** 20;

/** A command that runs for ever; resolves with its last frame, and whether its sandbox was visible then. */
function waitIn(manager: OperatorManager, id: string): Promise<{ outcome: ExecOutcome; isSeen: boolean }> {
  return new Promise((resolve) => {
    manager.get(id).exec(
      { cmd: ['wait'], env: {}, timeout_s: 0 },
      {
        output: () => undefined,
        exit: (outcome) =>
          resolve({ outcome, isSeen: manager.list().some((info) => info.id === id) || canGet(manager, id) }),
      },
    );
  });
}

function canGet(manager: OperatorManager, id: string): boolean {
  try {
    return manager.get(id).info.id === id;
  } catch {
    return false;
  }
}

t.test('a command in a sandbox that is deleted', async (t) => {
  const { manager, logs } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const ended = waitIn(manager, id);
  await manager.delete(id);
  const { outcome, isSeen } = await ended;
  t.match(outcome, { exitCode: -1, error: new RegExp(`: sandbox ${id} was deleted$`) });
  t.notOk(isSeen, 'the sandbox is invisible when its last frame arrives');
  const page = await logs.read(id, { since: 0 });
  t.same(
    page?.records.map(({ text }) => text),
    ['exec: wait', 'exit -1'],
  );
});

t.test('a command in a sandbox whose timeout_s passes', async (t) => {
  const { manager, happened } = await startMemoryDaemon(t);
  const { id } = await manager.create({ timeoutS: 1 });
  const { outcome, isSeen } = await waitIn(manager, id);
  t.match(outcome, { exitCode: -1, error: /was deleted: its timeout_s has passed$/ });
  t.notOk(isSeen);
  await until(() => happened.some(({ kind }) => kind === 'deleted'), 'its delete');
  t.same(
    happened.slice(-2).map(({ kind }) => kind),
    ['expired', 'deleted'],
  );
});

const doesNotEnd = (): never => {
  throw new Error('the VMM does not end');
};

t.test(
  'a delete responds when the sandbox is unreachable; slow clean-up continues in the background',
  async (t) => {
    const { manager, host, home, store, happened } = await startMemoryDaemon(t);
    const { id } = await manager.create({});
    const gate = Promise.withResolvers<void>();
    host.onKill = () => gate.promise;
    await Promise.all([manager.delete(id), manager.delete(id)]);
    t.same(manager.list(), []);
    t.throws(() => manager.get(id), { code: 'not_found' });
    await t.rejects(manager.delete(id), { code: 'not_found' });
    t.equal(happened.filter(({ kind }) => kind === 'deleted').length, 1);
    const records = store.table<Record<string, unknown>>('sandboxes');
    t.match(records.get(id), { isReady: false, isDeleting: true }, 'a crash now loses nothing');
    t.equal(host.running.length, 1);
    const dir = join(home.dataDir, 'sandboxes', id);
    t.ok(existsSync(dir));
    gate.resolve();
    await until(() => records.get(id) === undefined);
    t.equal(host.running.length, 0);
    t.notOk(existsSync(dir));
  },
);

t.test('clean-up that a daemon crashed in is finished by the next one', async (t) => {
  const home = await makeHome(t);
  const { host } = home;
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  await execText(first.manager, id, ['note', 'x', 'y']);
  host.onKill = doesNotEnd;
  await first.manager.delete(id);
  await until(() => first.lines.some(({ msg }) => msg?.startsWith('cannot remove all of a deleted')));
  await first.crash();
  host.onKill = () => undefined;
  const next = await startMemoryDaemon(t, { home });
  t.same(next.manager.list(), []);
  t.equal(host.running.length, 0);
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), []);
  t.same(readdirSync(home.runDir), []);
  t.same(next.store.table('sandboxes').all(), []);
  t.equal((await next.logs.read(id, { since: 0 }))?.records.length, 2, 'its log is kept');
});

t.test(
  'a delete that cannot be recorded is complete at its response, and can be retried after a failure',
  async (t) => {
    let isFull = false;
    const { manager, host, home } = await startMemoryDaemon(t, {
      changeRecords: (records) => {
        const put = records.put.bind(records);
        return Object.assign(records, {
          put: (id: string, record: SandboxRecord) =>
            isFull ? Promise.reject(new Error('the registry is full')) : put(id, record),
        });
      },
    });
    const { id } = await manager.create({});
    isFull = true;
    host.onKill = doesNotEnd;
    await t.rejects(manager.delete(id), { message: /does not end/ });
    t.equal(manager.list().length, 1);
    t.throws(() => manager.get(id).assertAlive(), { code: 'not_found' });
    host.onKill = () => undefined;
    await manager.delete(id);
    t.same(manager.list(), []);
    t.equal(host.running.length, 0);
    t.notOk(existsSync(join(home.dataDir, 'sandboxes', id)));
  },
);

t.test('the memory of a deleted sandbox is available once its VMM is gone', async (t) => {
  const { manager, host } = await startMemoryDaemon(t, {
    templateBudgetBytes: 0,
    limits: { vcpus: 4, memoryMib: 4096, diskBytes: 1024 * MIB, sandboxes: 1, fork: 64 },
    admission: { memoryReserveBytes: 0, memoryOvercommit: 1 },
    readCapacity: async () => ({
      // For one guest of 128 MiB with its VMM.
      memoryTotalBytes: 300 * MIB,
      memoryAvailableBytes: 4096 * MIB,
      diskFreeBytes: 4096 * MIB,
    }),
  });
  const { id } = await manager.create({});
  const gate = Promise.withResolvers<void>();
  host.onKill = () => gate.promise;
  await manager.delete(id);
  const creating = manager.create({});
  await Promise.race([creating, new Promise((resolve) => setTimeout(resolve, 100))]);
  t.equal(host.counts.boots, 1, 'it waits');
  gate.resolve();
  const next = await creating;
  t.equal(host.counts.boots, 2);
  t.same(
    manager.list().map((info) => info.id),
    [next.id],
  );
});

t.test('a dead sandbox is not reconnected', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const ended = waitIn(manager, id);
  host.of(id).end('the guest panicked');
  t.match((await ended).outcome, { exitCode: -1, error: /the guest panicked$/ });
  const { channels } = host.counts;
  // The delay before a reconnect is one second.
  await new Promise((resolve) => setTimeout(resolve, 1300));
  t.equal(host.counts.channels, channels);
});

t.test('a stop waits until creates in progress are undone', async (t) => {
  const { manager, host, home } = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  host.onBoot = () => promise;
  const refused = t.rejects(manager.create({}), { message: 'the daemon is stopping' });
  await until(() => host.counts.boots === 1, 'the boot');
  let isStopped = false;
  const stopping = manager.stop('keep').then(() => {
    isStopped = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(isStopped, false);
  goOn();
  await stopping;
  await refused;
  t.same(readdirSync(join(home.dataDir, 'sandboxes')), []);
  t.equal(host.running.length, 0);
});

t.test('an exit is published once, with the last record that can be written', async (t) => {
  for (const [failing, retained] of [
    [['put'], ['created', 'deleted']],
    [['put', 'remove with'], ['created']],
  ] as const) {
    let isFull = false;
    const full = () => Promise.reject(new Error('the registry is full'));
    const { manager, store, journal, happened, host } = await startMemoryDaemon(t, {
      templateBudgetBytes: 0,
      changeRecords: (records) => {
        const [put, remove] = [records.put.bind(records), records.remove.bind(records)];
        return Object.assign(records, {
          put: (...all: Parameters<typeof put>) => (isFull ? full() : put(...all)),
          remove: (id: string, also?: () => void) =>
            isFull && also !== undefined && failing.length > 1 ? full() : remove(id, also),
        });
      },
    });
    const { id } = await manager.create({});
    isFull = true;
    await manager.delete(id);
    t.equal(store.table('sandboxes').get(id), undefined, 'what is left is removed all the same');
    t.equal(host.running.length, 0);
    journal.refresh();
    t.same(
      journal.read(0).map(({ event }) => event.kind),
      retained,
    );
    t.same(
      happened.map(({ kind }) => kind),
      ['created', 'deleted'],
    );
  }
});

t.test('an exit before the creation event is published after it', async (t) => {
  const home = await makeHome(t);
  const { manager, store, journal } = await startMemoryDaemon(t, {
    home,
    templateBudgetBytes: 0,
    changeRecords: (records) => {
      const putAll = records.putAll.bind(records);
      return Object.assign(records, {
        putAll: async (...all: Parameters<typeof putAll>) => {
          home.host.running[0]?.end('the guest panicked');
          await new Promise(setImmediate);
          await putAll(...all);
        },
      });
    },
  });
  const { id } = await manager.create({});
  const records = store.table<SandboxRecord>('sandboxes');
  await until(() => records.get(id)?.exit !== undefined, 'its end in the registry');
  t.match(records.get(id), { isReady: true, exit: { reason: 'the guest panicked' } });
  journal.refresh();
  t.same(
    journal.read(0).map(({ event }) => event.kind),
    ['created', 'died'],
  );
});

t.test('a sandbox whose record is gone is deleted like any other', async (t) => {
  const { manager, host, store } = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  const { id } = await manager.create({});
  await store.table('sandboxes').remove(id);
  const gate = Promise.withResolvers<void>();
  host.onKill = () => gate.promise;
  await manager.delete(id);
  t.equal(host.running.length, 1, 'it answers before what takes time');
  gate.resolve();
  await until(() => host.running.length === 0);
});

t.test('a sandbox that was never visible is marked as such during its removal', async (t) => {
  const marks: unknown[] = [];
  const faults = {
    reach: (point: string) => {
      if (point === 'delete.marked') marks.push(...records().map(({ record }) => record.isDeleting));
    },
  };
  const { manager, store } = await startMemoryDaemon(t, {
    faults,
    templateBudgetBytes: 0,
    changeRecords: (records) => {
      const putAll = records.putAll.bind(records);
      let failures = 1;
      return Object.assign(records, {
        putAll: (...all: Parameters<typeof putAll>) =>
          failures-- > 0 ? Promise.reject(new Error('the registry is full')) : putAll(...all),
      });
    },
  });
  const records = () => store.table<SandboxRecord>('sandboxes').all();
  await t.rejects(manager.create({}));
  t.same(marks, [false], 'the next daemon would remove its log, too');
});
