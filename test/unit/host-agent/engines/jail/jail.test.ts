// A jail from the inside, by a program that tries what a compromised VMM would.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { chmod, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { Jail, takeBack } from '../../../../../host-agent/src/engines/jail/jail.ts';
import { readArguments } from '../../../../../host-agent/src/lib/proc.ts';
import { end, JAILED_FILE_BYTES, openAttacks, TEST_CGROUPS, TEST_UIDS } from '../../../../support/jailed.ts';
import { until } from '../../../../support/until.ts';
import { readStatus } from '../../../../support/vmms.ts';

t.test('nothing of the host can be reached from a jail', async (t) => {
  // Priorities that a privileged daemon would pass on; raising them needs a capability that not every root has.
  const raise = ['--pid', String(process.pid), '--rtprio=50', '--nice=40'];
  await promisify(execFile)('prlimit', raise).catch(() => t.comment('limits cannot be raised here'));
  await using attacks = await openAttacks();
  const victim = spawn('sleep', ['600']);
  t.teardown(() => victim.kill());
  await once(victim, 'spawn');
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  const secret = join(attacks.dir, 'secret');
  await writeFile(secret, 'text', { mode: 0o600 });
  const abstract = `jail-test-${process.pid}`;
  const listener = createServer().listen(`\0${abstract}`);
  await once(listener, 'listening');
  t.teardown(() => listener.close());
  const reachable = [`process=${victim.pid}`, `port=${port}`, `file=${secret}`, `abstract=${abstract}`];
  const asDaemon = await attacks.attackAsDaemon(reachable);
  const jailed = await attacks.attack([...reachable, 'self'], { reads: [], writes: [] });
  t.same(
    [...jailed].filter(([, outcome]) => outcome === 'done'),
    [],
  );
  for (const name of [
    "open a process's mem",
    'trace',
    'signal',
    'limit a process',
    'connect',
    'raw socket',
    'connect without a file',
    `read ${secret}`,
    `write ${secret}`,
  ])
    t.equal(asDaemon.get(name), 'done', `${name}: or this test could not fail`);
  for (const name of asDaemon.keys()) t.ok(jailed.has(name), name);
  t.ok(jailed.size > 115, `${jailed.size} attacks`);
});

t.test('a jailed program has no privilege, and namespaces of its own', async (t) => {
  await using attacks = await openAttacks();
  const { process: jailed, uid } = await attacks.start('/bin/sleep', ['600'], { reads: [], writes: [] });
  t.teardown(() => jailed.signal('SIGKILL'));
  const proc = `/proc/${jailed.pid}`;
  await until(() => readArguments(jailed.pid)[0] === 'vmm');
  const none = '0'.repeat(16);
  t.match(readStatus(`${proc}/status`), {
    ...{ Uid: [uid, uid, uid, uid].join('\t'), Gid: [uid, uid, uid, uid].join('\t'), Groups: /^ ?$/ },
    ...{ CapInh: none, CapPrm: none, CapEff: none, CapBnd: none, CapAmb: none },
    ...{ NoNewPrivs: '1', Seccomp: '2' },
  });
  for (const name of ['mnt', 'net', 'ipc', 'uts', 'cgroup'])
    t.not(readlinkSync(`${proc}/ns/${name}`), readlinkSync(`/proc/self/ns/${name}`), name);
  t.equal(readFileSync(`${proc}/environ`, 'latin1'), '');
  const limits = readFileSync(`${proc}/limits`, 'latin1');
  for (const name of ['core file size', 'nice priority', 'realtime priority'])
    t.match(limits, new RegExp(`^Max ${name} +0 +0 `, 'm'));
  t.notMatch(limits, /^Max (?:file size|processes|open files) .*unlimited/m);
});

