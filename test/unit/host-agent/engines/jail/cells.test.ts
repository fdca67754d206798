// The arguments of the jail program, with a script in its place. jail.test.ts runs the real program.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { deviceNumber } from '../../../../../host-agent/src/engines/jail/cgroups.ts';
import {
  type Cell,
  type CellOptions,
  confine,
  giveTo,
  Jail,
  leaveJail,
  takeBack,
} from '../../../../../host-agent/src/engines/jail/jail.ts';
import { LEASES_DIR } from '../../../../../host-agent/src/engines/jail/uid-leases.ts';
import { readStartTicks } from '../../../../../host-agent/src/lib/proc.ts';

/** Not used by other tests. */
const UIDS = { base: 1_879_300_000, count: 1000 };
const TRIAL = ['try', '1', 'root', LEASES_DIR];
const NUMBERS = { fds: '3', files: '1028', 'file-bytes': '0', threads: '129' };

const modeOf = (path: string): number => statSync(path).mode & 0o777;
const leaseOf = (uid: number): string => join(LEASES_DIR, String(uid));
/** The argument that follows this one. */
const after = (args: readonly string[], word: string): string | undefined => args[args.indexOf(word) + 1];
/** All mounts of one kind. */
const shown = (args: readonly string[], kind: string): string[] => {
  const words = args.slice(0, args.indexOf('--'));
  return words.filter((_, at) => words[at - 1] === kind && (at - 1) % 2 === 0);
};
const ownLeases = (): string[] =>
  readdirSync(LEASES_DIR).filter(
    (name) =>
      /^18793\d{5}$/.test(name) &&
      readFileSync(join(LEASES_DIR, name), 'latin1').startsWith(`${process.pid} `),
  );

/** Empties a group as the kernel would. */
const EMPTY = 'while [ $# != 0 ]; do [ "$1" = cgroup ] && rm -f "$2"/*; shift; done';

async function makeJail(t: Test, { script = EMPTY, hasCgroups = true, ioBytesPerS = 0 } = {}) {
  const dir = mkdtempSync('/tmp/cells-');
  t.teardown(() => rmSync(dir, { recursive: true }));
  const program = join(dir, 'jail');
  writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" > '${dir}/asked'\n${script}\n`, { mode: 0o755 });
  const mount = join(dir, 'mount');
  if (hasCgroups) mkdirSync(mount);
  else writeFileSync(mount, '');
  const cgroups = { path: '/own', cpuShare: 0, ioBytesPerS, dir, mount };
  const open = () => Jail.open({ program, uids: UIDS, cgroups });
  const cell: CellOptions = {
    ...{ program: '/usr/bin/env', argv0: 'vmm', args: ['-a', '--'], view: { reads: [], writes: [] } },
    ...{ vcpus: 2, memoryMib: 64, maxFileBytes: 5, descriptors: 4 },
  };
  const asked = () => readFileSync(join(dir, 'asked'), 'utf8').trim().split('\n');
  return { dir, program, group: join(mount, 'own'), open, cell, asked };
}

async function leaving(entering: Promise<Cell>): Promise<Cell> {
  const cell = await entering;
  await leaveJail(cell);
  return cell;
}

/** A write to a group creates a file here, which is not part of a real group. */
const emptied = (group: string): void => {
  for (const name of readdirSync(group)) rmSync(join(group, name));
};

t.test('a host that jails is one on which the program can set up a jail', async (t) => {
  const { open, asked, program, group } = await makeJail(t, { hasCgroups: false });
  const before = ownLeases();
  const jail = await open();
  t.same(asked().slice(0, 4), TRIAL);
  const args = asked().slice(2);
  for (const [name, value] of Object.entries(NUMBERS)) t.equal(after(args, name), value, name);
  t.same(args.slice(-3), ['--', 'jail', program]);
  t.same(shown(args, 'rx'), [program], 'a script has no libraries');
  t.same(shown(args, 'dev'), ['/dev/null', '/dev/urandom']);
  t.same([...shown(args, 'ro'), ...shown(args, 'rw'), ...shown(args, 'cgroup')], []);
  t.match(jail.missing, [/^cgroup version 2/]);
  t.notOk(jail.needsDirectWrites);
  t.notOk(existsSync(group));
  t.same(ownLeases(), before, 'that user is free again');
});

t.test('a host without support has no jail, and the reason is reported', async (t) => {
  const before = ownLeases();
  const said = await makeJail(t, {
    ...{ hasCgroups: false, script: 'echo "warning: x" >&2; echo "jail: no namespaces" >&2; exit 125' },
  });
  const start = 'guests are not started without a jail for their VMMs, and there can be none here: ';
  const end = '; start the daemon as root on a host that allows it, or give --insecure-no-jail';
  await t.rejects(said.open(), { code: 'unsupported', message: `${start}no namespaces${end}` });
  const silent = await makeJail(t, { hasCgroups: false, script: 'echo "x jail: y" >&2; exit 1' });
  await t.rejects(silent.open(), { code: 'unsupported', message: `${start}Command failed: ` });
  t.same(ownLeases(), before);
  const { getuid } = process;
  t.teardown(() => Object.assign(process, { getuid }));
  Object.assign(process, { getuid: () => 1000 });
  await t.rejects(silent.open(), { message: `${start}the daemon is not root${end}` });
});

