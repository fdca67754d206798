// Writes to cgroup files, with a directory in place of their file system. cgroup-limits.test.ts uses real cgroups.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync, symlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, rmdir, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import {
  Cgroups,
  deviceNumber,
  removeCgroup,
  withoutDiskLimits,
} from '../../../../../host-agent/src/engines/jail/cgroups.ts';

const LIMITS = { vcpus: 2, memoryMib: 512, threads: 300 };

async function makeMount(t: Test): Promise<string> {
  const mount = await mkdtemp('/tmp/cgroups-');
  t.teardown(() => rm(mount, { recursive: true, force: true }));
  return mount;
}

t.test('a group has a limit for memory, processes and processor time', async (t) => {
  const mount = await makeMount(t);
  const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 1.5, ioBytesPerS: 0, dir: '/', mount });
  t.same(cgroups.missing, []);
  const path = await cgroups.make('vmm-1', LIMITS);
  t.equal(path, join(mount, 'sandboxd/vmm-1'));
  const files = await readdir(path ?? '');
  const values = await Promise.all(files.map((name) => readFile(join(path ?? '', name), 'utf8')));
  t.same(Object.fromEntries(files.map((name, index) => [name, values[index]])), {
    'memory.max': String(768 * 2 ** 20),
    'memory.swap.max': '0',
    'pids.max': '300',
    'cpu.weight': '200',
    'cpu.max': '300000 100000',
  });
});

t.test('the group may lie deeper, and what those above it have already is not written again', async (t) => {
  const mount = await makeMount(t);
  const slice = join(mount, 'a.slice');
  await mkdir(slice);
  for (const dir of [mount, slice])
    await writeFile(join(dir, 'cgroup.subtree_control'), 'cpu io memory pids\n');
  const options = { path: '/a.slice/b.service', cpuShare: 0, ioBytesPerS: 0, dir: '/', mount };
  const cgroups = await Cgroups.open(options);
  t.same(cgroups.missing, []);
  t.equal(await cgroups.make('vmm-1', LIMITS), join(slice, 'b.service/vmm-1'));
  t.equal(await readFile(join(slice, 'cgroup.subtree_control'), 'utf8'), 'cpu io memory pids\n');
  t.equal(await readFile(join(slice, 'b.service/cgroup.subtree_control'), 'utf8'), '+io');
  await Cgroups.open({ ...options, path: '/c.slice/d.service' });
  t.same(await readdir(join(mount, 'c.slice')), ['cgroup.subtree_control', 'd.service']);
});

t.test('a limit of 0 is no limit', async (t) => {
  const mount = await makeMount(t);
  const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 0, dir: '/', mount });
  const path = await cgroups.make('vmm-1', LIMITS);
  t.equal(await readFile(join(path ?? '', 'cpu.max'), 'utf8'), 'max 100000');
});

t.test('shares are rounded up, and no weight is above what the kernel takes', async (t) => {
  const mount = await makeMount(t);
  const options = { path: '/sandboxd', cpuShare: 1 / 3, ioBytesPerS: 0, dir: '/', mount };
  const cgroups = await Cgroups.open(options);
  for (const [vcpus, weight, max] of [
    [1, '100', '33334 100000'],
    [200, '10000', '6666667 100000'],
  ] as const) {
    const path = await cgroups.make(`vmm-${vcpus}`, { ...LIMITS, vcpus });
    t.equal(await readFile(join(path ?? '', 'cpu.weight'), 'utf8'), weight);
    t.equal(await readFile(join(path ?? '', 'cpu.max'), 'utf8'), max);
  }
});

t.test('a group of before makes way, and one that is removed is gone', async (t) => {
  const mount = await makeMount(t);
  const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 0, dir: '/', mount });
  const old = join(mount, 'sandboxd/vmm-1');
  await mkdir(old);
  t.equal(await cgroups.make('vmm-1', LIMITS), old);
  const empty = join(mount, 'sandboxd/vmm-2');
  await mkdir(empty);
  await cgroups.remove('vmm-2');
  await cgroups.remove('vmm-2');
  t.same((await readdir(join(mount, 'sandboxd'))).sort(), ['cgroup.subtree_control', 'vmm-1']);
});

