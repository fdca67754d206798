// Connections to published ports of a paused sandbox: one resume for all, or a refusal that says why.
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import type { CreateSandboxOptions } from '../../../../host-agent/src/sandboxes/types.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

const MINUTE = 60_000;
const RESUMES = 'network: a connection to a published port resumes the sandbox';

async function start(t: Test, create: CreateSandboxOptions = {}, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, options);
  const { manager, network, host, logs, happened } = daemon;
  host.agentFaults = { freezes: true };
  const clock = create.idle === undefined ? undefined : new FakeClock(t);
  const { id } = await manager.create({ publish: [{ hostPort: 8080, guestPort: 80 }], ...create });
  const handle = () => manager.as(OPERATOR).get(id);
  const connect = (times = 1) => {
    for (let at = 0; at < times; at++) network.knock.get('/ns/1')?.();
  };
  const modes = () => network.calls.flatMap((call) => /^ports (\w+)/.exec(call)?.[1] ?? []);
  const readLog = async () => (await logs.read(id, { since: 0 }))?.records.map(({ text }) => text) ?? [];
  const count = (wanted: string) => happened.filter(({ kind }) => kind === wanted).length;
  return {
    ...daemon,
    clock,
    id,
    handle,
    connect,
    modes,
    readLog,
    count,
    readState: () => handle().info.state,
  };
}

t.test('200 connections resume it once, and are a use', async (t) => {
  const { handle, connect, modes, readLog, readState, host, happened } = await start(t);
  await handle().pause(true);
  t.same(modes(), ['hold']);
  const { lastUsedAt } = handle().info;
  await new Promise((resolve) => setTimeout(resolve, 5));
  connect(200);
  await until(() => modes().length === 2);
  t.same(modes(), ['hold', 'open']);
  t.equal(readState(), 'running');
  t.equal(host.counts.restores, 1);
  t.match(happened.at(-1), { kind: 'resumed', reason: 'use' });
  t.ok(handle().info.lastUsedAt > lastUsedAt);
  t.equal((await readLog())[0], RESUMES);
  connect();
  await until(() => readState() === 'running');
  t.equal(host.counts.restores, 1, 'one that comes late finds it running');
});

t.test('without auto_resume it refuses until it is resumed', async (t) => {
  const { handle, modes, readState } = await start(t, { autoResume: false });
  await handle().pause(true);
  t.same([modes(), readState()], [['refuse'], 'paused']);
  await handle().resume();
  t.same(modes(), ['refuse', 'open']);
});

t.test('a resume that fails refuses for a while, and says why', async (t) => {
  const limits = { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 1, fork: 64 };
  const { handle, connect, modes, readLog, readState, manager } = await start(t, {}, { limits });
  await handle().pause(true);
  const { id } = await manager.create({});
  const clock = new FakeClock(t);
  connect();
  await until(() => modes().length === 2);
  t.same([modes(), readState()], [['hold', 'refuse'], 'paused']);
  t.match(await readLog(), [RESUMES, /^network: a connection .* is refused: this daemon takes 1 sandboxes/]);
  await clock.pass(6000);
  await until(() => modes().length === 3);
  t.equal(modes()[2], 'hold');
  await manager.delete(id);
  connect();
  await until(() => modes().at(-1) === 'open');
  t.equal(readState(), 'running');
});

t.test('a pause that fails, and a connection during a pause, leave it reachable', async (t) => {
  const { handle, connect, modes, readState, host } = await start(t);
  host.onPaused = () => {
    throw new Error('no');
  };
  await t.rejects(handle().pause(true));
  t.same([modes(), readState()], [['hold', 'open'], 'running']);
  host.onPaused = () => connect();
  await handle().pause(true);
  await until(() => modes().length === 4);
  t.same(modes().slice(2), ['hold', 'open']);
  t.equal(readState(), 'running');
});

t.test('a flood of connections resumes an idle one at most once in each idle time', async (t) => {
  const counters = { cpuMs: 0, networkBytes: 0 };
  const { connect, readState, count, modes, clock } = await start(
    t,
    { idle: { timeoutS: 60, action: 'pause' } },
    { readCounters: () => ({ ...counters }) },
  );
  await clock?.pass(2 * MINUTE);
  for (let round = 1; round <= 3; round++) {
    await until(() => readState() === 'paused');
    connect(1000);
    await until(() => modes().at(-1) === 'open');
    await clock?.pass(MINUTE / 2);
    connect(1000);
    t.equal(readState(), 'running');
    t.equal(count('paused'), round);
    await clock?.pass(2 * MINUTE);
  }
});

t.test('the next daemon holds the ports of one that is paused', async (t) => {
  const first = await start(t);
  await first.handle().pause(true);
  await first.crash();
  const { manager, network } = await startMemoryDaemon(t, { home: first.home });
  const about = network.calls.filter((call) => call.includes('ports'));
  t.same(about, ['adopt ports [8080] asleep tap1', 'ports hold tap1']);
  for (const knock of network.knock.values()) knock();
  await until(() => manager.get(first.id).info.state === 'running');
});

t.test('it is deleted while connections are held', async (t) => {
  const { handle, connect, manager, id, host, modes } = await start(t);
  await handle().pause(true);
  host.onRestore = () => void manager.delete(id);
  connect();
  await until(() => manager.list().length === 0);
  t.same(modes(), ['hold']);
});
