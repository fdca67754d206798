// A sandbox that goes back to a snapshot: what stays, what goes, and where a failure or a crash leaves it.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../../host-agent/src/keys/index.ts';
import type { FaultPoint } from '../../../../../host-agent/src/lib/faults.ts';
import type { SandboxRecord } from '../../../../../host-agent/src/sandboxes/record.ts';
import { prepareExchange } from '../../../../../host-agent/src/sandboxes/saved/exchange.ts';
import type { CreateSandboxOptions } from '../../../../../host-agent/src/sandboxes/types.ts';
import { execText } from '../../../../support/memory-host/client.ts';
import {
  type MemoryDaemon,
  type MemoryDaemonOptions,
  startMemoryDaemon,
} from '../../../../support/memory-host/daemon.ts';
import { until } from '../../../../support/until.ts';

/** A sandbox that was saved with `old` in its memory and on its disk, and now has `new` there. */
async function start(t: Test, create: CreateSandboxOptions = {}, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, options);
  const { manager, host } = daemon;
  host.agentFaults = { freezes: true };
  const { id } = await manager.create(create);
  const { layerPath, dir } = manager.get(id).paths;
  const handle = () => manager.as(OPERATOR).get(id);
  const write = async (text: string) => {
    await execText(manager, id, ['note', 'memory', text]);
    writeFileSync(layerPath, text);
  };
  await write('old');
  const { id: snapshot } = await handle().snapshot();
  await write('new');
  const read = async () => {
    await handle().awake();
    return [await execText(manager, id, ['recall', 'memory']), readFileSync(layerPath, 'utf8')] as const;
  };
  const readState = () => [handle().info.state, host.running.length] as const;
  const leftovers = () => existsSync(join(dir, 'rollback'));
  const rollback = () => handle().rollback(snapshot);
  return { ...daemon, id, dir, handle, write, snapshot, read, readState, rollback, leftovers };
}

const OLD = ['old', 'old'];
const NEW = ['new', 'new'];

/** Points before the new guest is the sandbox's. */
const UNDONE: readonly FaultPoint[] = [
  'rollback.prepared',
  'rollback.recorded',
  'rollback.exchanged',
  'start.spawned',
  'start.vm',
  'start.agent',
  'rollback.identified',
];
const PAUSES: readonly FaultPoint[] = ['pause.memory', 'pause.written', 'pause.flushed'];

t.test('memory and disk of the snapshot; id, name, labels, addresses and ports of the sandbox', async (t) => {
  const { host, handle, rollback, readState, read, id, happened, network, leftovers, manager, snapshot } =
    await start(t, {
      name: 'web',
      labels: { a: 'b' },
      env: { A: 'b' },
      network: { allowlist: [] },
      publish: [{ hostPort: 8080, guestPort: 80 }],
    });
  const before = handle().info;
  const { spec } = host.of(id);
  const calls = network.calls.length;
  const cut = new Promise<string>((resolve) => {
    const events = {
      output: () => undefined,
      failed: () => undefined,
      exit: (exit: object) => resolve(JSON.stringify(exit)),
    };
    manager.get(id).exec({ cmd: ['wait'] } as never, events as never);
  });
  await rollback();
  t.match(await cut, /was rolled back/);
  t.same(readState(), ['running', 1]);
  t.match(handle().info, { ...before, lastUsedAt: Date });
  t.same(host.of(id).spec, spec);
  const ports = ['ports hold tap1', 'end connections tap1', 'ports open tap1'];
  t.same(network.calls.slice(calls), ports, 'its network and its ports stay; connections wait');
  t.match(host.of(id).agent.identities, [{ hostname: id.replace('_', '-') }], 'entropy, clock and name');
  t.same(await read(), OLD);
  t.notOk(leftovers());
  t.match(
    happened.filter(({ kind }) => ['paused', 'resumed', 'rolled-back'].includes(kind)),
    [
      { kind: 'paused', reason: 'rollback' },
      { kind: 'rolled-back', snapshot },
    ],
  );
  t.equal(happened.filter(({ kind }) => kind === 'rolled-back').length, 1);
  t.equal(manager.get(id).record.parentSnapshotId, snapshot);
  await handle().pause(true);
  t.same(await read(), OLD, 'it pauses and resumes as any other');
  await rollback();
  t.same(await read(), OLD, 'and goes back any number of times');
  await manager.delete(id);
  t.equal(host.running.length, 0);
});

