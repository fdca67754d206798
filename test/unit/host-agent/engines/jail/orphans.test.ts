// Processes that an earlier daemon has left, and that nothing accounts for.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { endOrphans } from '../../../../../host-agent/src/engines/jail/orphans.ts';
import {
  leaseOwner,
  leaseUsers,
  readLeases,
  UidLeases,
} from '../../../../../host-agent/src/engines/jail/uid-leases.ts';
import { hasProcess, type ProcessId, readStartTicks } from '../../../../../host-agent/src/lib/proc.ts';
import { isRecorded, writeProcessRecord } from '../../../../../host-agent/src/lib/process-record.ts';

/** Not those of any host. */
const RANGE = { base: 1_998_000_000 + (process.pid % 10_000) * 100, count: 50 };
const DEAD = { pid: 999_999_999, startTicks: 1 };
const SELF = { pid: process.pid, startTicks: readStartTicks(process.pid) ?? 0 };
const OWNER = '7:42';

const isAlive = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;

async function prepare(t: Test) {
  const dir = await mkdtemp('/tmp/orphans-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const lines: object[] = [];
  const log = {
    warn: (line: object) => void lines.push(line),
    error: (line: object) => void lines.push(line),
  };
  let uid = RANGE.base;
  /** A process under a user id of its own, and the lease of that. */
  const start = async (
    lease: (process: ProcessId) => { holder: ProcessId; tag?: object | undefined },
    user = ++uid,
  ) => {
    const child = spawn('sleep', ['600'], user === 0 ? {} : { uid: user, gid: user });
    t.teardown(() => child.kill('SIGKILL'));
    await once(child, 'spawn');
    const pid = child.pid ?? 0;
    const { holder, tag } = lease({ pid, startTicks: readStartTicks(pid) ?? 0 });
    const name = user === 0 ? ++uid : user;
    const text = `${holder.pid} ${holder.startTicks}${tag === undefined ? '' : ` ${JSON.stringify(tag)}`}\n`;
    await writeFile(join(dir, String(name)), text);
    return { child, uid: name };
  };
  const users = leaseUsers(RANGE, OWNER, dir);
  const end = (isKnown: (process: ProcessId, record: string | undefined) => boolean) =>
    endOrphans({ owner: OWNER, isKnown, users, log, dir });
  const leases = async () =>
    (await readdir(dir))
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .sort();
  return { dir, start, end, leases, lines };
}

t.test('what an earlier daemon of the data directory has left is ended', async (t) => {
  const { start, end, leases, lines } = await prepare(t);
  const tag = { owner: OWNER, daemon: DEAD, record: '/gone/record' };
  const left = await start((holder) => ({ holder, tag }));
  // Its daemon was killed before it handed over the lease.
  const early = await start(() => ({ holder: DEAD, tag }));
  const known = await start((holder) => ({ holder, tag: { ...tag, record: undefined } }));
  const exits = [left, early].map(({ child }) => once(child, 'exit'));
  await end((_, record) => record === undefined);
  await Promise.all(exits);
  t.ok(isAlive(known.child));
  t.same(await leases(), [known.uid]);
  t.match(lines, [
    { uid: left.uid, pids: [left.child.pid], record: '/gone/record' },
    { uid: early.uid, pids: [early.child.pid] },
  ]);
});

t.test('a process whose record is there stays, and one whose record is of another is ended', async (t) => {
  const { dir, start, end, leases } = await prepare(t);
  const [record, replaced] = [join(dir, 'record'), join(dir, 'replaced')];
  const tag = { owner: OWNER, daemon: DEAD };
  const kept = await start((holder) => {
    writeProcessRecord(record, { what: 'kept', process: holder });
    return { holder, tag: { ...tag, record } };
  });
  const other = await start((holder) => ({ holder, tag: { ...tag, record: replaced } }));
  writeProcessRecord(replaced, { what: 'another', process: SELF });
  const exit = once(other.child, 'exit');
  await end((process, path) => path === undefined || isRecorded(path, process));
  await exit;
  t.ok(isAlive(kept.child));
  t.same(await leases(), [kept.uid]);
});

t.test('nothing of other daemons, of one that runs, or of other users is touched', async (t) => {
  const { start, end, leases, lines } = await prepare(t);
  const tag = { owner: OWNER, daemon: DEAD };
  const spared = [
    await start((holder) => ({ holder, tag: { ...tag, owner: '7:43' } })),
    await start((holder) => ({ holder, tag: { ...tag, daemon: SELF } })),
    await start((holder) => ({ holder })),
    // The pid of a holder that has ended is another process's by now.
    await start((holder) => ({ holder: { ...holder, startTicks: holder.startTicks + 1 }, tag }), 0),
    await start((holder) => ({ holder, tag }), 0),
  ];
  await end(() => false);
  t.ok(spared.every(({ child }) => isAlive(child)));
  t.same(await leases(), spared.map(({ uid }) => uid).sort());
  t.same(lines, []);
});

t.test('what another daemon gave the same id, of leases that this one does not see, stays', async (t) => {
  const { dir, start, end } = await prepare(t);
  const tag = { owner: OWNER, daemon: DEAD };
  // The holder of a lease that was handed over has ended; that daemon sees the same processes.
  const beside = await start(() => ({ holder: { pid: 999_999_998, startTicks: 1 }, tag }));
  // It is in a container, and the daemon of the lease was killed before it handed that over.
  const uid = beside.uid + 1;
  const ids = ['--reuid', String(uid), '--regid', String(uid), '--clear-groups'];
  // Ends with its input.
  const inner = ['sh', '-c', 'echo started; exec cat'];
  const container = spawn('unshare', ['--pid', '--fork', 'setpriv', ...ids, ...inner], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(() => void container.stdin.end());
  await once(container.stdout, 'data');
  await writeFile(join(dir, String(uid)), `${DEAD.pid} ${DEAD.startTicks} ${JSON.stringify(tag)}\n`);
  t.ok(hasProcess(uid), 'control: it is seen');
  await end(() => false);
  t.ok(isAlive(beside.child));
  t.ok(hasProcess(uid));
});

t.test('a lease says whose it is, also after it was handed over', async (t) => {
  const { dir, end, leases } = await prepare(t);
  const owner = await leaseOwner(dir);
  t.match(owner, /^\d+:\d+$/);
  const child = spawn('sleep', ['600'], { uid: RANGE.base, gid: RANGE.base });
  t.teardown(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  const held = await UidLeases.open({ base: RANGE.base, count: 1 }, OWNER, dir);
  const uid = await held.take('/a record "of" it');
  await held.handOver(uid, { pid: child.pid ?? 0, startTicks: readStartTicks(child.pid ?? 0) ?? 0 });
  t.match((await readLeases(dir)).get(uid)?.tag, { owner: OWNER, record: '/a record "of" it' });
  await end(() => false);
  t.ok(isAlive(child), 'the daemon that took it runs');
  t.same(await leases(), [uid]);
});
