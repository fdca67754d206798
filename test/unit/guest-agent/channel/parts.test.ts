// The agent's pure parts: users, programs, failures, usage, ports, identity.
import '../support/addon-dir.ts';
import { mkdirSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { parseMountTargets } from '../../../../guest-agent/src/boot/mounts.ts';
import { findSerialPort } from '../../../../guest-agent/src/channel/ports.ts';
import {
  completeEnvironment,
  DEFAULT_PATH,
  environmentValue,
  programCandidates,
} from '../../../../guest-agent/src/exec/environment.ts';
import { describeSpawnFailure, parseSpawnFailure } from '../../../../guest-agent/src/exec/spawn-failure.ts';
import { keyedNumber, sumIo, toResourceUsage, wasOomKilled } from '../../../../guest-agent/src/exec/usage.ts';
import { resolveUser } from '../../../../guest-agent/src/exec/users.ts';
import { signalName, signalNumber } from '../../../../guest-agent/src/lib/signals.ts';
import { checkIdentity, nameInHosts } from '../../../../guest-agent/src/machine/identity.ts';
import { kibibyteField } from '../../../../guest-agent/src/machine/stats.ts';
import { parseUnifiedPath } from '../../../../guest-agent/src/reap/reaper.ts';

t.test('a user is found in the guest’s files', async (t) => {
  const files = {
    passwd:
      'root:x:0:0:root:/root:/bin/sh\nada:x:1000:100:Ada:/home/ada:/bin/sh\n7:x:70:70::/seven:\nbroken\n',
    group: 'root:x:0:\nusers:x:100:\nwheel:x:10:root,ada\naudio:x:29:ada\n',
  };
  const user = (spec: string) => resolveUser(spec, files);
  t.strictSame(user(''), { user: { uid: 0, gid: 0, groups: [0, 10], home: '/root' } });
  t.strictSame(user('ada'), { user: { uid: 1000, gid: 100, groups: [100, 10, 29], home: '/home/ada' } });
  t.strictSame(user('1000'), user('ada'));
  t.strictSame(user('ada:audio'), { user: { uid: 1000, gid: 29, groups: [29], home: '/home/ada' } });
  t.strictSame(user('ada:5'), { user: { uid: 1000, gid: 5, groups: [5], home: '/home/ada' } });
  t.strictSame(
    user('4242'),
    { user: { uid: 4242, gid: 0, groups: [0], home: '/' } },
    'a number needs no entry',
  );
  t.match(user('7'), { user: { uid: 70 } }, 'a name that looks like a number is a name');
  for (const [spec, error] of [
    ['bob', /no user "bob"/],
    ['ada:bobs', /no group "bobs"/],
    [':audio', /is not name\|uid/],
    ['ada:', /is not name\|uid/],
    ['4294967295', /no user/],
  ] as const) {
    t.match(user(spec), { error }, spec);
  }
  t.match(
    resolveUser('', { passwd: '', group: '' }),
    { user: { uid: 0, gid: 0, home: '/root' } },
    'an empty image',
  );
});

t.test('a program is looked for where the shell would', async (t) => {
  t.strictSame(programCandidates('ls', '/a:/b'), ['/a/ls', '/b/ls']);
  t.strictSame(programCandidates('ls', '/a::'), ['/a/ls', './ls', './ls']);
  t.strictSame(programCandidates('./ls', '/a'), ['./ls']);
  t.strictSame(programCandidates('', '/a'), []);
});

t.test('an environment is completed, never changed', async (t) => {
  t.strictSame(completeEnvironment([], '/h', false), [`PATH=${DEFAULT_PATH}`, 'HOME=/h']);
  t.strictSame(completeEnvironment(['PATH=', 'HOME=/x', 'TERM=vt100'], '/h', true), [
    'PATH=',
    'HOME=/x',
    'TERM=vt100',
  ]);
  t.equal(environmentValue(['A=1', 'AB=2', 'A=3=4'], 'A'), '3=4');
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[A-Z]{1,3}=[a-z=]{0,3}$/)), (env) =>
      completeEnvironment(env, '/h', true)
        .slice(0, env.length)
        .every((entry, i) => entry === env[i]),
    ),
  );
});

t.test('a failed start is explained', async (t) => {
  const attempt = { program: 'x', cwd: '/w', path: '/p' };
  const explain = (result: number) => describeSpawnFailure(parseSpawnFailure(result), attempt);
  t.strictSame(parseSpawnFailure(-7002), { stage: 'program', code: 'ENOENT' });
  t.match(explain(-7002), /^command not found: "x" is not in PATH \(\/p\)/);
  t.match(explain(-7008), /unknown format/);
  t.match(explain(-7007), /^argument list too long/);
  t.match(explain(-7040), /"x" cannot be executed: ELOOP/);
  t.match(explain(-6013), /^working directory "\/w" is not accessible/);
  t.match(explain(-1011), /no more processes/);
  t.match(explain(-1038), /clone3/);
  t.match(explain(-5001), /\(user\): EPERM/);
});