t.test('a jailed program with a network has the tap of its namespace, and no other way out', async (t) => {
  await using attacks = await openAttacks();
  const name = `jail-test-${process.pid}`;
  const ip = (...args: string[]): Buffer => execFileSync('ip', args);
  ip('netns', 'add', name);
  t.teardown(() => ip('netns', 'delete', name));
  ip('-n', name, 'tuntap', 'add', 'tap0', 'mode', 'tap', 'vnet_hdr');
  ip('-n', name, 'link', 'set', 'tap0', 'up');
  const view = { reads: [], writes: [] };
  const outcomes = await attacks.attack(['tap=tap0', 'port=1'], view, `/run/netns/${name}`);
  t.same(Object.fromEntries(outcomes), {
    ...{ 'attach tap0': 'done', 'send by tap0': 'done', 'make a tap': 'EPERM' },
    ...{ 'end the life of tap0': 'ENOTTY', 'give away tap0': 'ENOTTY' },
    ...{ 'change the kind of tap0': 'ENOTTY', 'change the address of tap0': 'ENOTTY' },
    ...{
      'read the address of tap0': 'done',
      'read the MTU of tap0': 'done',
      'read the flags of tap0': 'done',
    },
    ...{ 'change the flags of tap0': 'ENOTTY', 'rename tap0': 'ENOTTY' },
    ...{ connect: 'EACCES', 'raw socket': 'EACCES', 'datagram socket': 'EACCES' },
    ...{ 'IPv6 datagram socket': 'EACCES', 'packet socket': 'EACCES' },
    ...{ 'netlink socket': 'EACCES', 'crypto socket': 'EACCES', 'pair of network sockets': 'EACCES' },
  });
  const without = await attacks.attack(['tap=tap0', 'port=1'], view);
  t.same(
    [...without].filter(([, outcome]) => outcome === 'done'),
    [],
    'without one, not even these',
  );
});

t.test('a jailed program that is given the device of page faults can use it', async (t) => {
  await using attacks = await openAttacks();
  const path = '/dev/userfaultfd';
  const isThere = existsSync(path);
  const outcomes = await attacks.attack(['faults'], {
    reads: [],
    writes: [],
    devices: isThere ? [path] : [],
  });
  t.same([...new Set(outcomes.values())], [isThere ? 'done' : 'EBADF']);
});

t.test('a jailed program has its files as they were meant, and no others', async (t) => {
  await using attacks = await openAttacks();
  const dir = join(attacks.dir, 'files');
  await mkdir(dir);
  const [read, hidden, own, made] = ['read', 'hidden', 'own', 'made'].map((name) => join(dir, name));
  if (!read || !hidden || !own || !made) throw new Error('four names');
  for (const path of [read, hidden, own]) await writeFile(path, 'text', { mode: 0o600 });
  await chmod(read, 0o666);
  const kinds = [read, hidden, own, made].map((path) => `file=${path}`);
  const outcomes = await attacks.attack(kinds, { reads: [read], writes: [own, made] });
  const of = (what: string) => [read, hidden, own, made].map((path) => outcomes.get(`${what} ${path}`));
  t.same(of('read'), ['done', 'ENOENT', 'done', 'done']);
  t.same(of('write'), ['EROFS', 'ENOENT', 'done', 'done']);
  t.ok((await stat(own)).uid >= TEST_UIDS.base, 'what it may write is its own');
  t.equal((await stat(made)).uid, (await stat(own)).uid, 'a file that was not there was made');
  t.equal((await stat(read)).uid, 0);
  await takeBack(own);
  t.match(await stat(own), { uid: 0, gid: 0 });
});

t.test('a jailed program makes nothing in a directory that it only holds', async (t) => {
  await using attacks = await openAttacks();
  const held = join(attacks.dir, 'held');
  const given = join(held, 'given');
  await mkdir(given, { recursive: true });
  await writeFile(join(held, 'secret'), 'text', { mode: 0o600 });
  const names = [join(held, 'secret'), join(held, 'new'), join(given, 'new')];
  const outcomes = await attacks.attack(
    names.flatMap((name) => [`file=${name}`, `make=${name}`]),
    { reads: [], writes: [given], holds: [held] },
  );
  t.same(
    names.map((name) => outcomes.get(`read ${name}`)),
    ['EACCES', 'ENOENT', 'ENOENT'],
  );
  t.same(
    names.map((name) => outcomes.get(`make ${name}`)),
    ['EEXIST', 'EACCES', 'done'],
  );
  for (const name of names) t.equal(outcomes.get(`lease ${name}`), 'EPERM');
  for (const name of names) t.equal(outcomes.get(`make a directory beside ${name}`), 'EPERM');
});