t.test('of the controllers those that can be had are used', async (t) => {
  const mount = await makeMount(t);
  // A file that has two of them, and accepts no more.
  const holder = spawn('sleep', ['600'], { argv0: 'x cpu pids y' });
  t.teardown(() => holder.kill());
  await once(holder, 'spawn');
  await symlink(`/proc/${holder.pid}/cmdline`, join(mount, 'cgroup.subtree_control'));
  const dir = await mkdtemp('/var/tmp/cgroups-disk-');
  t.teardown(() => rm(dir, { recursive: true }));
  const options = { path: '/sandboxd', cpuShare: 1, ioBytesPerS: 5, dir, mount };
  const cgroups = await Cgroups.open(options);
  t.match(cgroups.missing.slice(0, 2), [
    /^cgroup controller memory \(E[A-Z]+\)$/,
    /^cgroup controller io \(E[A-Z]+\)$/,
  ]);
  t.notOk(
    cgroups.missing.some((what) => what.startsWith('direct')),
    'nothing is counted',
  );
  t.notOk(cgroups.needsDirectWrites);
  const path = await cgroups.make('vmm-1', LIMITS);
  t.same((await readdir(path ?? '')).sort(), ['cpu.max', 'cpu.weight', 'pids.max']);
  await cgroups.limitDisk(path ?? '');
  t.notOk((await readdir(path ?? '')).includes('io.max'));
});

t.test('the group is made where the host has control groups', async (t) => {
  const options = { path: `/test-${process.pid}`, cpuShare: 0, ioBytesPerS: 0, dir: '/' };
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '));
  const mount = mounts.find(([, , type]) => type === 'cgroup2')?.[1];
  const { missing } = await Cgroups.open(options);
  if (mount === undefined) {
    t.same(missing, ['cgroup version 2']);
    return;
  }
  t.notMatch(missing.join(), /cgroup version 2/);
  await rmdir(join(mount, options.path));
});

t.test('controllers that a host does not have are named, and the others hold', async (t) => {
  const mount = await makeMount(t);
  await mkdir(join(mount, 'sandboxd/cgroup.subtree_control'), { recursive: true });
  const none = await Cgroups.open({ path: '/sandboxd', cpuShare: 1, ioBytesPerS: 0, dir: '/', mount });
  t.same(
    none.missing,
    ['memory', 'pids', 'cpu', 'io'].map((name) => `cgroup controller ${name} (EISDIR)`),
  );
  t.equal(await none.make('vmm-1', LIMITS), undefined);
  await mkdir(join(mount, 'sandboxd/vmm-1'));
  await none.remove('vmm-1');
  t.ok(existsSync(join(mount, 'sandboxd/vmm-1')), 'what it cannot have made is not its own');
  const file = join(mount, 'file');
  await writeFile(file, '');
  const without = await Cgroups.open({
    path: '/sandboxd',
    cpuShare: 1,
    ioBytesPerS: 0,
    dir: '/',
    mount: file,
  });
  t.match(without.missing, [/^cgroup version 2 \(ENOTDIR/]);
  t.equal(await without.make('vmm-1', LIMITS), undefined);
});

t.test('a disk that cannot be limited is named when it should be', async (t) => {
  const mount = await makeMount(t);
  const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 1, dir: '/proc', mount });
  t.same(cgroups.missing, ['a disk below /proc to limit']);
  t.notOk(cgroups.needsDirectWrites);
  const path = await cgroups.make('vmm-1', LIMITS);
  await cgroups.limitDisk(path ?? '');
  t.notOk((await readdir(path ?? '')).includes('io.max'));
  t.equal(deviceNumber(0xfe03), '254:3');
  t.equal(deviceNumber(0x12b4_c5d6), '1221:76758', 'numbers of 12 and 20 bits');
});

