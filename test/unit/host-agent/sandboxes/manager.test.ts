// The manager: capacity, disks of VMs, stopping the daemon.
import { appendFileSync, existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

const MIB = 2 ** 20;
/** Capacity for one guest of 128 MiB with its VMM, and not for two. */
const ONE_GUEST = {
  admission: { memoryReserveBytes: 0, memoryOvercommit: 1 },
  readCapacity: async () => ({
    memoryTotalBytes: 400 * MIB,
    memoryAvailableBytes: 2 ** 40,
    diskFreeBytes: 2 ** 40,
  }),
};

t.test('memory is reserved for running sandboxes, and not for dead ones', async (t) => {
  const { host, manager } = await startMemoryDaemon(t, { ...ONE_GUEST, templateBudgetBytes: 0 });
  await t.rejects(manager.create({ memoryMib: 512 }), { code: 'exhausted', message: /memory/ });
  t.equal(host.counts.boots, 0, 'that was known before anything was started');
  const { id } = await manager.create({});
  await t.rejects(manager.create({}), { code: 'exhausted' });
  host.of(id).end('the guest panicked');
  const next = await manager.create({});
  t.equal(manager.list().length, 2, 'one that ended is listed until it is deleted');
  await manager.delete(next.id);
});

t.test('memory that copies of a template share is reserved before it is allocated', async (t) => {
  const { host, manager } = await startMemoryDaemon(t, ONE_GUEST);
  // It is booted, and the next ones are copies.
  await manager.delete((await manager.create({})).id);
  await until(() => host.running.length === 0);
  host.neededBytes = 300 * MIB;
  await t.rejects(manager.create({}), {
    code: 'exhausted',
    message: /400 MiB on this host, 524 MiB would be/,
  });
  t.equal(host.counts.restores, 0);
  host.neededBytes = 100 * MIB;
  const { id } = await manager.create({});
  host.neededBytes = 0;
  await manager.delete(id);
  await manager.create({});
  t.equal(host.counts.restores, 2, 'nothing is held any more');
});

t.test('a VM has its profile’s image read-only and its own layer writable', async (t) => {
  const { host, home, manager } = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  const { id } = await manager.create({ vcpus: 2, memoryMib: 256, bootArgs: 'a=b' });
  const dir = join(home.dataDir, 'sandboxes', id);
  const { spec, resizes } = host.of(id);
  t.match(spec, {
    vcpus: 2,
    memoryMib: 256,
    kernelPath: '/vmlinux',
    initramfsPath: '/initramfs',
    bootArgs: 'a=b',
  });
  const image = join(home.dataDir, 'base.ext4');
  t.same(
    spec?.disks.map(({ path, isReadOnly }) => [path.startsWith(dir) ? 'layer' : path, isReadOnly]),
    [
      [image, true],
      ['layer', false],
    ],
  );
  t.same(resizes, [], 'one that was booted has its layer’s size from the beginning');
  t.ok(
    readdirSync(dir, { recursive: true }).some(
      (name) => statSync(join(dir, `${name}`)).ino === statSync(image).ino,
    ),
    'the image is pinned while the sandbox exists',
  );
});

t.test('a copy with a larger disk than its template gets its disk and file system grown', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  const plain = await manager.create({ diskBytes: 64 * MIB });
  t.same(host.of(plain.id).resizes, []);
  t.equal(host.of(plain.id).agent.grownDisks, 0);
  const large = await manager.create({ diskBytes: 128 * MIB });
  t.same(host.of(large.id).resizes, [[1, 128 * MIB]]);
  t.equal(host.of(large.id).agent.grownDisks, 1);
  t.equal(host.counts.boots, 1, 'they are copies of the same template');
});

