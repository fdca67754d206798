// Pause and resume of a sandbox: what stays, what goes, and where a failure or a crash leaves it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import type { FaultPoint } from '../../../../host-agent/src/lib/faults.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { pausedDir } from '../../../../host-agent/src/sandboxes/saved/paused.ts';
import type { CreateSandboxOptions } from '../../../../host-agent/src/sandboxes/types.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

const MINUTE = 60_000;

/** A sandbox with a text in its memory, and one on its disk. */
async function start(t: Test, create: CreateSandboxOptions = {}, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, options);
  const { manager, host } = daemon;
  host.agentFaults = { freezes: true };
  const { id } = await manager.create(create);
  const sandbox = manager.get(id);
  await execText(manager, id, ['note', 'memory', 'kept']);
  writeFileSync(sandbox.paths.layerPath, 'disk');
  const handle = () => manager.as(OPERATOR).get(id);
  const pause = (hasMemory = true) => handle().pause(hasMemory);
  const recall = async () => {
    await handle().awake();
    return await execText(manager, id, ['recall', 'memory']);
  };
  const readState = () => [handle().info.state, host.running.length] as const;
  return { ...daemon, id, sandbox, handle, pause, recall, readState };
}

t.test('a paused sandbox has no VM, and goes on with its memory, disk, identity and addresses', async (t) => {
  const { host, handle, pause, readState, sandbox, recall, id, happened, network } = await start(t, {
    network: { allowlist: [] },
    publish: [{ hostPort: 8080, guestPort: 80 }],
  });
  const { spec } = host.of(id);
  const before = handle().info;
  const calls = network.calls.length;
  await pause();
  t.same(readState(), ['paused', 0]);
  t.match(handle().info, { ...before, state: 'paused', pausedAt: Date });
  t.same(handle().stats().residentBytes, 0, 'its stats are shown, and do not resume it');
  t.equal(readState()[0], 'paused');
  await pause();
  await Promise.all([handle().resume(), handle().resume()]);
  await handle().resume();
  t.same(readState(), ['running', 1]);
  t.equal(host.counts.restores, 1);
  t.same(handle().info, { ...before, state: 'running', lastUsedAt: handle().info.lastUsedAt });
  t.same(host.of(id).spec, spec, 'the same disks and network');
  t.same(
    network.calls.slice(calls),
    ['ports hold tap1', 'ports open tap1'],
    'its network and its ports stay',
  );
  t.same([host.of(id).agent.wakes, host.of(id).agent.identities.length], [1, 0], 'it keeps its identity');
  t.equal(readFileSync(sandbox.paths.layerPath, 'utf8'), 'disk');
  t.equal(await recall(), 'kept');
  t.match(
    happened.filter(({ kind }) => kind === 'paused' || kind === 'resumed'),
    [
      { kind: 'paused', reason: 'request', hasMemory: true, pausedMs: 1, bytes: Number },
      { kind: 'resumed', reason: 'request', asleepMs: Number },
    ],
  );
});

t.test('a call that needs the guest resumes it once for all, and the others do not', async (t) => {
  const { host, handle, pause, recall, manager, id, happened } = await start(t);
  await pause();
  manager.list();
  t.throws(() => manager.get(id).assertAlive(), { code: 'paused', message: /is paused; resume it first/ });
  const all = await Promise.all(Array.from({ length: 200 }, () => handle().awake()));
  t.equal(all.length, 200);
  t.equal(host.counts.restores, 1);
  t.equal(await recall(), 'kept');
  t.match(happened.at(-1), { kind: 'resumed', reason: 'use' });
  await pause();
  const { source_id = id } = { source_id: (await handle().snapshot()).sourceId };
  t.equal(source_id, id, 'a snapshot needs the guest, too');
});

t.test('one that does not resume by use refuses, and one that takes too long is left to go on', async (t) => {
  const { handle, pause, readState } = await start(t, { autoResume: false });
  await pause();
  const sandbox = await handle().awake();
  t.throws(() => sandbox.files(), { code: 'paused' });
  await t.rejects(handle().snapshot(), { code: 'paused' });
  await handle().resume();
  t.equal(readState()[0], 'running');

  const slow = await start(t, {}, { sleep: { resumeTimeoutMs: 50 } });
  await slow.pause();
  const { promise, resolve } = Promise.withResolvers<void>();
  slow.host.onRestore = () => promise;
  await t.rejects(slow.handle().awake(), { code: 'exhausted', message: /has not resumed within 0.05 s/ });
  resolve();
  await until(() => slow.readState()[0] === 'running');
});