t.test('from each state', async (t) => {
  const { handle, rollback, readState, read, write, host, id } = await start(t);
  await handle().pause(true);
  await rollback();
  t.same(readState(), ['running', 1]);
  t.same(await read(), OLD);
  await write('new');
  await handle().pause(false);
  await rollback();
  t.same(await read(), OLD, 'one whose disk alone was kept');
  await write('new');
  host.of(id).end('killed');
  await until(() => readState()[0] === 'failed');
  await rollback();
  t.same(readState(), ['running', 1], 'one that has failed');
  t.same(await read(), OLD);
  t.equal(handle().info.reason, undefined);
});

t.test('a failure at each step leaves it as it was', async (t) => {
  let failing: FaultPoint | undefined;
  const faults = {
    reach: (point: FaultPoint) => {
      if (point !== failing) return;
      failing = undefined;
      throw new Error(`failed at ${point}`);
    },
  };
  const { handle, rollback, readState, read, leftovers, happened, host, id, write } = await start(
    t,
    {},
    { faults },
  );
  for (const point of [...PAUSES, ...UNDONE]) {
    failing = point;
    await t.rejects(rollback(), {
      code: 'internal',
      message: new RegExp(`it is running, .*failed at ${point}`),
    });
    failing = undefined;
    t.same(readState(), ['running', 1], point);
    t.same(await read(), NEW, point);
    t.notOk(leftovers(), point);
  }
  t.match(
    happened.findLast(({ kind }) => kind === 'resumed'),
    { reason: 'rollback' },
  );
  for (const hasMemory of [true, false]) {
    for (const point of UNDONE) {
      await write('new');
      await handle().pause(hasMemory);
      failing = point;
      await t.rejects(rollback(), { message: /it is paused, with its own memory and disk/ });
      failing = undefined;
      t.same(readState(), ['paused', 0], point);
      t.same(await read(), [hasMemory ? 'new' : 'nothing', 'new'], point);
    }
  }
  failing = 'rollback.committed';
  await rollback();
  failing = undefined;
  t.same(await read(), OLD, 'from then on only its old files are left');
  await rollback();
  t.notOk(leftovers(), 'until the next one');
  host.of(id).end('killed');
  await until(() => readState()[0] === 'failed');
  failing = 'rollback.identified';
  await t.rejects(rollback(), { message: /it is failed/ });
  t.same(readState(), ['failed', 0]);
  t.match(handle().info.reason, { message: 'killed' });
  failing = undefined;
  await rollback();
  t.same(await read(), OLD);
});

t.test('a guest that does not answer, a damaged snapshot, and one of another sandbox', async (t) => {
  const { host, handle, rollback, readState, read, manager, snapshot } = await start(
    t,
    {},
    { bootTimeoutMs: 500 },
  );
  host.agentFaults = { freezes: true, ignores: 'identity' };
  await t.rejects(rollback(), { message: /it is paused|it is running/ });
  host.agentFaults = { freezes: true };
  t.same(await read(), NEW);
  const other = await manager.create({});
  const { id: foreign } = await manager.as(OPERATOR).get(other.id).snapshot();
  await t.rejects(handle().rollback(foreign), { code: 'conflict', message: /does not come from it/ });
  await t.rejects(async () => handle().rollback('snap_0000000000000'), { code: 'not_found' });
  writeFileSync(join(manager.getSnapshot(snapshot).dir, 'memory'), 'damaged!');
  await t.rejects(rollback(), { code: 'internal', message: /damaged/ });
  t.same(readState(), ['running', 2], 'it was not even paused');
  t.same(await read(), NEW);
});

t.test('a fork goes back to what it was forked from, and to what that comes from', async (t) => {
  const { manager, snapshot } = await start(t);
  const [child] = await manager.fork(snapshot, 1);
  const childId = child?.id ?? '';
  await execText(manager, childId, ['note', 'memory', 'child']);
  const own = await manager.as(OPERATOR).get(childId).snapshot();
  const [grandchild] = await manager.fork(own.id, 1);
  await manager.as(OPERATOR).get(childId).rollback(snapshot);
  t.equal(await execText(manager, childId, ['recall', 'memory']), 'old');
  await manager
    .as(OPERATOR)
    .get(grandchild?.id ?? '')
    .rollback(own.id);
  t.equal(await execText(manager, grandchild?.id ?? '', ['recall', 'memory']), 'child');
});