t.test('a failing service configuration or disk growth leaves no sandbox', async (t) => {
  for (const [refuses, options] of [
    ['serviceConfigure', { service: { cmd: ['x'] } }],
    ['growDisk', { diskBytes: 128 * MIB }],
  ] as const) {
    const { host, home, manager, store } = await startMemoryDaemon(t);
    host.agentFaults = { refuses };
    const stage = refuses === 'growDisk' ? /stage grow disk/ : /stage service/;
    await t.rejects(manager.create(options as Parameters<typeof manager.create>[0]), { message: stage });
    t.equal(host.running.length, 0);
    t.same(store.table('sandboxes').all(), []);
    t.same(readdirSync(join(home.dataDir, 'sandboxes')), []);
    t.same(readdirSync(home.runDir), []);
  }
});

t.test(
  'a template whose files changed is not used: the create boots, and the next one makes it again',
  async (t) => {
    const { host, home, manager, crash } = await startMemoryDaemon(t);
    await manager.create({});
    await crash();
    const templates = join(home.dataDir, 'templates');
    const [key = ''] = readdirSync(templates);
    const next = await startMemoryDaemon(t, { home });
    appendFileSync(join(templates, key, 'memory'), 'more');
    const { id } = await next.manager.create({});
    t.equal(next.manager.list().at(-1)?.id, id);
    t.equal(host.counts.boots, 2);
    await until(() => !existsSync(join(templates, key)), 'the bad template to be removed');
    await next.manager.create({});
    t.equal(host.counts.boots, 3);
    await until(() => existsSync(join(templates, key)));
  },
);

t.test('a stopping daemon waits for a snapshot in progress', async (t) => {
  const home = await makeHome(t);
  const { host, manager, crash } = await startMemoryDaemon(t, { home });
  const { id } = await manager.create({});
  const { promise: isPaused, resolve: pause } = Promise.withResolvers<void>();
  const { promise: release, resolve: goOn } = Promise.withResolvers<void>();
  host.onPaused = () => {
    pause();
    return release;
  };
  const taken = manager.snapshot(manager.get(id)).then(
    () => 'taken',
    ({ code }) => code,
  );
  await isPaused;
  let hasStopped = false;
  const stopped = crash().then(() => {
    hasStopped = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.notOk(hasStopped, 'its files are still written');
  goOn();
  t.equal(await taken, 'cancelled');
  await stopped;
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
  t.equal(host.running.length, 1);
});

t.test('a daemon that destroys its sandboxes at exit reports a failure', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  await manager.create({});
  host.onKill = () => {
    throw new Error('the VMM does not end');
  };
  await t.rejects(manager.stop('destroy'), { message: /does not end/ });
  host.onKill = () => undefined;
  await t.rejects(manager.create({}), { code: 'cancelled', message: /stopping/ });
});

t.test('a cancelled fork leaves nothing of any copy', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const snapshot = await manager.snapshot(manager.get(id));
  const gone = new AbortController();
  let restores = 0;
  host.onRestore = () => {
    if (++restores === 2) gone.abort(new Error('the client left'));
  };
  await t.rejects(manager.fork(snapshot.id, 3, gone.signal), { message: 'the client left' });
  t.same(
    manager.list().map((sandbox) => sandbox.id),
    [id],
  );
  t.equal(host.running.length, 1);
});

t.test('snapshots are listed in order, and a deleted one is gone with its files', async (t) => {
  const { home, manager, happened } = await startMemoryDaemon(t);
  const { id } = await manager.create({});
  const first = await manager.snapshot(manager.get(id));
  await new Promise((resolve) => setTimeout(resolve, 2));
  const second = await manager.snapshot(manager.get(id));
  t.same(
    manager.listSnapshots().map((snapshot) => snapshot.id),
    [first.id, second.id],
  );
  t.match(manager.getSnapshot(first.id), { sourceId: id, memoryMib: 128, vcpus: 1 });
  await manager.deleteSnapshot(first.id);
  t.throws(() => manager.getSnapshot(first.id), { code: 'not_found' });
  t.same(readdirSync(join(home.dataDir, 'snapshots')), [second.id]);
  t.match(happened.at(-1), { kind: 'snapshot-deleted', snapshot: first.id });
  await t.rejects(manager.deleteSnapshot(first.id), { code: 'not_found' });
});