t.test('without memory it boots again from its disk, with its service', async (t) => {
  const service = { cmd: ['/x'], env: {}, stop_signal: 'SIGTERM', stop_grace_s: 1, log_buffer_bytes: 4096 };
  const { host, handle, pause, readState, recall, id, sandbox } = await start(t, {
    service: { ...service, restart: { policy: 'never', max_retries: 0 } } as never,
  });
  const { machineId, hostname } = host.of(id).agent.identities.at(-1) ?? {};
  const { boots } = host.counts;
  await pause(false);
  t.same(readState(), ['paused', 0]);
  t.notOk(existsSync(pausedDir(sandbox.paths.dir)));
  await handle().resume();
  t.equal(host.counts.boots, boots + 1);
  t.match(host.of(id).agent.identities, [{ machineId, hostname }]);
  t.equal(host.of(id).agent.services.length, 1);
  t.equal(await recall(), 'nothing');
  t.equal(readFileSync(sandbox.paths.layerPath, 'utf8'), 'disk');
});

t.test('a pause that fails leaves it running, a resume that fails leaves it paused', async (t) => {
  let failing: FaultPoint | undefined;
  const faults = {
    reach: (point: FaultPoint) => {
      if (point === failing) throw new Error(`failed at ${point}`);
    },
  };
  const { handle, pause, readState, recall, host } = await start(t, {}, { faults });
  const before: FaultPoint[] = ['pause.memory', 'pause.paused', 'pause.written', 'pause.flushed'];
  for (const point of before) {
    failing = point;
    await t.rejects(pause(), { code: 'internal', message: new RegExp(`failed at ${point}`) });
    t.same(readState(), ['running', 1], point);
    failing = undefined;
    t.equal(await recall(), 'kept');
  }
  const after: FaultPoint[] = ['pause.recorded', 'pause.killed', 'pause.settled'];
  for (const point of after) {
    failing = point;
    await pause().catch(() => undefined);
    t.equal(readState()[0], 'paused', point);
    failing = undefined;
    t.equal(await recall(), 'kept', point);
    t.same(readState(), ['running', 1]);
  }
  await pause();
  for (const point of ['start.spawned', 'start.spawn-recorded', 'resume.recorded'] as const) {
    failing = point;
    await t.rejects(handle().resume(), { message: /which stays paused: failed at/ });
    t.same(readState(), ['paused', 0], point);
  }
  failing = undefined;
  host.onRestore = () => {
    throw new AppError('exhausted', 'no memory', { retryAfterS: 1 });
  };
  await t.rejects(handle().awake(), { code: 'exhausted', message: /stays paused: no memory/ });
  host.onRestore = () => undefined;
  t.equal(await recall(), 'kept');
});

t.test('the next daemon finds it paused, also after a crash at any point', async (t) => {
  const first = await start(t);
  await first.pause();
  await first.crash();
  const second = await startMemoryDaemon(t, { home: first.home });
  const info = () => second.manager.list()[0];
  t.match(info(), { id: first.id, state: 'paused' });
  t.equal(first.host.running.length, 0);
  await second.manager.as(OPERATOR).get(first.id).resume();
  t.equal(await execText(second.manager, first.id, ['recall', 'memory']), 'kept');
  await second.crash();
  const third = await startMemoryDaemon(t, { home: first.home });
  t.match(third.manager.list(), [{ id: first.id, state: 'running' }], 'a resumed one is adopted');
  t.equal(await execText(third.manager, first.id, ['recall', 'memory']), 'kept');
});

t.test('a delete ends it in each state, and leaves nothing', async (t) => {
  const { manager, host, id, pause, home, handle } = await start(t);
  await pause();
  await manager.delete(id);
  await until(() => !existsSync(join(home.dataDir, 'sandboxes', id)));
  t.same(manager.list(), []);

  const { id: second } = await manager.create({});
  let deleted: Promise<void> | undefined;
  host.onPaused = () => {
    deleted = manager.delete(second);
  };
  await t.rejects(manager.as(OPERATOR).get(second).pause(true), { code: 'not_found' });
  await deleted;
  await until(() => !existsSync(join(home.dataDir, 'sandboxes', second)));
  host.onPaused = () => undefined;

  const { id: third } = await manager.create({});
  await manager.as(OPERATOR).get(third).pause(true);
  host.onRestore = () => {
    deleted = manager.delete(third);
  };
  await t.rejects(manager.as(OPERATOR).get(third).resume(), { code: 'not_found' });
  await deleted;
  await until(() => !existsSync(join(home.dataDir, 'sandboxes', third)));
  t.same(host.running.length, 0);
  t.throws(handle, { code: 'not_found' });
});

t.test('a VM that ends while it is saved makes it fail', async (t) => {
  const { host, id, pause, readState } = await start(t);
  host.onPaused = () => {
    host.of(id).end('the VMM was killed by SIGKILL');
    throw new Error('the connection broke');
  };
  await t.rejects(pause(), { code: 'internal', message: /is dead: the VMM was killed by SIGKILL/ });
  t.same(readState(), ['failed', 0]);
});

