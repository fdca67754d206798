// Control groups of user ids end with them, whatever ended the process: with directories in place of groups.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Cgroups, removeCgroup } from '../../../../../host-agent/src/engines/jail/cgroups.ts';
import { leaseUsers, sweepGroups, UidLeases } from '../../../../../host-agent/src/engines/jail/uid-leases.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import { lockDirectory } from '../../../../../host-agent/src/lib/instance-lock.ts';
import { readStartTicks } from '../../../../../host-agent/src/lib/proc.ts';
import { writeProcessRecord } from '../../../../../host-agent/src/lib/process-record.ts';
import { endHeld, startHeld } from '../../../../../host-agent/src/network/held-process.ts';

const BASE = 1_998_000_000 + 16 * (process.pid % 100_000);
const RANGE = { base: BASE, count: 16 };
const OWNER = '1:2';
const LIMITS = { memoryMib: 64, threads: 4 };
const GONE = '999999999 1\n';

async function setUp(t: Test, remove = (path: string) => rm(path, { recursive: true, force: true })) {
  const dir = await mkdtemp('/tmp/user-groups-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const [leases, groups] = [join(dir, 'leases'), join(dir, 'groups')];
  for (const each of [leases, groups]) await mkdir(each);
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const make = async (name: string) => {
    await mkdir(join(groups, name));
    return join(groups, name);
  };
  const open = async () => ({ make, remove: (name: string) => remove(join(groups, name)) });
  const listLeases = async () => (await readdir(leases)).filter((name) => /^\d+$/.test(name));
  const record = join(dir, 'record');
  return {
    users: leaseUsers(RANGE, OWNER, leases, { open, log }),
    leases,
    groups,
    listLeases,
    lines,
    record,
  };
}

async function startSleeper(t: Test, ids: { uid?: number; gid?: number } = {}) {
  const child = spawn('sleep', ['600'], ids);
  t.teardown(() => child.kill('SIGKILL'));
  await once(child, 'spawn');
  return { child, process: { pid: child.pid ?? 0, startTicks: readStartTicks(child.pid ?? 0) ?? 0 } };
}

t.test('helpers that end by themselves leave neither group nor lease, also many at once', async (t) => {
  const { users, groups, listLeases, record, leases } = await setUp(t);
  const records = await Promise.all(
    [0, 1, 2, 3].map(async (at) => {
      const uid = await users.take();
      await users.group(uid, LIMITS);
      const { child, process } = await startSleeper(t);
      await users.handOver(uid, process);
      writeProcessRecord(`${record}-${at}`, { what: 'x', uid, process });
      child.kill('SIGKILL');
      await once(child, 'exit');
      return `${record}-${at}`;
    }),
  );
  t.equal((await readdir(groups)).length, 4);
  // Another daemon looks for ids that are free.
  const lock = await lockDirectory(leases);
  const ended = Promise.all(records.map((each) => endHeld(each, users)));
  await lock[Symbol.asyncDispose]();
  await ended;
  t.same(await readdir(groups), []);
  t.same(await listLeases(), []);
});

t.test('the group of an id that is another process’s by now stays', async (t) => {
  const { users, groups, listLeases } = await setUp(t);
  const uid = await users.take();
  await users.group(uid, LIMITS);
  const { process } = await startSleeper(t);
  await users.handOver(uid, process);
  await users.giveBack(uid, { pid: 999_999_999, startTicks: 1 });
  t.same(await readdir(groups), [`helper-${uid}`]);
  t.same(await listLeases(), [String(uid)]);
});

t.test('groups of leases that are found free end before these', async (t) => {
  const early: string[] = [];
  const state = await setUp(t, async (path) => {
    const uid = /\d+$/.exec(path)?.[0] ?? '';
    if (!(await state.listLeases()).includes(uid)) early.push(path);
    await rm(path, { recursive: true, force: true });
  });
  const { users, leases, groups, listLeases } = state;
  for (const uid of [BASE, BASE + 1]) await writeFile(join(leases, String(uid)), GONE);
  for (const name of [`helper-${BASE}`, `vmm-${BASE + 1}`]) await mkdir(join(groups, name));
  const uid = await users.take();
  t.same(await readdir(groups), []);
  t.same(early, [], 'without a lease it could be the group of another process');
  t.same(await listLeases(), [String(uid)]);
});

t.test(
  'a group that cannot be removed is logged, and blocks an id only while a process has it',
  async (t) => {
    const { users, listLeases, lines } = await setUp(t, () => Promise.reject(new Error('busy')));
    const uid = await users.take();
    await users.giveBack(uid);
    t.same(await listLeases(), []);
    t.match(lines, [{ group: `vmm-${uid}` }, { group: `helper-${uid}`, err: { message: 'busy' } }]);
    const next = await users.take();
    const { child } = await startSleeper(t, { uid: next, gid: next });
    await users.giveBack(next);
    t.same(await listLeases(), [String(next)]);
    child.kill('SIGKILL');
    await once(child, 'exit');
    await users.giveBack(next);
    t.same(await listLeases(), []);
  },
);

t.test('a start that fails rejects with its own error', async (t) => {
  const { users, record } = await setUp(t);
  const start = (toError: (text: string) => AppError) =>
    startHeld({
      ...{ program: '/bin/false', argv0: 'x', record, limits: undefined, toArguments: () => [], toError },
      users: { ...users, giveBack: () => Promise.reject(new Error('the second')) },
    } as unknown as Parameters<typeof startHeld>[0]);
  await t.rejects(
    start(() => new AppError('internal', 'the first')),
    { message: 'the first' },
  );
});

t.test('groups without a lease are removed at a start, others and those with processes stay', async (t) => {
  const { leases, listLeases, lines } = await setUp(t);
  const mount = await mkdtemp('/tmp/user-groups-mount-');
  t.teardown(() => rm(mount, { recursive: true, force: true }));
  const cgroups = await Cgroups.open({ path: '/own', cpuShare: 0, ioBytesPerS: 0, dir: '/', mount });
  const own = join(mount, 'own');
  const names = [`helper-${BASE}`, `vmm-${BASE + 1}`, `helper-${BASE + 2}`, 'helper-x', 'other-1', 'vmm-7x'];
  for (const name of names) await mkdir(join(own, name));
  // In place of a process, which keeps it from being removed.
  await mkdir(join(own, `helper-${BASE + 3}`, 'busy'), { recursive: true });
  await writeFile(join(leases, String(BASE + 2)), `${process.pid} ${readStartTicks(process.pid)}\n`);
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  await sweepGroups(cgroups, await UidLeases.open(RANGE, OWNER, leases), log);
  t.same(
    (await readdir(own)).sort(),
    [
      `helper-${BASE + 2}`,
      `helper-${BASE + 3}`,
      'cgroup.subtree_control',
      'helper-x',
      'other-1',
      'vmm-7x',
    ].sort(),
  );
  t.same(await listLeases(), [String(BASE + 2)]);
  t.match(lines, [{ group: `helper-${BASE + 3}` }]);
});

t.test('what is left in a group is killed before it is removed', async (t) => {
  const group = await mkdtemp('/tmp/user-groups-kill-');
  t.teardown(() => rm(group, { recursive: true, force: true }));
  await writeFile(join(group, 'cgroup.kill'), '0');
  await t.rejects(removeCgroup(group), { code: 'ENOTEMPTY' });
  t.equal(await readFile(join(group, 'cgroup.kill'), 'latin1'), '1');
  await rm(join(group, 'cgroup.kill'));
  await removeCgroup(group);
});

t.test('a real group with a process is removed, where the host has them', async (t) => {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  const mount = mounts.find(([, , type]) => type === 'cgroup2')?.[1];
  if (mount === undefined) return;
  const group = join(mount, `test-groups-${process.pid}`);
  await mkdir(group);
  t.teardown(() => rmdir(group).catch(() => undefined));
  const { child, process: sleeper } = await startSleeper(t);
  await writeFile(join(group, 'cgroup.procs'), String(sleeper.pid));
  if (!(await readdir(group)).includes('cgroup.kill')) child.kill('SIGKILL');
  await removeCgroup(group);
  await t.rejects(readdir(group), { code: 'ENOENT' });
});