t.test('usage is the most complete of what the kernel counted', async (t) => {
  t.equal(keyedNumber('usage_usec 9\nuser_usec 5\nsystem_usec 4\n', 'user_usec'), 5);
  t.equal(keyedNumber('user_usec 5\n', 'user_usec'), 5);
  t.equal(keyedNumber('nr_user_usec 5\n', 'user_usec'), 0);
  t.equal(keyedNumber('', 'user_usec'), 0);
  t.equal(sumIo('254:0 rbytes=10 wbytes=1 rios=3\n254:16 rbytes=5 wbytes=2\n', 'rbytes'), 15);
  const counted = {
    cpuStat: 'usage_usec 30\nuser_usec 20\nsystem_usec 10\n',
    memoryPeak: '4096\n',
    memoryStat: 'anon 1\npgfault 10\npgmajfault 3\n',
    memoryEvents: 'low 0\noom 1\noom_kill 1\noom_group_kill 0\n',
    ioStat: '254:0 rbytes=512 wbytes=0\n',
    processes: {
      cpuUserUs: 25,
      cpuSystemUs: 1,
      majorFaults: 1,
      involuntarySwitches: 6,
      readBytes: 0,
      writtenBytes: 1024,
    },
  };
  t.strictSame(toResourceUsage(counted), {
    cpuUserUs: 25,
    cpuSysUs: 10,
    peakMemoryBytes: 4096,
    pageFaultsMajor: 3,
    contextSwitchesInvoluntary: 6,
    ioReadBytes: 512,
    ioWriteBytes: 1024,
  });
  t.ok(wasOomKilled(counted));
  t.notOk(wasOomKilled({ ...counted, memoryEvents: 'oom 1\noom_kill 0\n' }));
});

t.test('signals have their Linux names', async (t) => {
  t.equal(signalNumber('SIGKILL'), 9);
  t.equal(signalNumber('KILL'), undefined);
  t.equal(signalName(6), 'SIGABRT');
  t.equal(signalName(29), 'SIGIO');
  t.equal(signalName(35), 'SIGRTMIN+1');
  for (let number = 1; number <= 31; number++) t.equal(signalNumber(signalName(number)), number);
});

t.test('the serial port is found by the name that the host gave it', async (t) => {
  const root = t.testdir({});
  t.equal(findSerialPort('sandbox.agent', root), undefined);
  for (const [port, name] of [
    ['vport1p1', 'other\n'],
    ['vport2p3', 'sandbox.agent\n'],
  ] as const) {
    mkdirSync(`${root}/sys/class/virtio-ports/${port}`, { recursive: true });
    writeFileSync(`${root}/sys/class/virtio-ports/${port}/name`, name);
  }
  mkdirSync(`${root}/sys/class/virtio-ports/vport0p0`);
  t.equal(findSerialPort('sandbox.agent', root), `${root}/dev/vport2p3`);
});

t.test('an identity is checked, and the host name takes its place', async (t) => {
  const identity = {
    sandboxId: 'sbx_1',
    hostname: 'sbx-1',
    machineId: 'a'.repeat(32),
    entropy: new Uint8Array(32),
    unixTimeUs: 1,
    entersRoot: false,
    joinsAgent: false,
  };
  t.doesNotThrow(() => checkIdentity(identity));
  for (const wrong of [
    { hostname: 'A' },
    { hostname: '' },
    { machineId: 'x' },
    { entropy: new Uint8Array(31) },
    { entropy: new Uint8Array(513) },
    { unixTimeUs: 0 },
  ]) {
    t.throws(() => checkIdentity({ ...identity, ...wrong }), { code: 'invalid' });
  }
  const network = {
    ...{ mac: '02:00:00:00:00:02', gatewayMac: '02:00:00:00:00:01', prefixLength: 30 },
    ...{ address: '10.0.0.2', gateway: '10.0.0.1', dns: '10.0.0.1' },
  };
  t.doesNotThrow(() => checkIdentity({ ...identity, network }));
  for (const wrong of [
    { mac: '02:00:00:00:00' },
    { gatewayMac: '02:00:00:00:00:0G' },
    { address: '10.0.0' },
    { gateway: 'fe80::1' },
    { dns: '10.0.0.1\nsearch evil.example' },
    { prefixLength: 0 },
    { prefixLength: 32 },
  ]) {
    t.throws(() => checkIdentity({ ...identity, network: { ...network, ...wrong } }), { code: 'invalid' });
  }
  const once = nameInHosts('', 'one');
  t.match(once, /^127\.0\.0\.1 localhost\n::1 localhost\n127\.0\.1\.1 one /);
  t.equal(nameInHosts(nameInHosts(once, 'two'), 'one'), once, 'the name before is replaced');
  t.match(
    nameInHosts('127.0.0.1 localhost\n10.0.0.1 db\n', 'one'),
    /^127\.0\.0\.1 localhost\n10\.0\.0\.1 db\n127\.0\.1\.1 one/,
  );
});

t.test('files of /proc are read', async (t) => {
  t.equal(kibibyteField('Rss:     12 kB\nPss_Anon:  7 kB\nPss:   9 kB\n', 'Pss'), 9 * 1024);
  t.equal(kibibyteField('', 'Pss'), 0);
  t.equal(parseUnifiedPath('1:name=x:/y\n0::/exec/12/sub (deleted)\n'), 'exec/12/sub');
  t.equal(parseUnifiedPath(''), '');
  t.strictSame(
    parseMountTargets('proc /proc proc rw 0 0\nx /a\\040b y rw 0 0\n\n'),
    new Set(['/proc', '/a\\040b']),
  );
});