t.test('a command is told why its stream ends', async (t) => {
  const { sandbox, pause } = await start(t);
  const exited = new Promise((resolve) => {
    sandbox.exec({ cmd: ['wait'], env: {}, timeout_s: 0 }, { output: () => undefined, exit: resolve });
  });
  await pause();
  t.match(await exited, { exitCode: -1, error: /was paused/ });
});

t.test('timeouts pause it, and count again from its resume', async (t) => {
  const { handle, manager, id } = await start(t, { timeoutS: 60, timeoutAction: 'pause' });
  const clock = new FakeClock(t);
  const { expiresAt } = handle().info;
  await manager.as(OPERATOR).get(id).pause(true);
  t.equal(handle().info.expiresAt, undefined, 'it has no end while it is paused');
  await clock.pass(5 * MINUTE);
  t.equal(handle().info.state, 'paused');
  await handle().resume();
  t.ok(Number(handle().info.expiresAt) > Number(expiresAt));
  await clock.pass(MINUTE + 1);
  await until(() => handle().info.state === 'paused');
});

t.test('an idle sandbox is paused, and a lifetime that deletes does so while it is paused', async (t) => {
  const counters = { cpuMs: 0, networkBytes: 0 };
  const daemon = await startMemoryDaemon(t, { readCounters: () => ({ ...counters }) });
  const clock = new FakeClock(t);
  const { id } = await daemon.manager.create({ idle: { timeoutS: 60, action: 'pause' }, timeoutS: 600 });
  const handle = () => daemon.manager.as(OPERATOR).get(id);
  await clock.pass(2 * MINUTE);
  await until(() => handle().info.state === 'paused');
  await handle().awake();
  t.equal(handle().info.state, 'running');
  await clock.pass(2 * MINUTE);
  await until(() => handle().info.state === 'paused');
  await clock.pass(10 * MINUTE);
  await until(() => daemon.happened.some(({ kind }) => kind === 'deleted'));
});

t.test('paused sandboxes count in their own limits', async (t) => {
  const limits = { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 1, fork: 64 };
  const { pause, handle, manager, readState } = await start(t, {}, { limits });
  await pause();
  const { id } = await manager.create({});
  await t.rejects(handle().resume(), { code: 'exhausted', message: /this daemon takes 1 sandboxes/ });
  t.equal(readState()[0], 'paused');
  await manager.delete(id);
  await handle().resume();

  const small = await start(t, {}, { sleep: { maxStoredBytes: 2 ** 20 } });
  await t.rejects(small.pause(), { code: 'exhausted', message: /paused sandboxes may take 1048576 bytes/ });
  t.equal(small.readState()[0], 'running');
  await small.pause(false);
});

t.test('a delete during the end of a pause keeps its mark in the registry', async (t) => {
  const puts: [string, Partial<SandboxRecord>][] = [];
  const { manager, host } = await startMemoryDaemon(t, {
    changeRecords: (records) => {
      const put = records.put.bind(records);
      return Object.assign(records, {
        put: (...call: Parameters<typeof put>) => {
          puts.push([call[0], call[1]]);
          return put(...call);
        },
      });
    },
  });
  host.agentFaults = { freezes: true };
  for (let turns = 0; turns < 12; turns++) {
    const { id } = await manager.create({});
    const sandbox = manager.get(id);
    const pause = manager.as(OPERATOR).get(id).pause(true);
    for (let n = 0; n < 5000 && sandbox.state !== 'paused'; n++)
      await new Promise((resolve) => setImmediate(resolve));
    for (let n = 0; n < turns; n++) await new Promise((resolve) => setImmediate(resolve));
    await Promise.allSettled([pause, manager.delete(id)]);
    const own = puts.flatMap(([each, record]) => (each === id ? [record] : []));
    const marked = own.findIndex((record) => record.isDeleting === true);
    t.same(
      own.slice(marked + 1).filter((record) => record.isReady === true),
      [],
      `${turns} turns later`,
    );
  }
});

t.test('a guest that does not answer after a resume: the log has what its VMM shows', async (t) => {
  const { host, handle, pause, readState, lines } = await start(t, {}, { bootTimeoutMs: 300 });
  await pause();
  host.agentFaults = { freezes: true, ignores: 'wake' };
  await t.rejects(handle().resume(), { code: 'guest_unreachable', message: /does not answer/ });
  t.same(readState(), ['running', 1], 'it runs, and is tried again');
  const line = lines.find(({ msg }) => msg === 'the guest of a resumed sandbox does not answer');
  t.match(line, { level: 40, diagnosis: 'console: (empty)' });
});