t.test(
  'a jailed program that writes without end goes on when its file is as large as it may be',
  async (t) => {
    await using attacks = await openAttacks();
    const path = join(attacks.dir, 'endless');
    const { process, logPath } = await attacks.start(
      '/bin/dd',
      ['if=/dev/urandom', `of=${path}`, 'bs=60000', 'count=100'],
      { reads: [], writes: [path] },
    );
    t.match(await end(process), { exitCode: 1, signal: null }, 'no signal has ended it');
    t.match(await readFile(logPath, 'utf8'), /File too large/);
    t.equal((await stat(path)).size, JAILED_FILE_BYTES);
  },
);

t.test('a jailed program cannot use more disk than its limit', async (t) => {
  await using attacks = await openAttacks();
  const path = join(attacks.dir, 'own');
  const free = join(attacks.dir, 'free');
  const outcomesOf = (outcomes: ReadonlyMap<string, string>): Record<string, string> =>
    Object.fromEntries([...outcomes].map(([name, outcome]) => [name.replace(/ \/\S+$/, ''), outcome]));
  const within = {
    ...{ 'reserve within': 'done', 'zero within': 'done', 'dig into': 'done', 'try a block behind': 'done' },
  };
  const outcomes = outcomesOf(await attacks.attack([`own=${path}`], { reads: [], writes: [path] }));
  t.same(outcomes, {
    ...within,
    ...{ 'reserve behind': 'EFBIG', 'zero behind': 'EFBIG', 'reserve far behind': 'EFBIG' },
    ...{ 'reserve around': 'EFBIG', 'insert into': 'EOPNOTSUPP' },
    ...{ 'have reserved': 'ENOTTY', mark: 'ENOTTY', 'count for another project': 'ENOTTY' },
  });
  t.ok((await stat(path)).blocks * 512 <= 2 * JAILED_FILE_BYTES);
  await writeFile(free, '');
  const asDaemon = outcomesOf(await attacks.attackAsDaemon([`own=${free}`]));
  t.match(asDaemon, {
    ...within,
    ...{ 'reserve behind': 'done', 'have reserved': 'done', 'insert into': 'done' },
  });
});

t.test('a jailed program has no unlimited kernel resources that are not accounted', async (t) => {
  await using attacks = await openAttacks();
  const jailed = await attacks.attack(['uncounted'], { reads: [], writes: [] });
  const locks = ['6', '7', '37', '38'];
  t.same(Object.fromEntries(jailed), {
    'have a policy for memory': 'ENOSYS',
    ...Object.fromEntries(locks.map((lock) => [`be granted lock ${lock}`, 'done'])),
    ...Object.fromEntries(locks.map((lock) => [`hold lock ${lock}`, 'ENOLCK'])),
    'filter a socket': 'EPERM',
    ...Object.fromEntries(['50', '51', '52'].map((name) => [`reach socket filters by ${name}`, 'EPERM'])),
  });
  const asDaemon = await attacks.attackAsDaemon(['uncounted']);
  t.same([...new Set(asDaemon.values())], ['done']);
});

t.test('what a program left in place of a file is not taken for it', async (t) => {
  await using attacks = await openAttacks();
  const link = join(attacks.dir, 'link');

  await symlink('/etc/shadow', link);
  await t.rejects(takeBack(link), { code: 'ELOOP' });
});

t.test('a program cannot be started where a part of its jail is missing', async (t) => {
  await using attacks = await openAttacks();
  const { process, logPath } = await attacks.start('/bin/sleep', ['600'], {
    reads: [],
    writes: [],
    devices: ['/dev/absent'],
  });
  t.match(await end(process), { exitCode: 125 });
  t.match(
    await readFile(logPath, 'utf8'),
    /^jail: cannot find the device \/dev\/absent: No such file or directory$/m,
  );
  await t.rejects(Jail.open({ program: '/bin/false', uids: TEST_UIDS, cgroups: TEST_CGROUPS }), {
    code: 'unsupported',
    message: /^guests are not started without a jail for their VMMs, and there can be none here: /,
  });
});
