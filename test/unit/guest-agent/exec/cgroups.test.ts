// The cgroups of commands, on this machine: their creation and removal.
import '../support/addon-dir.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ExecCgroups } from '../../../../guest-agent/src/exec/cgroups.ts';
import { toLimits } from '../../../../guest-agent/src/exec/limits.ts';
import { kibibyteField } from '../../../../guest-agent/src/machine/stats.ts';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { until } from '../../../support/until.ts';
import { mountCgroups } from '../support/cgroup-mount.ts';

if (process.getuid?.() !== 0) t.bailout('cgroups are made as root: run these tests as root');

const mount = mountCgroups();
const USAGE = {
  ...{ cpuUserUs: 1, cpuSystemUs: 2, majorFaults: 3 },
  ...{ involuntarySwitches: 4, readBytes: 5, writtenBytes: 6 },
};

function readShare(of: 'together' | 'command') {
  const kernel = (name: string) => Number(readFileSync(`/proc/sys/kernel/${name}`, 'latin1'));
  const memoryBytes = kibibyteField(readFileSync('/proc/meminfo', 'latin1'), 'MemTotal');
  return toLimits({ memoryBytes, threadsMax: kernel('threads-max'), pidMax: kernel('pid_max') }, 0)[of];
}

function start(t: Test) {
  const root = mkdtempSync(join(mount, 'sandboxd-'));
  const cgroups = new ExecCgroups(root);
  cgroups.start();
  const exec = join(root, 'exec');
  const names = () => readdirSync(exec).filter((name) => /^\d+$/.test(name));
  t.teardown(() => {
    for (const name of names()) rmdirSync(join(exec, name));
    rmdirSync(exec);
    rmdirSync(root);
  });
  /** Returns its pid once it is in the cgroup. */
  const sleepIn = async (path: string) => {
    const child = spawn('sleep', ['600']);
    await once(child, 'spawn');
    t.teardown(() => child.kill('SIGKILL'));
    writeFileSync(join(exec, path, 'cgroup.procs'), String(child.pid));
    const gone = once(child, 'exit');
    const end = () => {
      child.kill('SIGKILL');
      return gone;
    };
    return { pid: child.pid ?? 0, gone, end };
  };
  return { cgroups, exec, names, sleepIn };
}

t.test('a cgroup that is released goes, with all that its command made below it', (t) => {
  const { cgroups, exec, names } = start(t);
  const plain = cgroups.acquire();
  const nested = cgroups.acquire();
  t.same([plain.name, nested.name], ['1', '2']);
  mkdirSync(join(exec, '2', 'a', 'b', 'c'), { recursive: true });
  mkdirSync(join(exec, '2', 'd'));
  t.equal(cgroups.count, 2);
  cgroups.release(plain);
  t.same(names(), ['2']);
  cgroups.release(nested);
  t.same(names(), []);
  t.equal(cgroups.count, 0);
  t.end();
});

t.test('it stays for a background process, also below, and goes when that is reaped', async (t) => {
  const { cgroups, exec, names, sleepIn } = start(t);
  const cgroup = cgroups.acquire();
  mkdirSync(join(exec, '1', 'a', 'b'), { recursive: true });
  t.notOk(cgroups.isPopulated(cgroup));
  const [direct, below] = [await sleepIn('1'), await sleepIn('1/a/b')];
  t.ok(cgroups.isPopulated(cgroup));
  t.same(cgroups.pids(cgroup), [direct.pid]);
  cgroups.credit('exec/1/a', USAGE);
  t.same(cgroup.processes, USAGE, 'what an orphan used is its command’s');
  t.same(names(), ['1'], 'a cgroup in use is not removed');
  cgroups.release(cgroup);
  await direct.end();
  cgroups.credit('exec/1', USAGE);
  t.ok(existsSync(join(exec, '1', 'a', 'b')), 'nothing of it goes before all');
  t.equal(cgroups.count, 1);
  await below.end();
  for (const other of ['other/1', 'exec/2', 'exec', '']) cgroups.credit(other, USAGE);
  t.same(names(), ['1'], 'an orphan of another cgroup is no reason');
  cgroups.credit('exec/1/a/b', USAGE);
  t.same(names(), []);
  t.equal(cgroups.count, 0);
  cgroups.credit('exec/1', USAGE);
});

