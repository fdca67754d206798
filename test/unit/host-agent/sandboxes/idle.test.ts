// Idle sandboxes: when they are deleted, what keeps them, and races at the end.
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { ExecSession } from '../../../../host-agent/src/guest/exec.ts';
import type { FileCallAnswer } from '../../../../host-agent/src/guest/files.ts';
import type { Chunk } from '../../../../host-agent/src/lib/byte-queue.ts';
import { IdleWatch } from '../../../../host-agent/src/sandboxes/idle/idle-watch.ts';
import { trackTransferUse } from '../../../../host-agent/src/sandboxes/idle/sandbox-use.ts';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import type { IdleRule } from '../../../../host-agent/src/sandboxes/types.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

const MINUTE = 60_000;
const DELETE: IdleRule = { timeoutS: 60, action: 'delete' };
const PAUSE: IdleRule = { timeoutS: 60, action: 'pause' };
const SNAPSHOT: IdleRule = { timeoutS: 60, action: 'snapshot' };

async function makeScratch(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'idle-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

async function start(t: Test, idle: IdleRule = DELETE, options: MemoryDaemonOptions = {}) {
  const counters = { cpuMs: 0, networkBytes: 0 };
  const readCounters = () => ({ ...counters });
  const daemon = await startMemoryDaemon(t, { readCounters, ...options });
  const clock = new FakeClock(t);
  const { id } = await daemon.manager.create({ idle });
  const isThere = (): boolean => daemon.manager.list().some((sandbox) => sandbox.id === id);
  const kinds = (): string[] => daemon.happened.map(({ kind }) => kind);
  const gone = () => until(() => kinds().includes('deleted'));
  return {
    ...daemon,
    clock,
    counters,
    readCounters,
    id,
    isThere,
    gone,
    kinds,
    sandbox: daemon.manager.get(id),
  };
}

/** Lets both pass: the faked time of timers, and the real time of files. */
async function passUntil(clock: FakeClock, isTrue: () => boolean): Promise<void> {
  for (let passed = 0; !isTrue() && passed < 10 * MINUTE; passed += 1000) {
    await clock.pass(1000);
    await sleep(2);
  }
  if (!isTrue()) throw new Error(`timed out waiting for ${isTrue}`);
}

/** A command that runs until the result is called. */
function run(sandbox: Sandbox): { readonly session: ExecSession; readonly exited: Promise<unknown> } {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const request = { cmd: ['wait'], env: {}, cwd: '', timeout_s: 0 } as unknown as Parameters<
    Sandbox['exec']
  >[0];
  const session = sandbox.exec(request, { output: () => undefined, exit: resolve });
  return { session, exited: promise };
}

t.test('the rule of an idle sandbox says which of its snapshots stay, and how long', async (t) => {
  const rule: IdleRule = { ...SNAPSHOT, keepLast: 1, snapshotExpiresS: 3600 };
  const { clock, manager, kinds, gone, happened } = await start(t, rule);
  await clock.pass(MINUTE);
  await gone();
  await until(() => kinds().includes('snapshot-taken'));
  const [first] = manager.listSnapshots();
  t.match(first, { isAutomatic: true });
  t.equal(first!.expiresAt!.getTime() - first!.createdAt.getTime(), 3_600_000);
  const [fork] = await manager.fork(first!.id, 1);
  t.match(fork!.idle, rule, 'forks inherit it');
  await passUntil(clock, () => kinds().includes('snapshot-deleted'));
  t.match(
    happened.find(({ kind }) => kind === 'snapshot-deleted'),
    { snapshot: first!.id, reason: 'keep_last' },
  );
  t.match(manager.listSnapshots(), [{ sourceId: fork!.id, isAutomatic: true }]);
});

t.test('after its idle timeout a sandbox is deleted, with an event', async (t) => {
  const { clock, manager, id, isThere, happened, home, gone } = await start(t);
  await clock.pass(MINUTE - 1000);
  t.ok(isThere());
  t.same(readdirSync(join(home.runDir, 'idle')), [id]);
  await clock.pass(1000);
  await gone();
  t.match(happened.filter(({ kind }) => kind !== 'template-made').slice(-2), [
    { kind: 'idle', sandbox: id, idleS: 60, snapshot: undefined },
    { kind: 'deleted', sandbox: id },
  ]);
  t.throws(() => manager.get(id), { code: 'not_found' });
  t.notOk(readdirSync(home.runDir).includes('idle'), 'its time is kept no longer');
});

t.test('without the option there is no idle timeout', async (t) => {
  const { clock, manager } = await start(t);
  const { id } = await manager.create({});
  await clock.pass(100 * MINUTE);
  t.same(
    manager.list().map((sandbox) => sandbox.id),
    [id],
  );
});

t.test('CPU work and traffic keep it, and background noise does not', async (t) => {
  const { clock, counters, isThere, gone } = await start(t);
  for (let minutes = 0; minutes < 3; minutes++) {
    counters.cpuMs += 1000;
    await clock.pass(MINUTE - 1000);
    t.ok(isThere(), 'CPU');
    counters.networkBytes += 1000;
    await clock.pass(MINUTE - 1000);
    t.ok(isThere(), 'bytes');
  }
  for (let looks = 0; looks < 5 && isThere(); looks++) {
    counters.cpuMs += 500;
    counters.networkBytes += 100;
    await clock.pass(15_000);
  }
  await gone();
});

t.test('a command keeps it until it has exited', async (t) => {
  const { clock, sandbox, isThere, gone } = await start(t);
  const { session, exited } = run(sandbox);
  await clock.pass(10 * MINUTE);
  t.ok(isThere());
  session.cancel();
  await exited;
  await clock.pass(MINUTE - 1000);
  t.ok(isThere(), 'its idle time started again');
  await clock.pass(16_000);
  await gone();
});

t.test('a transfer keeps it until its last byte, its failure or its cancellation', async (t) => {
  const clock = new FakeClock(t);
  let ends = 0;
  const idle = new IdleWatch({
    idleMs: MINUTE,
    path: join(await makeScratch(t), 'idle'),
    read: () => undefined,
    hasConnection: async () => false,
    onIdle: async () => void ends++,
  });
  t.teardown(() => idle.stop(true));
  let chunk: (value: Chunk | undefined) => void = () => undefined;
  const pushed = Promise.withResolvers<{ files: number; bytes: number }>();
  const called = Promise.withResolvers<FileCallAnswer>();
  const body = {
    next: () => new Promise<Chunk | undefined>((resolve) => (chunk = resolve)),
    cancel: () => undefined,
  };
  const files = trackTransferUse(idle, {
    pushFiles: () => pushed.promise,
    pullFile: async () => ({ body }),
    pullDirectory: () => Promise.reject(new Error('there is none')),
    call: () => called.promise,
    read: () => Promise.reject(new Error('there is none')),
    write: () => Promise.reject(new Error('there is none')),
    watch: () => ({ consumed: () => undefined, cancel: () => undefined }),
  });
  const isKept = async (): Promise<boolean> => {
    const before = ends;
    await clock.pass(3 * MINUTE);
    return ends === before;
  };
  const push = files.pushFiles('/x', async () => undefined);
  t.ok(await isKept(), 'a push');
  pushed.resolve({ files: 0, bytes: 0 });
  await push;
  files.watch({}, { records: () => undefined, end: () => undefined, failed: () => undefined });
  t.notOk(await isKept(), 'a watch does not keep it');
  t.notOk(await isKept());
  const call = files.call({});
  t.ok(await isKept(), 'a call');
  called.resolve({ entries: [], hasMore: false, count: 0 });
  await call;
  t.notOk(await isKept());
  const pulled = await files.pullFile('/x', 1);
  const next = pulled.body.next();
  t.ok(await isKept(), 'a pull');
  chunk(undefined);
  await next;
  t.notOk(await isKept());
  const left = await files.pullFile('/x', 1);
  t.ok(await isKept());
  left.body.cancel();
  left.body.cancel();
  t.notOk(await isKept(), 'given up');
  await t.rejects(files.pullDirectory('/x'));
  t.notOk(await isKept(), 'failed');
});

t.test('an open connection keeps it, even without traffic', async (t) => {
  const clock = new FakeClock(t);
  let isOpen = true;
  let ends = 0;
  const options = { idleMs: MINUTE, path: join(await makeScratch(t), 'idle'), read: () => undefined };
  const onIdle = async () => void ends++;
  const idle = new IdleWatch({ ...options, hasConnection: async () => isOpen, onIdle });
  t.teardown(() => idle.stop(true));
  await clock.pass(10 * MINUTE);
  t.equal(ends, 0);
  isOpen = false;
  await clock.pass(MINUTE);
  t.equal(ends, 1);
});

t.test('a command that cannot start is not a use that never ends', async (t) => {
  const { clock, sandbox, gone } = await start(t);
  sandbox.awake.guest.close(new Error('the channel broke'));
  t.throws(() => run(sandbox), { code: 'guest_unreachable' });
  await clock.pass(2 * MINUTE);
  await gone();
});

t.test('the next daemon continues the idle time', async (t) => {
  const first = await start(t);
  await first.clock.pass(40_000);
  await first.crash();
  const { clock, readCounters, home } = first;
  const next = await startMemoryDaemon(t, { home, readCounters });
  // The daemon's limit for the test would be counted by the fake clock.
  t.setTimeout(0);
  t.equal(next.manager.list().length, 1);
  await clock.pass(15_000);
  t.equal(next.manager.list().length, 1);
  await clock.pass(20_000);
  await until(() => next.manager.list().length === 0);
});

t.test('with idle_action snapshot it is saved, and its copy has the same idle time', async (t) => {
  const { clock, manager, id, gone, happened, kinds } = await start(t, SNAPSHOT);
  await clock.pass(MINUTE);
  await gone();
  const [snapshot] = manager.listSnapshots();
  t.equal(snapshot?.sourceId, id);
  t.match(
    happened.find(({ kind }) => kind === 'idle'),
    { sandbox: id, snapshot: snapshot?.id },
  );
  t.same(kinds().slice(-3), ['snapshot-taken', 'idle', 'deleted']);
  await manager.fork(snapshot!.id, 1);
  await clock.pass(MINUTE);
  await until(() => manager.list().length === 0);
  t.equal(manager.listSnapshots().length, 2);
});

t.test('a command during the save wins: the sandbox stays, and the snapshot is deleted', async (t) => {
  const { clock, host, manager, sandbox, isThere, kinds } = await start(t, SNAPSHOT);
  let wasPaused = false;
  host.onPaused = () => {
    wasPaused = true;
    run(sandbox);
  };
  await passUntil(clock, () => wasPaused);
  await passUntil(clock, () => !sandbox.awake.isSaving);
  await clock.pass(5 * MINUTE);
  t.ok(isThere());
  t.same(manager.listSnapshots(), []);
  t.notOk(kinds().includes('idle'));
  t.notOk(kinds().includes('idle-kept'));
});

t.test('a sandbox that cannot be saved stays, and its log has the reason', async (t) => {
  const { clock, host, manager, id, isThere, kinds, logs } = await start(t, SNAPSHOT);
  host.onSave = () => {
    throw new Error('the disk is broken');
  };
  await passUntil(clock, () => kinds().includes('idle-kept'));
  t.ok(isThere());
  t.same(manager.listSnapshots(), []);
  const page = await logs.read(id, { since: 0 });
  t.ok(
    page?.records.some(({ text }) =>
      /idle for 60 s, but it could not be saved and stays: .*disk is broken/.test(text),
    ),
  );
});

t.test('a sandbox that cannot be paused goes on, and its log has the reason', async (t) => {
  const { clock, host, id, happened, kinds, logs, sandbox } = await start(t, PAUSE);
  host.onSave = () => {
    throw new Error('the disk is broken');
  };
  await passUntil(clock, () => kinds().includes('pause-failed'));
  t.equal(sandbox.state, 'running');
  t.match(
    happened.find(({ kind }) => kind === 'pause-failed'),
    { sandbox: id, reason: /disk is broken/ },
  );
  const page = await logs.read(id, { since: 0 });
  t.ok(page?.records.some(({ text }) => /could not be paused and goes on: .*disk is broken/.test(text)));
});

t.test('a sandbox whose VM died is not deleted as idle', async (t) => {
  const { clock, host, id, isThere } = await start(t);
  host.of(id).end('the guest panicked');
  await clock.pass(10 * MINUTE);
  t.ok(isThere());
});
