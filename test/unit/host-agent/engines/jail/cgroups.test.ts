// What is written into control groups, on a directory in place of their file system. cgroup-limits.test.ts has real ones.
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Cgroups, withoutDiskLimits } from '../../../../../host-agent/src/engines/jail/cgroups.ts';

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
});

t.test('a limit of 0 is none', async (t) => {
  const mount = await makeMount(t);
  const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 0, dir: '/', mount });
  const path = await cgroups.make('vmm-1', LIMITS);
  t.equal(await readFile(join(path ?? '', 'cpu.max'), 'utf8'), 'max 100000');
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
  await none.remove('vmm-1');
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
});

t.test('a disk that cannot be limited is named when it should be', async (t) => {
  const mount = await makeMount(t);
  const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 1, dir: '/proc', mount });
  t.same(cgroups.missing, ['a disk below /proc to limit']);
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
  for (const none of [undefined, join(mount, 'absent')]) {
    let runs = 0;
    await withoutDiskLimits(none, async () => void runs++);
    t.equal(runs, 1);
  }
  await withoutDiskLimits(mount, () => rm(mount, { recursive: true }));
});
