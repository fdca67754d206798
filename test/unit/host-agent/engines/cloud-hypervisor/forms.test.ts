// Formats of data that is written for the VMM and read from it.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import {
  ApiError,
  isNoVm,
  isStillRestoring,
  parseReasons,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/api.ts';
import {
  hasPanicked,
  hasPowerOff,
  hasReset,
  hasShutDown,
  parseEvents,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/events.ts';
import {
  apiSocketOf,
  vmmArguments,
  vmmFiles,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/files.ts';
import {
  judgeVersion,
  landlockObstacle,
  readVersion,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/probe.ts';
import { hasNet, patchConfig } from '../../../../../host-agent/src/engines/cloud-hypervisor/restore.ts';
import {
  buildVmConfig,
  landlockRules,
} from '../../../../../host-agent/src/engines/cloud-hypervisor/vm-config.ts';
import type { VmSpec } from '../../../../../host-agent/src/engines/engine.ts';

const files = vmmFiles({ dir: '/s/x', socketDir: '/r/x' });
const spec: VmSpec = {
  vcpus: 3,
  memoryMib: 300,
  kernelPath: '/k/vmlinux',
  initramfsPath: '/k/initramfs',
  bootArgs: 'mine=1',
  disks: [
    { path: '/p/root', isReadOnly: true },
    { path: '/s/layer', isReadOnly: false },
  ],
};
const net = { namespace: '/n/a', mac: '02:00:00:00:00:02', tap: 'tap0' };

t.test('reasons are one line each, whatever form a refusal has', async (t) => {
  for (const [body, reasons] of [
    ['', []],
    [' \n ', []],
    ['[]', []],
    ['["a", "", "  "]', ['a']],
    [' ["a\\n  b\\t\\tc"] ', ['a b c']],
    ['[1, null]', ['1', 'null']],
    ['{"error": " x\\ny "}', ['x y']],
    ['{"error": {}}', ['[object Object]']],
    ['{"other": "x"}', ['{"other": "x"}']],
    ['null', ['null']],
    ['"error"', ['"error"']],
    ['7', ['7']],
    ['{ "error": "one.\ntwo" }', ['one. two']],
    ['{\n"error"\n:\n"one.\ntwo"\n}', ['one. two']],
    ['{"error":"one.\ntwo"}', ['one. two']],
    ['x{"error":"one\n"}', ['x{"error":"one "}']],
    ['{"error":"one\n"}x', ['{"error":"one "}x']],
    ['<html>\n</html>', ['<html> </html>']],
    [JSON.stringify(['a\n\nStack backtrace:\n 0: x']), ['a']],
    [JSON.stringify(['a\n \t Stack backtrace:\n 0: x\n 1: y']), ['a']],
    [JSON.stringify(['a\nStack backtrace:']), ['a']],
    [JSON.stringify(['a Stack backtrace: 0']), ['a Stack backtrace: 0']],
  ] as const)
    t.same(parseReasons(body), reasons, body);
  t.same(parseReasons(JSON.stringify(['x'.repeat(3000)])), ['x'.repeat(2000)]);
});

t.test('a refusal is recognised by its status and each of its reasons', async (t) => {
  t.match(new ApiError('vm.boot', 500, ['a', 'b']), {
    ...{ name: 'ApiError', message: 'vm.boot: a: b', status: 500, reasons: ['a', 'b'], isDiskFull: false },
  });
  t.equal(new ApiError('vm.boot', 500, []).message, 'vm.boot: status 500 without a reason');
  const says = (...reasons: string[]) => new ApiError('x', 500, reasons);
  t.ok(says('a', 'b').says(/^b$/));
  t.notOk(says('a', 'b').says(/^c$/));
  t.notOk(says().says(/^$/));
  t.ok(isNoVm(new ApiError('vm.info', 404, [])));
  t.ok(isNoVm(says('a', 'VM is not created')));
  t.notOk(isNoVm(says('VM is not running')));
  t.notOk(isNoVm(Object.assign(new Error('VM is not created'), { status: 404 })));
  t.ok(isStillRestoring(says('a', 'Memory restore is still in progress')));
  t.ok(isStillRestoring(says('Restore Is Still In Progress')));
  t.notOk(isStillRestoring(says('a')));
  t.notOk(isStillRestoring(new Error('restore is still in progress')));
});

t.test('a version is the first line’s, and as new as it must be', async (t) => {
  const judge = (text: string) => judgeVersion('/x/p', text);
  for (const [text, version] of [
    ['cloud-hypervisor v53.0', '53.0'],
    ['cloud-hypervisor v53.0.1-dirty\nother v1.0', '53.0.1-dirty'],
    ['cloud-hypervisor 53.12', '53.12'],
    ['v100.0 x', '100.0'],
    ['v54.0', '54.0'],
    ['54.0', '54.0'],
  ] as const)
    t.same(judge(text), { isUsable: true, version });
  for (const old of ['52.9', '9.99', '0.0'])
    t.same(judge(`cloud-hypervisor v${old}\nv53.0`), {
      isUsable: false,
      reason: `/x/p is version ${old}; at least 53.0 is needed`,
    });
  for (const none of ['', 'none\nv53.0', 'v53', 'va53.0', 'x53.0', 'v53.x'])
    t.same(judge(none), { isUsable: false, reason: `/x/p tells no version: ${none.split('\n')[0]}` });
  t.same(judge('y'.repeat(100)), { isUsable: false, reason: `/x/p tells no version: ${'y'.repeat(80)}` });
});

t.test('a program is asked for its version', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'version-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const program = join(dir, 'p');
  const write = (script: string): void => writeFileSync(program, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  write('test "$*" = --version && echo cloud-hypervisor v53.1');
  t.same(await readVersion(program), { isUsable: true, version: '53.1' });
  write('echo >&2 "no such thing "; exit 3');
  t.same(await readVersion(program), {
    isUsable: false,
    reason: `${program} does not run: Command failed: ${program} --version\nno such thing`,
  });
  chmodSync(program, 0o644);
  t.match(await readVersion(program), { isUsable: false, reason: /^\S+ does not run: spawn \S+ EACCES$/ });
  rmSync(program);
  t.same(await readVersion(program), {
    isUsable: false,
    reason: `${program} is not installed; docs/install.md says how to get it`,
  });
});

t.test('Landlock confines the VMM from kernel 6.2 on, unless it is disabled', async (t) => {
  const modules = (): string => 'lockdown,capability,landlock\n';
  const old = (kernel: string): string => `kernel ${kernel} is older than 6.2`;
  for (const kernel of ['6.2.0', '6.2', '6.12.3-amd64', '7.0.1', '10.1', '6.2-rc1'])
    t.equal(landlockObstacle(kernel, modules), undefined, kernel);
  for (const kernel of ['6.1.99', '5.15.0', '5.3', '0.0', '6'])
    t.equal(landlockObstacle(kernel, modules), old(kernel), kernel);
  const none = 'landlock is not among the security modules of this kernel';
  for (const text of ['', '\n', 'lockdown,xlandlock', 'landlocked\n'])
    t.equal(
      landlockObstacle('6.2.0', () => text),
      none,
      text,
    );
  t.equal(
    landlockObstacle('6.2.0', () => ' landlock\n'),
    undefined,
  );
  t.equal(
    landlockObstacle('6.2.0', () => undefined),
    undefined,
    'only trying would tell',
  );
  // The list of this host's security modules, if it is readable.
  const path = '/sys/kernel/security/lsm';
  const own = existsSync(path) ? readFileSync(path, 'latin1') : undefined;
  t.equal(
    landlockObstacle('6.2.0'),
    landlockObstacle('6.2.0', () => own),
  );
  t.equal(
    landlockObstacle(),
    landlockObstacle(release(), () => own),
  );
});

t.test('events are parsed into their kinds', async (t) => {
  const event = (source: string, name: string) => ({ source, event: name });
  const all = [
    ...[event('vm', 'rebooting'), event('vmm', 'shutdown'), event('vm', 'shutdown'), event('vm', 'deleted')],
    ...[event('guest', 'panic'), event('vm', 'booted'), event('x', 'rebooting'), event('vmm', 'deleted')],
  ];
  for (const [has, expected] of [
    [hasReset, [0]],
    [hasPowerOff, [1]],
    [hasShutDown, [2, 3]],
    [hasPanicked, [4]],
  ] as const) {
    t.same(
      all.flatMap((each, at) => (has([each]) ? [at] : [])),
      expected,
    );
    t.ok(has(all));
    t.notOk(has([]));
  }
  const text = (name: string) => `{\n  "source": "vm",\n  "event": "${name}"\n}`;
  t.same(parseEvents(`${text('a')}\n\n${text('b')}\n \t\n${text('c')}\n\n\n\n{"sou`), [
    ...[event('vm', 'a'), event('vm', 'b'), event('vm', 'c')],
  ]);
  t.same(parseEvents('null\n\n{}\n\n7'), [event('undefined', 'undefined'), event('undefined', 'undefined')]);
});

t.test('a process is known by its control socket', async (t) => {
  t.same(vmmFiles({ dir: '/s/x', socketDir: '/r/x' }), {
    ...{ dir: '/s/x', socketDir: '/r/x', controlSocketPath: '/r/x/api.sock' },
    ...{ vsockPath: '/r/x/vsock.sock', eventsPath: '/s/x/events.json', consolePath: '/s/x/console.log' },
    ...{ logPath: '/s/x/vmm.log', startDir: '/s/x/start', startKernelPath: '/s/x/start/kernel' },
    ...{ earlyConsolePath: '/s/x/start/console', growingPaths: ['/s/x/events.json'] },
    socketPaths: ['/r/x/api.sock', '/r/x/api.sock.lock', '/r/x/vsock.sock'],
  });
  for (const name of ['a,b', 'a"b', 'a[b', 'a]b'])
    t.equal(
      vmmArguments(vmmFiles({ dir: '/s', socketDir: `/r/${name}` }))[1],
      `path="/r/${name.replace('"', '""')}/api.sock"`,
    );
  t.equal(vmmArguments(files)[1], 'path=/r/x/api.sock');
  const of = (option: string, name = 'cloud-hypervisor') => apiSocketOf([name, 'x', '--api-socket', option]);
  t.equal(of('path=/r/api.sock'), '/r/api.sock');
  t.equal(of('path=/r/api.sock', '/usr/bin/cloud-hypervisor'), '/r/api.sock');
  t.equal(of('path="/r/a""b,""/api.sock"'), '/r/a"b,"/api.sock');
  for (const other of [
    '/r/api.sock',
    'path=api.sock',
    'path=/r/other',
    'path=/rapi.sockx',
    'xpath=/api.sock',
  ])
    t.equal(of(other), undefined, other);
  t.equal(of('path="/r/api.sock'), undefined);
  t.equal(of('path="/r/api.sock"x'), undefined);
  t.equal(of('path=/r/api.sock', 'cloud-hypervisor-2'), undefined);
  t.equal(apiSocketOf(['cloud-hypervisor']), undefined);
  t.equal(apiSocketOf([]), undefined);
});

t.test('a VM has what its spec says', async (t) => {
  const config = buildVmConfig({ spec: { ...spec, net }, files, hasLandlock: true, isDirect: true });
  const { payload, ...rest } = config;
  t.match(payload, { kernel: '/s/x/start/kernel', initramfs: '/k/initramfs' });
  t.match(payload.cmdline, / reboot=k clocksource=kvm-clock sandbox\.disk-errors mine=1$/);
  const disk = { image_type: 'Raw', num_queues: 1, queue_size: 128 };
  t.same(rest, {
    cpus: { boot_vcpus: 3, max_vcpus: 3, nested: false },
    memory: { size: 300 * 2 ** 20, shared: false },
    disks: [
      { id: 'disk0', path: '/p/root', readonly: true, direct: false, ...disk },
      { id: 'disk1', path: '/s/layer', readonly: false, direct: true, ...disk },
    ],
    net: [{ id: 'net0', tap: 'tap0', mac: net.mac, num_queues: 2, queue_size: 256 }],
    vsock: { id: 'vsock0', cid: 3, socket: '/r/x/vsock.sock' },
    serial: { mode: 'File', file: '/s/x/start/console' },
    console: { mode: 'Off' },
    landlock_enable: true,
    landlock_rules: ['/s/x', '/r/x', '/dev/net/tun'].map((path) => ({ path, access: 'rw' })),
  });
  const plain = buildVmConfig({ spec, files, hasLandlock: false, isDirect: false });
  t.same(
    plain.disks.map(({ direct }) => direct),
    [false, false],
  );
  t.same(landlockRules(files, spec), [
    { path: '/s/x', access: 'rw' },
    { path: '/r/x', access: 'rw' },
  ]);
  t.notOk('net' in plain || 'landlock_rules' in plain || plain.landlock_enable);
});

t.test('a copy’s configuration is its source’s, but for its files', async (t) => {
  const saved = (): Record<string, unknown> => ({
    disks: [
      { id: 'disk1', path: '/old/layer', readonly: false, direct: false, own: 1 },
      { id: 'disk0', path: '/old/root', readonly: true, direct: true },
    ],
    net: [{ id: 'net0', tap: 'old', host_mac: 'x', mac: 'y' }],
    vsock: { socket: '/old', cid: 3 },
    serial: { file: '/old', mode: 'File' },
    payload: { kernel: '/old', initramfs: '/old', cmdline: 'c' },
    landlock_rules: ['old'],
    ...{ landlock_enable: false, other: [0] },
  });
  const options = { spec: { ...spec, net }, files, hasLandlock: true, isDirect: true };
  const config = saved();
  patchConfig(config, options);
  t.same(config, {
    disks: [
      { id: 'disk1', path: '/s/layer', readonly: false, direct: true, own: 1 },
      { id: 'disk0', path: '/p/root', readonly: true, direct: false },
    ],
    net: [{ id: 'net0', tap: 'tap0', mac: 'y' }],
    vsock: { socket: '/r/x/vsock.sock', cid: 3 },
    serial: { file: '/s/x/start/console', mode: 'File' },
    payload: { kernel: '/s/x/start/kernel', initramfs: '/k/initramfs', cmdline: 'c' },
    landlock_rules: landlockRules(files, options.spec),
    ...{ landlock_enable: true, other: [0] },
  });
  patchConfig(config, { ...options, hasLandlock: false, isDirect: false });
  t.notOk('landlock_rules' in config);
  t.match(config, { landlock_enable: false, disks: [{ direct: false }, { direct: false }] });
  t.ok(hasNet(config));
  for (const none of [undefined, null, [], {}, 'net0']) t.notOk(hasNet({ net: none }));
  const start = 'the saved VM does not fit this sandbox: it has ';
  for (const [change, what, without] of [
    [{ disks: [] }, '0 disks, not 2'],
    [{ disks: null }, '0 disks, not 2'],
    [{ disks: [{ id: 'disk0' }, { id: 'disk2' }] }, 'no disk1'],
    [{ vsock: null }, 'no vsock'],
    [{ vsock: [] }, 'no vsock'],
    [{ serial: 'x' }, 'no serial'],
    [{ payload: undefined }, 'no payload'],
    [{ net: [{ id: 'x' }] }, 'a network device "x"'],
    [{}, 'a network device', true],
  ] as const)
    t.throws(
      () =>
        patchConfig({ ...saved(), ...change }, { ...options, spec: without === true ? spec : options.spec }),
      { code: 'internal', message: `${start}${what}`, details: { stage: 'restore' } },
      what,
    );
});
