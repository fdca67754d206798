// A user id for each VMM of the host, across daemons.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { giveBackUid, readLeases, UidLeases } from '../../../../../host-agent/src/engines/jail/uid-leases.ts';
import { lockDirectory } from '../../../../../host-agent/src/lib/instance-lock.ts';
import { readStartTicks } from '../../../../../host-agent/src/lib/proc.ts';

const RANGE = { base: 5000, count: 4 };
const OWNER = '1:2';

async function makeDir(t: Test): Promise<string> {
  const dir = await mkdtemp('/tmp/uid-leases-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

const listLeases = async (dir: string) => (await readdir(dir)).filter((name) => /^\d+$/.test(name));

t.test('two daemons never have the same user, and know when all are taken', async (t) => {
  const dir = await makeDir(t);
  await rm(dir, { recursive: true });
  const daemons = [await UidLeases.open(RANGE, OWNER, dir), await UidLeases.open(RANGE, OWNER, dir)];
  const taken: number[] = [];
  for (const index of [0, 1, 0, 1]) taken.push(await daemons[index]!.take());
  const own = { pid: process.pid, startTicks: readStartTicks(process.pid) };
  const leases = await readLeases(dir);
  for (const name of await listLeases(dir)) {
    t.same(leases.get(Number(name)), { holder: own, tag: { owner: OWNER, daemon: own } });
    const text = await readFile(join(dir, name), 'latin1');
    t.ok(text.startsWith(`${own.pid} ${own.startTicks} `), 'what an earlier version reads');
    t.equal((await stat(join(dir, name))).mode & 0o777, 0o600);
  }
  t.equal((await stat(dir)).mode & 0o777, 0o700);
  t.same(taken.toSorted(), [5000, 5001, 5002, 5003]);
  await t.rejects(daemons[0]!.take(), {
    code: 'exhausted',
    message: 'all 4 user ids for VMMs are taken; raise --jail-uid-count',
  });
  await giveBackUid(5002, dir);
  t.equal(await daemons[1]!.take(), 5002, 'one that was given back');
});

t.test('a user stays with its VMM without the daemon, and is free when that is gone', async (t) => {
  const dir = await makeDir(t);
  const leases = await UidLeases.open(RANGE, OWNER, dir);
  const vmm = spawn('sleep', ['600']);
  t.teardown(() => vmm.kill());
  await once(vmm, 'spawn');
  const pid = vmm.pid ?? 0;
  const uid = await leases.take();
  const startTicks = readStartTicks(pid) ?? 0;
  await leases.handOver(uid, { pid, startTicks });
  const daemon = { pid: process.pid, startTicks: readStartTicks(process.pid) };
  t.same((await readLeases(dir)).get(uid), { holder: { pid, startTicks }, tag: { owner: OWNER, daemon } });
  await UidLeases.open(RANGE, OWNER, dir);
  t.same(await listLeases(dir), [String(uid)], 'another daemon leaves it alone');
  vmm.kill();
  await once(vmm, 'exit');
  t.same((await UidLeases.open(RANGE, OWNER, dir)).freed, [uid]);
  t.same(await listLeases(dir), [], 'the next start finds that it is gone');
});

t.test('a user id is not given to others while any process has it', async (t) => {
  const dir = await makeDir(t);
  const uid = 1_999_000_000 + Math.floor(Math.random() * 100_000);
  const left = spawn('sleep', ['600'], { uid, gid: uid });
  t.teardown(() => left.kill('SIGKILL'));
  await once(left, 'spawn');
  // Its daemon was killed before it handed over the lease.
  for (const name of [uid, uid + 1]) await writeFile(join(dir, String(name)), '999999999 1\n');
  t.same((await UidLeases.open(RANGE, OWNER, dir)).freed, [uid + 1]);
  t.same(await listLeases(dir), [String(uid)]);
  left.kill('SIGKILL');
  await once(left, 'exit');
  t.same((await UidLeases.open(RANGE, OWNER, dir)).freed, [uid]);
});

t.test('where all leases were removed, the ids of processes that run are not given to others', async (t) => {
  const dir = await makeDir(t);
  const range = { base: 1_999_200_000 + (process.pid % 10_000) * 2, count: 2 };
  const left = spawn('sleep', ['600'], { uid: range.base, gid: range.base });
  t.teardown(() => left.kill('SIGKILL'));
  await once(left, 'spawn');
  await rm(dir, { recursive: true });
  const leases = await UidLeases.open(range, OWNER, dir);
  t.equal(await leases.take(), range.base + 1);
  await t.rejects(leases.take(), { code: 'exhausted' });
  await rm(dir, { recursive: true });
  t.equal(await leases.take(), range.base + 1, 'also while a daemon runs');
  left.kill('SIGKILL');
  await once(left, 'exit');
  t.same((await UidLeases.open(range, OWNER, dir)).freed, [range.base]);
});

t.test('a lease that is just being written is left alone', async (t) => {
  const dir = await makeDir(t);
  await writeFile(join(dir, '5001'), '');
  await UidLeases.open(RANGE, OWNER, dir);
  t.same(await listLeases(dir), ['5001']);
  // Its daemon was killed before it wrote anything.
  const longAgo = new Date(Date.now() - 3_600_000);
  await utimes(join(dir, '5001'), longAgo, longAgo);
  t.same((await UidLeases.open(RANGE, OWNER, dir)).freed, [5001]);
  t.same(await listLeases(dir), []);
});

t.test('while one daemon looks for users that are free, another takes none from it', async (t) => {
  const dir = await makeDir(t);
  await writeFile(join(dir, '5001'), '999999999 1\n');
  const lock = await lockDirectory(dir);
  t.same((await UidLeases.open(RANGE, OWNER, dir)).freed, []);
  t.same(await listLeases(dir), ['5001']);
  await lock[Symbol.asyncDispose]();
  // An entry that is not a lease must not prevent the start.
  await mkdir(join(dir, 'directory'));
  await writeFile(join(dir, '5002'), '999999999');
  t.same((await UidLeases.open(RANGE, OWNER, dir)).freed, [5001]);
  t.same(await listLeases(dir), ['5002'], 'of half a text nothing is known');
});

t.test('a lease that cannot be read at present is not taken for one that was never written', async (t) => {
  const dir = await makeDir(t);
  const path = join(dir, '5001');
  await writeFile(path, '');
  // Larger than what Node reads at once: the read fails, as it does without descriptors.
  await truncate(path, 2 ** 32);
  const longAgo = new Date(Date.now() - 3_600_000);
  await utimes(path, longAgo, longAgo);
  t.same((await UidLeases.open(RANGE, OWNER, dir)).freed, []);
  t.same(await listLeases(dir), ['5001']);
});

t.test('on a full disk no user is taken for good', async (t) => {
  const dir = await makeDir(t);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', dir]);
  t.teardown(() => execFileSync('umount', [dir]));
  const leases = await UidLeases.open(RANGE, OWNER, dir);
  await writeFile(join(dir, 'full'), Buffer.alloc(4096));
  await t.rejects(leases.take(), { code: 'ENOSPC' });
  t.same(await listLeases(dir), []);
  await rm(join(dir, 'full'));
  await leases.take();
});

t.test('an unusable directory is reported', async (t) => {
  const dir = await makeDir(t);
  const leases = await UidLeases.open(RANGE, OWNER, dir);
  await rm(dir, { recursive: true });
  const uid = await leases.take();
  t.same(await listLeases(dir), [String(uid)], 'one that a purge has taken away is made again');
  t.equal((await stat(dir)).mode & 0o777, 0o700);
  await rm(dir, { recursive: true });
  await writeFile(dir, '');
  await t.rejects(leases.take(), { code: 'ENOTDIR' });
  await rm(dir);
  await giveBackUid(5000, dir);
  await mkdir(join(dir, 'sandboxd.lock'), { recursive: true });
  await t.rejects(UidLeases.open(RANGE, OWNER, dir), {
    code: 'internal',
    message: /^cannot lock directory /,
  });
});