t.test('a VMM has a user, a group and limits of its own, until it leaves', async (t) => {
  const { open, cell, program, group } = await makeJail(t);
  const before = ownLeases();
  const jail = await open();
  t.same(jail.missing, []);
  t.same(readdirSync(group), ['cgroup.subtree_control'], 'that of the trial is gone');
  const one = await jail.enter(cell);
  const two = await jail.enter({ ...cell, namespace: '/run/netns/x', vcpus: 3 });
  t.not(one.uid, two.uid);
  t.same(ownLeases().length, before.length + 2);
  t.equal(one.cgroup, join(group, `vmm-${one.uid}`));
  t.equal(readFileSync(join(one.cgroup ?? '', 'pids.max'), 'latin1'), '130');
  t.equal(readFileSync(join(one.cgroup ?? '', 'memory.max'), 'latin1'), String((64 + 256) * 2 ** 20));
  t.equal(readFileSync(join(one.cgroup ?? '', 'cpu.weight'), 'latin1'), '200');
  t.equal(one.program, program);
  t.same(one.args.slice(0, 4), ['root', LEASES_DIR, 'cgroup', one.cgroup]);
  const numbers = { uid: String(one.uid), fds: '4', files: '1032', 'file-bytes': '5', threads: '130' };
  for (const [name, value] of Object.entries(numbers)) t.equal(after(one.args, name), value, name);
  t.same(one.args.slice(-5), ['--', 'vmm', '/usr/bin/env', '-a', '--']);
  t.same(shown(one.args, 'net'), []);
  t.ok(shown(one.args, 'rx').includes('/lib64'), 'its libraries');
  t.same(shown(one.args, 'rx')[0], '/usr/bin/env');
  t.same(shown(two.args, 'net'), ['/run/netns/x']);
  t.same(shown(two.args, 'dev'), ['/dev/null', '/dev/urandom', '/dev/net/tun']);
  t.equal(after(two.args, 'files'), '1036');
  const startTicks = readStartTicks(process.pid) ?? 0;
  await jail.confirm(one, { pid: process.ppid, startTicks });
  t.match(readFileSync(leaseOf(one.uid), 'latin1'), `${process.ppid} ${startTicks} {"owner":"`);
  for (const { uid, cgroup = '' } of [one, two]) {
    emptied(cgroup);
    await leaveJail({ uid, cgroup });
    t.notOk(existsSync(leaseOf(uid)));
    t.notOk(existsSync(cgroup));
  }
  await leaveJail({ uid: one.uid });
  t.same(ownLeases(), before);
});

t.test('the disk of a VMM is limited again, where that can be', async (t) => {
  const { open, cell, dir } = await makeJail(t, { ioBytesPerS: 7 });
  const jail = await open();
  const hasDisk = existsSync(`/sys/dev/block/${deviceNumber(statSync(dir).dev)}`);
  t.equal(jail.needsDirectWrites, hasDisk);
  const { uid, cgroup = '' } = await jail.enter(cell);
  const file = join(cgroup, 'io.max');
  t.equal(existsSync(file), hasDisk);
  rmSync(file, { force: true });
  await jail.limitDisk({ uid });
  t.notOk(existsSync(file));
  await jail.limitDisk({ uid, cgroup });
  t.equal(existsSync(file), hasDisk);
  emptied(cgroup);
  await leaveJail({ uid, cgroup });
});