t.test('a kill ends all in it, below as well', async (t) => {
  const { cgroups, exec, sleepIn } = start(t);
  const cgroup = cgroups.acquire();
  mkdirSync(join(exec, '1', 'a'));
  const all = [await sleepIn('1'), await sleepIn('1/a')];
  t.ok(cgroups.kill(cgroup));
  for (const { gone } of all) t.same(await gone, [null, 'SIGKILL']);
  await until(() => !cgroups.isPopulated(cgroup));
  cgroups.release(cgroup);
});

t.test('one is kept in stock, and no more', async (t) => {
  const { cgroups, names } = start(t);
  cgroups.restock();
  cgroups.restock();
  t.same(names(), [], 'when there is time');
  await setImmediate();
  t.same(names(), ['1']);
  cgroups.restock();
  await setImmediate();
  t.same(names(), ['1']);
  t.equal(cgroups.count, 0, 'it is unused');
  t.equal(cgroups.acquire().name, '1');
  cgroups.restock();
  const second = cgroups.acquire();
  t.equal(second.name, '2', 'who comes before there was time has another');
  await setImmediate();
  t.same(names(), ['1', '2', '3']);
});

t.test('a new limit is that of commands that run, and of the one in stock', async (t) => {
  // This machine may have other controllers: files simulate a guest's.
  const root = t.testdir({});
  const cgroups = new ExecCgroups(root);
  cgroups.start();
  cgroups.acquire();
  cgroups.restock();
  await setImmediate();
  const files = ['', '1', '2'].map((name) => join(root, 'exec', name));
  for (const path of files)
    for (const name of ['pids.max', 'memory.max']) writeFileSync(join(path, name), '');
  cgroups.limitPids(7);
  const { pids, memoryBytes } = readShare('together');
  const read = (name: string) => files.map((path) => Number(readFileSync(join(path, name), 'latin1')));
  t.same(read('pids.max'), [pids, 7, 7]);
  t.same(read('memory.max'), [memoryBytes, ...Array(2).fill(readShare('command').memoryBytes)]);
});

t.test('a command has what it used; its memory in parts only while there is something to say', async (t) => {
  const { cgroups, sleepIn } = start(t);
  const cgroup = cgroups.acquire();
  const quiet = cgroups.readUsage(cgroup);
  t.match(quiet.cpuStat, /^usage_usec \d+$/m);
  t.same(quiet.processes, { ...USAGE, ...Object.fromEntries(Object.keys(USAGE).map((key) => [key, 0])) });
  t.equal(quiet.memoryStat, '');
  cgroups.release(cgroup);
  const other = cgroups.acquire();
  const busy = await sleepIn(other.name);
  t.ok(cgroups.isPopulated(other));
  await busy.end();
  cgroups.release(other);
});

t.test('commands run without cgroups', (t) => {
  const { error } = console;
  console.error = () => undefined;
  t.teardown(() => {
    console.error = error;
  });
  const cgroups = new ExecCgroups(join(mount, 'absent'));
  cgroups.start();
  const cgroup = cgroups.acquire();
  t.equal(cgroup.fd, -1);
  t.equal(cgroups.count, 0);
  t.notOk(cgroups.canFreeze);
  t.throws(() => cgroups.setFrozen(true), { message: 'cannot write cgroup.freeze: error 9' });
  t.notOk(cgroups.hasStopped);
  t.notOk(cgroups.kill(cgroup));
  t.notOk(cgroups.isPopulated(cgroup));
  t.same(cgroups.pids(cgroup), []);
  t.match(cgroups.readUsage(cgroup), { cpuStat: '', memoryStat: '', ioStat: '' });
  const before = addon.openDirectory(-100, '/');
  cgroups.release(cgroup);
  const after = addon.openDirectory(-100, '/');
  t.equal(after, before + 1, 'no invalid descriptor is closed');
  addon.close(before);
  addon.close(after);
  t.end();
});