t.test('a disk is limited for all that is written to it, where that can be counted', async (t) => {
  const mount = await makeMount(t);
  const dir = await mkdtemp('/var/tmp/cgroups-disk-');
  t.teardown(() => rm(dir, { recursive: true }));
  const open = () => Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 7, dir, mount });
  const cgroups = await open();
  if (!existsSync(`/sys/dev/block/${deviceNumber((await stat(dir)).dev)}`)) {
    t.same(cgroups.missing, [`a disk below ${dir} to limit`]);
    return;
  }
  t.same(cgroups.missing, []);
  t.ok(cgroups.needsDirectWrites);
  t.same(await readdir(dir), []);
  const path = (await cgroups.make('vmm-1', LIMITS)) ?? '';
  const limit = await readFile(join(path, 'io.max'), 'utf8');
  t.match(limit, /^\d+:\d+ rbps=7 wbps=7$/);
  const [disk = ''] = limit.split(' ');
  const whole = (await readFile(`/sys/dev/block/${disk}/dev`, 'latin1')).trim();
  t.equal(whole, disk);
  await t.rejects(stat(`/sys/dev/block/${disk}/partition`), { code: 'ENOENT' });
  await writeFile(join(path, 'io.max'), 'lifted');
  await cgroups.limitDisk(path);
  t.equal(await readFile(join(path, 'io.max'), 'utf8'), limit);
  const unlimited = await Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 0, dir, mount });
  t.notOk(unlimited.needsDirectWrites);
  // A directory in which no file for direct I/O can be created.
  await symlink('/absent/file', join(dir, `.direct-${process.pid}`));
  const lacking = await open();
  t.same(lacking.missing, [`direct writes below ${dir}, so that each counts where it is made`]);
  t.notOk(lacking.needsDirectWrites);
  t.same(await readdir(dir), []);
});

t.test('a group whose last process is being reaped is tried again for a while', async (t) => {
  const mount = await makeMount(t);
  const { setTimeout: real } = globalThis;
  t.teardown(() => Object.assign(globalThis, { setTimeout: real }));
  let pauses: unknown[] = [];
  let onPause = (): void => undefined;
  const soon = (callback: () => void, ms: unknown) => {
    pauses.push(ms);
    onPause();
    return real(callback, 0);
  };
  Object.assign(globalThis, { setTimeout: soon });
  // A mount point is busy as well.
  await t.rejects(removeCgroup('/proc'), { code: 'EBUSY' });
  t.same(pauses, Array(20).fill(5));
  const link = join(mount, 'link');
  const own = join(mount, 'own/proc');
  await mkdir(own, { recursive: true });
  await symlink('/', link);
  pauses = [];
  onPause = () => {
    if (pauses.length < 3) return;
    rmSync(link);
    symlinkSync(join(mount, 'own'), link);
  };
  await removeCgroup(join(link, 'proc'));
  t.equal(pauses.length, 3);
  t.same(await readdir(join(mount, 'own')), []);
  await removeCgroup(own);
  await writeFile(join(mount, 'own/file'), '');
  await t.rejects(removeCgroup(join(mount, 'own')), { code: 'ENOTEMPTY' });
  t.equal(pauses.length, 3);
});

t.test('limits of a disk are lifted for a while, and set again whatever happened', async (t) => {
  const mount = await makeMount(t);
  const path = join(mount, 'io.max');
  const limit = '8:0 rbps=5 wbps=5 riops=max wiops=max';
  await writeFile(path, `${limit}\n`);
  const read = () => readFile(path, 'utf8');
  const look = async () => t.equal(await read(), '8:0 rbps=max wbps=max riops=max wiops=max');
  await withoutDiskLimits(mount, look);
  t.equal(await read(), limit);
  const fail = async () => {
    await look();
    throw new Error('a fault of the test');
  };
  await t.rejects(withoutDiskLimits(mount, fail), { message: 'a fault of the test' });
  t.equal(await read(), limit);
  const before = process.cwd();
  process.chdir(mount);
  t.teardown(() => process.chdir(before));
  for (const none of [undefined, join(mount, 'absent')]) {
    let runs = 0;
    await withoutDiskLimits(none, async () => {
      runs += 1;
      t.equal(await read(), limit);
    });
    t.equal(runs, 1);
  }
  process.chdir(before);
  const limits = ['8:0 rbps=5 wbps=max', '8:16 rbps=17 wbps=234'];
  await writeFile(path, `${limits.join('\n')}\n`);
  // Each is a separate write; a plain file keeps the last one.
  await withoutDiskLimits(mount, async () => t.equal(await read(), '8:16 rbps=max wbps=max'));
  t.equal(await read(), limits[1]);
  const spoil = async () => {
    await rm(path);
    await mkdir(path);
  };
  await t.rejects(withoutDiskLimits(mount, spoil), { code: 'EISDIR' });
  await rm(path, { recursive: true });
  await writeFile(path, limit);
  await withoutDiskLimits(mount, () => rm(mount, { recursive: true }));
});
