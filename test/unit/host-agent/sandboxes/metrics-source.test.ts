// All sandboxes together: quotas, capacity, and visibility while they are created and deleted.
import t from 'tap';
import type { RequestedResources } from '../../../../host-agent/src/keys/index.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Several daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

const MIB = 2 ** 20;

t.test('a quota includes creates in progress, and failed ones are released', async (t) => {
  const quotaOf = (tenant: string) => (tenant === 'red' ? { max_sandboxes: 2, max_snapshots: 1 } : undefined);
  const { manager, host } = await startMemoryDaemon(t, { quotaOf, templateBudgetBytes: 0 });
  const requested: RequestedResources[] = [];
  const red = manager.as({ kind: 'key', id: 'i', key: 'k', tenant: 'red' }, (each) => requested.push(each));
  const blue = manager.as({ kind: 'key', id: 'j', key: 'k', tenant: 'blue' });
  const over = { code: 'forbidden', message: /max_/ };
  host.onBoot = () => {
    throw new Error('not now');
  };
  for (let tries = 0; tries < 3; tries++) await t.rejects(red.create({}), { message: /not now/ });
  host.onBoot = () => undefined;
  const results = await Promise.allSettled([1, 2, 3].map(() => red.create({})));
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 2);
  await t.rejects(red.create({}), over);
  const [first, second] = red.list().map(({ id }) => id) as [string, string];
  await blue.create({});
  host.onSave = () => {
    throw new Error('not now');
  };
  await t.rejects(red.get(first).snapshot(), { message: /not now/ });
  host.onSave = () => undefined;
  const { id } = await red.get(first).snapshot();
  await t.rejects(red.get(first).snapshot(), over);
  await t.rejects(red.fork(id, 1), over);
  await red.deleteSnapshot(id);
  const other = await red.get(first).snapshot();
  await red.delete(second);
  await t.rejects(red.fork(other.id, 2), over);
  await red.fork(other.id, 1);
  const plain = { vcpus: 1, memoryMib: 128, diskBytes: 64 * MIB, timeoutS: 0, idleTimeoutS: 0 };
  const wish = {
    ...plain,
    savesItself: false,
    rootfs: { kind: 'profile', name: 'base' },
    startsService: false,
  };
  t.same(requested[0], { ...wish, count: 1, areForks: false });
  t.same(requested.at(-1), { ...wish, count: 1, areForks: true });
  t.same(requested.at(-2)?.count, 2);
  const some = {
    network: { allowlist: ['example.org'] },
    idle: { timeoutS: 9, action: 'snapshot' } as const,
  };
  await t.rejects(red.create({ ...some, timeoutS: 7 }), over);
  t.match(requested.at(-1), { allowlist: ['example.org'], idleTimeoutS: 9, savesItself: true, timeoutS: 7 });
});

t.test('a disk counts as it is written, or completely when reserved', async (t) => {
  for (const [reservesDisks, layerMib] of [
    [false, 16],
    [true, 64],
  ] as const) {
    let diskFreeBytes = 2 ** 40;
    const readCapacity = async () => ({
      memoryTotalBytes: 2 ** 40,
      memoryAvailableBytes: 2 ** 40,
      diskFreeBytes,
    });
    const { manager, host } = await startMemoryDaemon(t, {
      reservesDisks,
      readCapacity,
      templateBudgetBytes: 0,
    });
    const { id } = await manager.create({});
    const snapshot = await manager.get(id).snapshot();
    const full = { code: 'exhausted', message: /no disk space/ };
    diskFreeBytes = (256 + layerMib) * MIB - 1;
    await t.rejects(manager.create({}), full);
    t.equal(host.counts.boots, 1);
    diskFreeBytes += 1;
    await manager.create({});
    if (!reservesDisks) continue;
    diskFreeBytes = (256 + 3 * layerMib) * MIB - 1;
    await t.rejects(manager.fork(snapshot.id, 3), full);
    diskFreeBytes += 1;
    await manager.fork(snapshot.id, 3);
    t.same([...manager.metricsSource.admission.refusals], [['disk', 2]]);
  }
});