t.test(
  'a daemon that finds an exchange goes back to what it was before, wherever it was interrupted',
  async (t) => {
    const steps = [
      ['paused', 'rollback/old/paused'],
      ['layer.ext4', 'rollback/old/layer'],
      ['rollback/layer', 'layer.ext4'],
    ] as const;
    for (let done = 0; done <= steps.length; done++) {
      const first = await start(t);
      const { dir, id, handle, manager, snapshot } = first;
      await handle().pause(true);
      const { paths, record } = manager.get(id);
      await prepareExchange(paths, manager.getSnapshot(snapshot).rootfsPath);
      for (const [from, to] of steps.slice(0, done)) renameSync(join(dir, from), join(dir, to));
      await first.store.table<SandboxRecord>('sandboxes').put(id, { ...record, isRollingBack: true });
      await first.crash();
      const second = await startMemoryDaemon(t, { home: first.home });
      const found = second.manager.as(OPERATOR).get(id);
      t.equal(found.info.state, 'paused');
      t.notOk(existsSync(join(dir, 'rollback')));
      await found.awake();
      t.equal(await execText(second.manager, id, ['recall', 'memory']), 'new');
      t.equal(readFileSync(paths.layerPath, 'utf8'), 'new');
    }
  },
);

t.test('calls meanwhile wait for it, and a delete ends it', async (t) => {
  const { host, handle, rollback, read, manager, id, readState } = await start(t, { autoResume: false });
  const { promise, resolve } = Promise.withResolvers<void>();
  host.onRestore = () => promise;
  const running = rollback();
  await until(() => handle().info.state === 'resuming');
  const reads = [read(), read(), handle().pause(true)];
  resolve();
  await running;
  t.same((await Promise.all(reads)).slice(0, 2), [OLD, OLD]);
  await handle().resume();
  const { promise: never, resolve: end } = Promise.withResolvers<void>();
  host.onRestore = () => never;
  const cut = t.rejects(rollback(), { code: 'not_found', message: /was deleted/ });
  await until(() => handle().info.state === 'resuming');
  await manager.delete(id);
  end();
  await cut;
  await until(() => host.running.length === 0);
  t.throws(readState, { code: 'not_found' });
});

t.test('two at once are made one after the other; limits of memory and quota hold', async (t) => {
  const { handle, rollback, read, manager, snapshot } = await start(
    t,
    {},
    { quotaOf: () => ({ max_sandboxes: 1 }) },
  );
  await Promise.all([rollback(), rollback(), handle().resume()]);
  t.same(await read(), OLD);
  t.equal(manager.getSnapshot(snapshot).id, snapshot);
});

t.test('a guest that ends before the commit leaves the sandbox as it was', async (t) => {
  let isArmed = false;
  const daemon: MemoryDaemon = await startMemoryDaemon(t, {
    faults: {
      reach: (point) => {
        if (!isArmed || point !== 'rollback.identified') return;
        isArmed = false;
        daemon.host.running.at(-1)?.end('killed');
      },
    },
  });
  daemon.host.agentFaults = { freezes: true };
  const { id } = await daemon.manager.create({});
  const handle = () => daemon.manager.as(OPERATOR).get(id);
  const snapshot = await handle().snapshot();
  isArmed = true;
  await t.rejects(handle().rollback(snapshot.id));
  await handle().awake();
  t.equal(handle().info.state, 'running');
});

t.test('a use during a pause waits for the rollback that was asked for first', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  host.agentFaults = { freezes: true };
  const { id } = await manager.create({});
  const handle = () => manager.as(OPERATOR).get(id);
  const snapshot = await handle().snapshot();
  const pause = handle().pause(true);
  await until(() => handle().info.state === 'pausing');
  const rollback = handle().rollback(snapshot.id);
  await new Promise((resolve) => setImmediate(resolve));
  const use = handle().awake();
  await Promise.all([pause, rollback, use]);
  t.equal(handle().info.state, 'running');
});

t.test('one rollback waits, and no more', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  host.agentFaults = { freezes: true };
  const { id } = await manager.create({});
  const handle = () => manager.as(OPERATOR).get(id);
  const snapshot = await handle().snapshot();
  const all = await Promise.allSettled(Array.from({ length: 50 }, () => handle().rollback(snapshot.id)));
  const refused = all.filter((each) => each.status === 'rejected');
  t.equal(refused.length, 48);
  t.match(refused[0], { reason: { code: 'exhausted', message: /is going back already/ } });
  await handle().rollback(snapshot.id);
});

t.test('without auto_resume connections wait for a rollback, too', async (t) => {
  const { manager, host, network } = await startMemoryDaemon(t);
  host.agentFaults = { freezes: true };
  const publish = [{ hostPort: 8080, guestPort: 80 }];
  const { id } = await manager.create({ autoResume: false, network: { allowlist: [] }, publish });
  const handle = () => manager.as(OPERATOR).get(id);
  const snapshot = await handle().snapshot();
  const before = network.calls.length;
  await handle().rollback(snapshot.id);
  t.same(network.calls.slice(before), ['ports hold tap1', 'end connections tap1', 'ports open tap1']);
});
