// Forks of a sandbox as it is, and what each fork of a request has of its own.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Operation } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { OPERATOR, type Principal } from '../../../../host-agent/src/keys/index.ts';
import { type FaultPoint, NO_FAULTS } from '../../../../host-agent/src/lib/faults.ts';
import type { ForkOptions } from '../../../../host-agent/src/sandboxes/types.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';

async function start(t: Test, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, options);
  const { manager, host, home } = daemon;
  host.agentFaults = { freezes: true };
  const { id } = await manager.create({ labels: { a: 'b' }, env: { A: 'b' }, network: { allowlist: [] } });
  await execText(manager, id, ['note', 'memory', 'kept']);
  const handle = () => manager.as(OPERATOR).get(id);
  const fork = (count: number, own?: ForkOptions) => handle().fork(count, undefined, own);
  const recall = (fork: { readonly id: string } | undefined) =>
    execText(manager, fork?.id ?? '', ['recall', 'memory']);
  const savedFiles = () => readdirSync(join(home.dataDir, 'snapshots'));
  return { ...daemon, id, handle, fork, recall, savedFiles };
}

t.test('a running sandbox goes on; a paused one stays paused; nothing that was saved stays', async (t) => {
  const { fork, recall, handle, id, happened, savedFiles, manager, host } = await start(t);
  const forks = await fork(2);
  t.equal(forks.length, 2);
  t.match(forks, [{ sourceSandboxId: id, labels: { a: 'b' }, envNames: ['A'] }, { sourceSandboxId: id }]);
  t.equal(await recall(forks[0]), 'kept');
  t.match(
    happened.findLast(({ kind }) => kind === 'forked'),
    { sourceSandbox: id },
  );
  t.same([savedFiles(), manager.listSnapshots()], [[], []]);
  t.equal(handle().info.state, 'running');
  await handle().pause(true);
  writeFileSync(manager.get(id).paths.layerPath, 'disk');
  await t.rejects(fork(1), { message: /layer.ext4 was changed since/ });
  const { restores } = host.counts;
  t.same(savedFiles(), []);
  await manager.delete(id);
  t.equal(await recall(forks[1]), 'kept', 'forks outlive it');
  t.equal(host.counts.restores, restores);
});

t.test('a paused sandbox is forked without a resume; one without memory is resumed', async (t) => {
  const { fork, recall, handle, savedFiles, host } = await start(t);
  await handle().pause(true);
  const running = host.running.length;
  const [copy] = await fork(1);
  t.equal(handle().info.state, 'paused');
  t.equal(host.running.length, running + 1);
  t.equal(await recall(copy), 'kept');
  t.same(savedFiles(), []);
  await handle().pause(false);
  await handle().resume();
  await handle().pause(false);
  const [booted] = await fork(1);
  t.equal(handle().info.state, 'running');
  t.equal(await recall(booted), 'nothing');
});

t.test('each fork has its own name, labels, environment and ports', async (t) => {
  const { handle, fork, manager, network } = await start(t);
  const children = [
    { name: 'left', publish: [{ hostPort: 8001, guestPort: 80 }] },
    { name: 'right', labels: { a: null, side: 'r' }, env: { A: 'c', B: 'd' } },
  ];
  const [left, right] = await fork(2, { labels: { all: 'x' }, children });
  t.match(left, { name: 'left', labels: { a: 'b', all: 'x' }, published: [{ hostPort: 8001 }] });
  t.match(right, {
    name: 'right',
    labels: { all: 'x', side: 'r' },
    envNames: ['A', 'B'],
    published: undefined,
  });
  t.notOk('a' in (right?.labels ?? {}));
  t.ok(network.calls.length > 0);
  const before = manager.list().length;
  const again = [{ name: 'new' }, { name: 'left' }];
  await t.rejects(fork(2, { children: again }), { code: 'conflict', message: /the name left/ });
  await t.rejects(fork(2, { children: [{ name: 'same' }, { name: 'same' }] }), { code: 'conflict' });
  t.equal(manager.list().length, before, 'all or none');
  const { id: snapshot } = await handle().snapshot();
  const [one] = await manager
    .as(OPERATOR)
    .fork(snapshot, 2, undefined, { children: again.with(1, { name: 'b' }) });
  t.equal(one?.sourceSnapshotId, snapshot, 'forks of snapshots, too');
});

t.test('a failure leaves nothing; a killed daemon leaves files that the next one removes', async (t) => {
  let failing: FaultPoint | undefined;
  const reach = (point: FaultPoint) => {
    if (point === failing) throw new Error(`failed at ${point}`);
  };
  const { fork, handle, savedFiles, manager, home, crash, id } = await start(t, { faults: { reach } });
  for (const point of ['fork.saved', 'start.vm', 'start.committed'] as const) {
    failing = point;
    await t.rejects(fork(2), { message: new RegExp(point) });
    t.same([savedFiles(), manager.list().length, handle().info.state], [[], 1, 'running'], point);
  }
  failing = undefined;
  mkdirSync(join(home.dataDir, 'snapshots', '.snap_0000000000000'));
  await crash();
  const next = await startMemoryDaemon(t, { home, faults: NO_FAULTS });
  t.same(savedFiles(), []);
  t.equal(next.manager.get(id).state, 'running');
});

t.test('it needs the operations of a snapshot and of a fork', async (t) => {
  const { manager, id } = await start(t);
  const as = (...operations: Operation[]): Principal => ({
    kind: 'key',
    id: 'k',
    key: 'k',
    policy: { operations },
  });
  const fork = (principal: Principal) => manager.as(principal).get(id).fork(1);
  await t.rejects(fork(as('fork')), { code: 'forbidden' });
  t.equal((await fork(as('fork', 'snapshot'))).length, 1);
});
