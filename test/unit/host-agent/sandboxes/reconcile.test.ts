// Reconciliation: a new daemon removes its own leftovers, and touches nothing else.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { isRunning, readStartTicks } from '../../../../host-agent/src/lib/proc.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { checksummed } from '../../../support/checksummed.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';

const ADOPTED = 'sandboxes adopted';

/** Starts a process, and keeps it from exiting completely. */
const HOLDER = `
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 0x4206, 0x40
pid = os.fork()
if pid == 0: time.sleep(600)
assert libc.ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT) == 0
print(pid, flush=True)
time.sleep(600)
`;

t.test('a stray VMM is ended, and a reused process id is not', async (t) => {
  const home = await makeHome(t);
  const [stray, other] = [1, 2].map(() => {
    const child = spawn('sleep', ['600'], { stdio: 'ignore' });
    t.teardown(() => child.kill('SIGKILL'));
    const pid = child.pid ?? 0;
    return { child, pid, startTicks: readStartTicks(pid) ?? 0, socketDir: join(home.runDir, 'x') };
  }) as [{ child: ReturnType<typeof spawn>; pid: number; startTicks: number; socketDir: string }, never];
  const reused = { ...(other as typeof stray), startTicks: stray.startTicks - 1 };
  home.host.foreignVmms = [stray, reused];
  const { lines } = await startMemoryDaemon(t, { home });
  t.notOk(isRunning(stray));
  t.ok(isRunning(other), 'it began at another time than the VMM');
  t.match(
    lines.filter(({ msg }) => msg === ADOPTED),
    [{ adopted: 0, failed: 0, removed: 0, foreignVmms: 2 }],
  );
});

t.test('a VMM that does not exit affects only its own sandbox, not the start', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const [retained, stuck] = [await first.manager.create({}), await first.manager.create({})];
  const records = first.store.table<SandboxRecord>('sandboxes');
  await records.put(stuck.id, { ...records.get(stuck.id)!, isReady: false });
  await first.crash();
  // Its last thread waits for its tracer.
  const tracer = spawn('python3', ['-c', HOLDER], { stdio: ['ignore', 'pipe', 'inherit'] });
  const logged = createInterface({ input: tracer.stdout })[Symbol.asyncIterator]();
  const pid = Number((await logged.next()).value);
  t.teardown(() => {
    tracer.kill('SIGKILL');
  });
  const startTicks = readStartTicks(pid) ?? 0;
  home.host.foreignVmms = [{ pid, startTicks, socketDir: join(home.runDir, stuck.id) }];
  const { manager, lines, store } = await startMemoryDaemon(t, { home });
  t.ok(isRunning({ pid, startTicks }), 'it was killed and has not exited');
  t.same(
    manager.list().map(({ id }) => id),
    [retained.id],
  );
  t.ok(store.table('sandboxes').get(stuck.id), 'the next start tries again');
  t.match(lines.filter(({ msg }) => /does not exit; the next start tries again/.test(msg ?? '')).length, 1);
});

t.test('directories without a record are removed, and other directories stay', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  await first.crash();
  const gone = id.replace(/^sbx_./, (start) => (start === 'sbx_2' ? 'sbx_3' : 'sbx_2'));
  const roots = [join(home.dataDir, 'sandboxes'), home.runDir];
  for (const root of roots) for (const name of [gone, 'lost+found']) mkdirSync(join(root, name));
  const { lines } = await startMemoryDaemon(t, { home });
  for (const root of roots) t.same(readdirSync(root).sort(), ['lost+found', id].sort());
  t.match(
    lines.filter(({ msg }) => msg === ADOPTED),
    [{ adopted: 1, failed: 0, removed: 1, foreignVmms: 0 }],
  );
});

t.test('a daemon without leftovers logs nothing', async (t) => {
  const { lines } = await startMemoryDaemon(t);
  t.same(
    lines.filter(({ msg }) => msg === ADOPTED),
    [],
  );
});

t.test('a log stays if its sandbox was visible', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const ids: Record<string, string> = {};
  for (const name of ['unready', 'leaving', 'forgotten']) {
    const { id } = await first.manager.create({});
    await execText(first.manager, id, ['true']);
    ids[name] = id;
  }
  const { unready = '', leaving = '', forgotten = '' } = ids;
  const records = first.store.table<SandboxRecord>('sandboxes');
  await records.put(unready, { ...records.get(unready)!, isReady: false });
  await records.put(leaving, { ...records.get(leaving)!, isReady: false, isDeleting: true });
  await first.crash();
  // Its record was removed, its files were not.
  const second = await startMemoryDaemon(t, { home });
  t.same(
    second.manager.list().map(({ id }) => id),
    [forgotten],
  );
  t.equal(await second.logs.read(unready, { since: 0 }), undefined, 'its id was never visible');
  const page = await second.logs.read(leaving, { since: 0 });
  t.match(page?.records[0], { text: 'exec: true' });
  await second.store.table('sandboxes').remove(forgotten);
  await second.crash();
  const third = await startMemoryDaemon(t, { home });
  t.same(third.manager.list(), []);
  t.match((await third.logs.read(forgotten, { since: 0 }))?.records[0], { text: 'exec: true' });
});

t.test('an incomplete snapshot is removed, and an unreadable one is left alone', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({});
  const [unfinished, damaged, whole] = [
    await first.manager.snapshot(first.manager.get(id)),
    await first.manager.snapshot(first.manager.get(id)),
    await first.manager.snapshot(first.manager.get(id)),
  ] as const;
  const records = first.store.table<Record<string, unknown>>('snapshots');
  await records.put(unfinished.id, { ...records.get(unfinished.id), isComplete: false });
  await records.put('snap_gone', { ...records.get(whole.id) });
  for (const { dir } of [unfinished, damaged, whole]) await checksummed(dir);
  writeFileSync(join(damaged.dir, 'manifest.json'), 'no manifest');
  await first.crash();
  const next = await startMemoryDaemon(t, { home });
  t.same(
    next.manager.listSnapshots().map((snapshot) => snapshot.id),
    [whole.id],
  );
  t.notOk(existsSync(unfinished.dir));
  t.ok(existsSync(join(damaged.dir, 'memory')), 'it is user data');
  const unread = next.lines.filter(({ msg }) => msg?.startsWith('a snapshot cannot be read'));
  t.match(unread, [{ snapshot: damaged.id }]);
  const known = next.store
    .table('snapshots')
    .all()
    .map((entry) => entry.id);
  t.same(known.sort(), [unfinished.id, damaged.id, whole.id].sort(), 'the first is the parent of the second');
});