t.test('the metrics source has existing sandboxes and those in progress', async (t) => {
  const { manager, host } = await startMemoryDaemon(t, { templateBudgetBytes: 0, maxConcurrentStarts: 1 });
  const { metricsSource: source } = manager;
  const gate = Promise.withResolvers<void>();
  host.onBoot = () => gate.promise;
  const creating = [1, 2].map(() => manager.create({}));
  await until(
    () => source.starting.size === 2 && source.startQueue.pending === 1 && source.startQueue.size === 1,
  );
  gate.resolve();
  const [info] = await Promise.all(creating);
  t.same([source.starting.size, source.sandboxes.size, source.snapshots.owners.length], [0, 2, 0]);
  const end = Promise.withResolvers<void>();
  host.onKill = () => end.promise;
  await manager.delete(info?.id ?? '');
  t.same([source.sandboxes.size, source.sweeps.sandboxes.length], [1, 1]);
  end.resolve();
  await until(() => source.sweeps.sandboxes.length === 0);
});

t.test('a sandbox being deleted is invisible, but its owner can wait for the end', async (t) => {
  const gate = Promise.withResolvers<void>();
  const { manager } = await startMemoryDaemon(t, {
    templateBudgetBytes: 0,
    changeRecords: (records) => {
      const put = records.put.bind(records);
      return Object.assign(records, {
        put: async (id: string, record: SandboxRecord, also?: () => void) => {
          if (record.isDeleting) await gate.promise;
          return put(id, record, also);
        },
      });
    },
  });
  const [red, blue] = ['red', 'blue'].map((tenant) =>
    manager.as({ kind: 'key', id: tenant, key: tenant, tenant }),
  ) as [ReturnType<typeof manager.as>, ReturnType<typeof manager.as>];
  const { id } = await red.create({});
  const first = red.delete(id);
  t.same(red.list(), []);
  t.throws(() => red.get(id), { code: 'not_found' });
  await t.rejects(blue.delete(id), { code: 'not_found' });
  const second = red.delete(id);
  gate.resolve();
  await Promise.all([first, second]);
});

t.test('a failed delete after a timeout is retried until it is not needed', async (t) => {
  const { manager, lines } = await startMemoryDaemon(t);
  const { id } = await manager.create({ timeoutS: 1 });
  const retries: (() => void)[] = [];
  const { setTimeout } = globalThis;
  const timer = { unref: () => timer };
  t.intercept(globalThis, 'setTimeout', {
    value: (callback: () => void, ms: number, ...args: unknown[]) => {
      if (ms !== 10_000 || args.length > 0)
        return Reflect.apply(setTimeout, undefined, [callback, ms, ...args]);
      retries.push(callback);
      return timer;
    },
  });
  const { guest } = manager.get(id).awake;
  const close = guest.close.bind(guest);
  let failures = 2;
  guest.close = (error) => {
    if (failures-- > 0) throw new Error('not now');
    return close(error);
  };
  const failed = () => lines.filter(({ msg }) => msg?.startsWith('cannot delete an expired sandbox')).length;
  await until(() => failed() === 1 && retries.length > 0);
  t.equal(manager.get(id).info.id, id, 'it is seen again until then');
  retries.shift()?.();
  await until(() => failed() === 2 && retries.length > 0);
  retries.shift()?.();
  await until(() => manager.metricsSource.sandboxes.size === 0);
  t.equal(retries.length, 0);
  t.equal(failed(), 2);
});

t.test('a stopping daemon waits for deletes in progress, with a time limit', async (t) => {
  for (const isEndless of [false, true]) {
    const gate = Promise.withResolvers<void>();
    const { manager, host } = await startMemoryDaemon(t, {
      templateBudgetBytes: 0,
      changeRecords: (records) => {
        const put = records.put.bind(records);
        return Object.assign(records, {
          put: async (id: string, record: SandboxRecord, also?: () => void) => {
            if (record.isDeleting) await gate.promise;
            return put(id, record, also);
          },
        });
      },
    });
    const { id } = await manager.create({});
    await manager.create({});
    const limits: (() => void)[] = [];
    const { setTimeout } = globalThis;
    t.intercept(globalThis, 'setTimeout', {
      value: (callback: () => void, ms: number, ...args: unknown[]) =>
        ms === 10_000 ? limits.push(callback) : Reflect.apply(setTimeout, undefined, [callback, ms, ...args]),
    });
    const deleting = manager.delete(id);
    let isStopped = false;
    const stopped = manager.stop('keep').then(() => {
      isStopped = true;
    });
    await until(() => limits.length === 1);
    for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
    t.equal(isStopped, false);
    if (isEndless) limits[0]?.();
    else gate.resolve();
    await stopped;
    t.equal(host.running.length, isEndless ? 2 : 1, 'the other one stays');
    gate.resolve();
    await deleting;
  }
});