t.test('files are given to a VMM as it needs them, and taken back', async (t) => {
  const { open, cell, dir } = await makeJail(t, { hasCgroups: false });
  const jail = await open();
  t.same(Object.keys(await leaving(jail.enter(cell))).sort(), ['args', 'program', 'uid']);
  const [secret, open_, own, made, held, ownDir] = ['secret', 'open', 'own', 'made', 'held', 'ownDir'].map(
    (name) => join(dir, name),
  ) as [string, string, string, string, string, string];
  for (const path of [secret, own]) writeFileSync(path, 'text', { mode: 0o600 });
  writeFileSync(open_, 'text');
  chmodSync(open_, 0o4746);
  for (const path of [held, ownDir]) mkdirSync(path, { mode: 0o700 });
  const { uid, args } = await jail.enter({
    ...cell,
    view: {
      ...{ reads: [secret, open_], writes: [own, made, ownDir], holds: [held], devices: ['/dev/zero'] },
    },
  });
  t.same(shown(args, 'ro'), [secret, open_]);
  t.same(shown(args, 'rw'), [held, own, made, ownDir], 'directories that it holds first');
  t.same(shown(args, 'dev'), ['/dev/null', '/dev/urandom', '/dev/zero']);
  t.equal(modeOf(secret), 0o644);
  t.equal(statSync(open_).mode & 0o7777, 0o4746, 'what it may read already is as it was');
  t.equal(statSync(secret).uid, 0);
  t.match(statSync(held), { uid: 0 });
  t.equal(modeOf(held), 0o711);
  for (const path of [own, made, ownDir]) t.match(statSync(path), { uid, gid: uid }, path);
  t.equal(modeOf(made), 0o600);
  t.equal(readFileSync(own, 'utf8'), 'text');
  t.equal(modeOf(ownDir), 0o700);
  for (const [path, mode] of [
    [own, 0o644],
    [ownDir, 0o711],
  ] as const) {
    await takeBack(path);
    t.match(statSync(path), { uid: 0, gid: 0 });
    t.equal(modeOf(path), mode);
  }
  const { geteuid, getegid } = process;
  Object.assign(process, { geteuid: () => 65_534, getegid: () => 65_533 });
  await takeBack(own).finally(() => Object.assign(process, { geteuid, getegid }));
  t.match(statSync(own), { uid: 65_534, gid: 65_533 }, 'also of a daemon that is not root');
  await giveTo({ uid }, ownDir);
  t.match(statSync(ownDir), { uid, gid: uid });
  await giveTo(undefined, held);
  t.match(statSync(held), { uid: 0, gid: 0 });
  const link = join(dir, 'link');
  symlinkSync(secret, link);
  await t.rejects(takeBack(link), { code: 'ELOOP' });
  const pipe = join(dir, 'pipe');
  execFileSync('mkfifo', [pipe]);
  await takeBack(pipe);
  t.equal(modeOf(pipe), 0o644, 'a pipe that nobody writes to holds nobody up');
  await leaveJail({ uid });
});

t.test('what fails while a VMM enters gives back its user and its group', async (t) => {
  const { open, cell, dir, group } = await makeJail(t);
  const jail = await open();
  const before = ownLeases();
  const failing = jail.enter({ ...cell, view: { reads: [join(dir, 'absent')], writes: [] } });
  await t.rejects(failing, { code: 'ENOENT' }, 'what failed first');
  t.same(ownLeases(), before, 'also where its group cannot be removed: it is a directory with files here');
  const [name = ''] = readdirSync(group).filter((each) => each.startsWith('vmm-'));
  rmSync(join(group, name), { recursive: true });
  const without = await makeJail(t, { hasCgroups: false });
  const other = await without.open();
  await t.rejects(other.enter({ ...cell, view: { reads: [join(dir, 'absent')], writes: [] } }), {
    code: 'ENOENT',
  });
  await t.rejects(other.enter({ ...cell, program: join(dir, 'absent') }), { code: 'ENOENT' });
  t.same(ownLeases(), before);
});

t.test('groups of users that were found to be free go when a daemon starts', async (t) => {
  const { open, group } = await makeJail(t);
  const uid = UIDS.base + UIDS.count - 1;
  mkdirSync(join(group, `vmm-${uid}`), { recursive: true });
  for (const name of ['other-1', `helper-${uid - 1}`]) mkdirSync(join(group, name));
  // One that cannot be removed does not prevent the start.
  mkdirSync(join(group, `helper-${uid}`, 'busy'), { recursive: true });
  writeFileSync(leaseOf(uid), '999999999 1\n');
  await open();
  t.same(readdirSync(group).sort(), ['cgroup.subtree_control', `helper-${uid}`, 'other-1']);
  t.notOk(existsSync(leaseOf(uid)));
});

t.test('the libraries of a program are looked for once', async (t) => {
  const { open, cell, dir } = await makeJail(t, { hasCgroups: false });
  const jail = await open();
  const [program, link] = [join(dir, 'program'), join(dir, 'link')];
  copyFileSync('/usr/bin/env', program);
  symlinkSync(program, link);
  const first = await jail.enter({ ...cell, program: link });
  writeFileSync(program, '');
  const second = await jail.enter({ ...cell, program });
  t.same(shown(second.args, 'rx'), shown(first.args, 'rx'));
  t.equal(shown(first.args, 'rx')[0], program);
  for (const each of [first, second]) await leaveJail(each);
});

t.test('a helper that reads untrusted input runs in a jail, too', async (t) => {
  const { open, dir, program } = await makeJail(t, { hasCgroups: false });
  const jail = await open();
  const file = join(dir, 'file');
  writeFileSync(file, '');
  const before = ownLeases();
  const command = { program: '/usr/bin/env', args: ['x'], reads: [file], descriptors: 5, memoryMib: 64 };
  const { leave, ...confined } = await confine(jail, command);
  t.equal(confined.program, program);
  t.same(confined.args.slice(-4), ['--', 'confined', '/usr/bin/env', 'x']);
  const numbers = { fds: '5', files: '1032', 'file-bytes': String(2 ** 60), threads: '130' };
  for (const [name, value] of Object.entries(numbers)) t.equal(after(confined.args, name), value, name);
  t.same(shown(confined.args, 'ro'), [file]);
  t.same(shown(confined.args, 'rw'), []);
  t.equal(ownLeases().length, before.length + 1);
  await leave();
  t.same(ownLeases(), before);
});
