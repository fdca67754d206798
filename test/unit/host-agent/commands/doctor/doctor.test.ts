// Checks of the doctor on made-up hosts: files in a directory, and programs that say what a host's would.
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { judgeEngines, judgeJail } from '../../../../../host-agent/src/commands/doctor/engines.ts';
import { type Group, realHost } from '../../../../../host-agent/src/commands/doctor/host.ts';
import { examine, renderGroup } from '../../../../../host-agent/src/commands/doctor/index.ts';
import { settings } from '../../../../../host-agent/src/commands/doctor/keys.ts';
import { cgroups, kernel, machine } from '../../../../../host-agent/src/commands/doctor/machine.ts';
import { network, RULES_CHECK } from '../../../../../host-agent/src/commands/doctor/network.ts';
import { limits, service } from '../../../../../host-agent/src/commands/doctor/service.ts';
import { storage } from '../../../../../host-agent/src/commands/doctor/storage.ts';
import { loadConfig } from '../../../../../host-agent/src/config/index.ts';
import { worstOf } from '../../../../../host-agent/src/lib/findings.ts';

type MadeUp = {
  readonly files?: Readonly<Record<string, string>>;
  /** What programs print, by their command line; others are absent. */
  readonly programs?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
};

/** Levels by name, of a group on such a host. */
async function ask(t: Test, group: Group, host: MadeUp) {
  return Object.fromEntries((await findings(t, group, host)).map(({ name, level }) => [name, level]));
}

async function findings(t: Test, group: Group, { files = {}, programs = {}, flags = [] }: MadeUp) {
  const root = mkdtempSync(join(tmpdir(), 'doctor-test-'));
  t.teardown(() => rmSync(root, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const loaded = loadConfig({ argv: flags, env: {}, engineNames: ['first'] });
  if (!('config' in loaded)) throw new Error('no configuration');
  const host = {
    ...realHost(loaded.config, root),
    run: async (...words: string[]) => programs[words.join(' ')],
  };
  const found = await examine(group, host, new AbortController().signal);
  for (const { level, advice, name } of found)
    t.equal(advice === undefined, level === 'ok', `${name}: advice for all that is not well, and only that`);
  return found;
}

t.test('the machine', async (t) => {
  const cpu = '/sys/devices/system/cpu';
  const good = {
    '/sys/devices/system/clocksource/clocksource0/current_clocksource': 'tsc\n',
    [`${cpu}/smt/active`]: '0\n',
    [`${cpu}/vulnerabilities/meltdown`]: 'Mitigation: PTI\n',
    '/sys/kernel/mm/ksm/run': '0\n',
    '/proc/swaps': 'Filename Type Size Used Priority\n',
  };
  const programs = { 'timedatectl show --property=NTPSynchronized --value': 'yes\n' };
  const all = ['clock', 'clock source', 'smt', 'microcode', 'ksm', 'swap'];
  const same = (level: string) => Object.fromEntries(all.map((name) => [name, level]));
  t.same(await ask(t, machine, { files: good, programs }), same('ok'));
  const bad = {
    '/sys/devices/system/clocksource/clocksource0/current_clocksource': 'hpet\n',
    [`${cpu}/smt/active`]: '1\n',
    [`${cpu}/vulnerabilities/mds`]: 'Vulnerable: Clear CPU buffers attempted, no microcode\n',
    '/sys/kernel/mm/ksm/run': '1\n',
    '/proc/swaps': 'Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n',
  };
  t.same(await ask(t, machine, { files: bad }), same('warning'));
});

t.test('the settings', async (t) => {
  t.same(await ask(t, settings, {}), { careless: 'ok' });
  const bad = [
    ['--jail-uid-base', '1000'],
    ['--network-allow-range', '0.0.0.0/0'],
    ['--network-subnet', '127.0.0.0/16'],
    ['--image-path-allow', '/'],
    ['--listen', 'unix:/run/x.sock', '--socket-mode', '777'],
  ].flat();
  t.same(await ask(t, settings, { flags: bad }), {
    jail_uid_base: 'fault',
    network_allow_range: 'fault',
    network_subnet: 'fault',
    image_path_allow: 'fault',
    socket_mode: 'warning',
  });
  for (const [flag = '', value = '', level = ''] of [
    ['--network-allow-range', '127.0.0.0/8', 'fault'],
    ['--network-allow-range', '0.0.0.0/8', 'fault'],
    ['--network-allow-range', '224.0.0.0/4', 'fault'],
    ['--network-allow-range', '10.0.0.0/7', 'fault'],
    ['--network-allow-range', '169.254.0.0/16', 'warning'],
    ['--network-subnet', '8.0.0.0/8', 'warning'],
  ])
    t.same(
      await ask(t, settings, { flags: [flag, value] }),
      { [flag.slice(2).replaceAll('-', '_')]: level },
      `${flag} ${value}`,
    );
});

t.test('the kernel', async (t) => {
  const files = (release: string, modules: string) => ({
    '/proc/sys/kernel/osrelease': release,
    '/sys/kernel/security/lsm': modules,
  });
  t.same(await ask(t, kernel, { files: files('6.1.0-56-amd64', 'lockdown,landlock') }), {
    version: 'ok',
    landlock: 'ok',
  });
  t.same(await ask(t, kernel, { files: files('5.10.0', 'lockdown') }), {
    version: 'warning',
    landlock: 'warning',
  });
  t.same(await ask(t, kernel, {}), { version: 'warning', landlock: 'warning' });
});

t.test('control groups', async (t) => {
  const path = '/sandboxd.slice/sandboxd-vmms.service';
  const files = {
    '/proc/mounts': 'proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n',
    '/sys/fs/cgroup/cgroup.controllers': 'cpuset cpu io memory pids',
    [`/sys/fs/cgroup${path}/cgroup.procs`]: '',
  };
  const show = 'systemctl show sandboxd-vmms.service --property=Delegate,ActiveState';
  const flags = ['--cgroup', path];
  const programs = { [show]: 'Delegate=yes\nActiveState=active\n' };
  const good = { version: 'ok', controllers: 'ok', delegation: 'ok' };
  t.same(await ask(t, cgroups, { files, flags, programs }), good);
  t.same(await ask(t, cgroups, { files }), good, 'a group of its own beside those of systemd');
  const taken = { [show]: 'Delegate=no\nActiveState=active\n' };
  t.match(await ask(t, cgroups, { files, flags, programs: taken }), { delegation: 'warning' });
  const poor = { ...files, '/sys/fs/cgroup/cgroup.controllers': 'cpu' };
  t.match(await ask(t, cgroups, { files: poor }), { controllers: 'warning' });
  t.match(await ask(t, cgroups, { files: poor, flags: ['--require-isolation'] }), { controllers: 'fault' });
  t.same(await ask(t, cgroups, {}), { version: 'warning' });
});

t.test('networks, and a firewall that is not ours', async (t) => {
  const files = { '/dev/net/tun': '', '/proc/sys/net/ipv4/ip_forward': '0\n' };
  const list = 'nft --json list chains';
  const trial = { [RULES_CHECK.join(' ')]: '' };
  const none = { [list]: '{"nftables": []}', ...trial };
  const good = { tun: 'ok', nftables: 'ok', forwarding: 'ok', firewall: 'ok' };
  t.same(await ask(t, network, { files, programs: none }), good);
  t.same(await ask(t, network, { files, programs: { [list]: none[list] } }), { ...good, nftables: 'fault' });
  const blind = { tun: 'fault', nftables: 'fault', forwarding: 'fault', firewall: 'warning' };
  t.same(await ask(t, network, {}), blind, 'what was not seen is not well');
  const chain = { family: 'ip', table: 'filter', name: 'FORWARD', hook: 'forward', policy: 'drop' };
  const docker = { [list]: JSON.stringify({ nftables: [{ chain }] }), ...trial };
  t.match(await ask(t, network, { files, programs: docker }), { firewall: 'warning' });
  const older = { ...files, '/proc/net/ip_tables_names': 'nat\nfilter\n' };
  const legacy = { ...none, 'iptables-legacy -S FORWARD': '-P FORWARD DROP\n' };
  t.match(await ask(t, network, { files: older, programs: legacy }), { firewall: 'warning' });
  t.match(
    await ask(t, network, { files, programs: legacy }),
    { firewall: 'ok' },
    'no such rules are in force',
  );
});

t.test('limits', async (t) => {
  const files = (count: string, pids: string) => ({
    '/proc/self/limits': `Max open files            ${count}               ${count}               files\n`,
    '/proc/sys/kernel/pid_max': pids,
    '/proc/sys/kernel/threads-max': '192730',
  });
  t.same(await ask(t, limits, { files: files('1048576', '4194304') }), {
    descriptors: 'ok',
    processes: 'ok',
  });
  t.same(await ask(t, limits, { files: files('8192', '1000') }), {
    descriptors: 'warning',
    processes: 'warning',
  });
  t.match(await ask(t, limits, { files: files('1024', '4194304') }), { descriptors: 'fault' });
  const unit = 'systemctl show sandboxd.service --property=MainPID,LimitNOFILE';
  const waiting = { [unit]: 'MainPID=0\nLimitNOFILE=1048576\n' };
  t.match(await ask(t, limits, { files: files('1024', '4194304'), programs: waiting }), {
    descriptors: 'ok',
  });
  const running = { [unit]: 'MainPID=7\nLimitNOFILE=1048576\n' };
  const own = { ...files('1048576', '4194304'), '/proc/7/limits': 'Max open files 1024 1024 files\n' };
  t.match(await ask(t, limits, { files: own, programs: running }), { descriptors: 'fault' });
});

t.test('the unit of systemd', async (t) => {
  const names =
    'LoadState,ActiveState,SubState,UnitFileState,KillMode,WatchdogUSec,Type,PrivateTmp,PrivateDevices,PrivateMounts,ProtectSystem,ProtectHome,ProtectKernelTunables,ProtectKernelModules,ProtectKernelLogs,ProtectControlGroups';
  const files = { '/run/systemd/system/x': '' };
  const unit = (text: string) => ({
    files,
    programs: { [`systemctl show sandboxd.service --property=${names}`]: text.replaceAll(' ', '\n') },
  });
  const good = 'LoadState=loaded ActiveState=active SubState=running UnitFileState=enabled KillMode=process';
  const well = { state: 'ok', 'at boot': 'ok', 'kill mode': 'ok', mounts: 'ok' };
  t.same(await ask(t, service, unit(`${good} PrivateTmp=no ProtectSystem=no`)), well);
  const changed = good.replace('active', 'failed').replace('enabled', 'disabled').replace('process', 'mixed');
  t.same(await ask(t, service, unit(`${changed} PrivateTmp=yes`)), {
    ...{ state: 'fault', 'at boot': 'warning', 'kill mode': 'fault', mounts: 'fault' },
  });
  const listener = (uid: number) => ({
    '/proc/self/stat': '',
    '/proc/net/tcp': `  sl\n   0: 0100007F:0001 00000000:0000 0A 00000000:00000000 00:00000000 00000000  ${uid}        0 1 1\n`,
  });
  const { programs } = unit(good);
  const answerOf = async (uid: number) => {
    const host = { files: { ...files, ...listener(uid) }, programs, flags: ['--listen', '127.0.0.1:1'] };
    const [answer] = (await findings(t, service, host)).filter(({ name }) => name === 'answer');
    return answer?.seen;
  };
  t.match(
    await answerOf(64_999),
    /user 64999 listens there, and not the daemon/,
    'what anybody can answer is not believed',
  );
  t.match(await answerOf(0), /ECONNREFUSED|bad port/, 'one of root’s is asked');
  t.same(await ask(t, service, { files }), { unit: 'warning' });
  t.same(await ask(t, service, {}), { systemd: 'warning' });
});

t.test('the disk, which is a real one', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'doctor-data-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const seen = await ask(t, storage, { flags: ['--data-dir', join(dir, 'not/yet')] });
  t.same(Object.keys(seen), [
    ...['data directory', 'run directory', 'file system', 'reflinks', 'room', 'key of secrets'],
  ]);
  t.equal(seen['data directory'], 'ok');
  const none = await ask(t, storage, { flags: ['--data-dir', '/proc/none'] });
  t.match(none, { reflinks: 'fault', room: 'fault' });
  // What the daemon refuses is a fault, what it mends a warning.
  const dataDirectory = async (path: string) =>
    (await ask(t, storage, { flags: ['--data-dir', path] }))['data directory'];
  const file = join(dir, 'file');
  writeFileSync(file, '');
  t.equal(await dataDirectory(file), 'fault');
  t.equal(await dataDirectory(join(file, 'below')), 'fault');
  const open = join(dir, 'open');
  mkdirSync(open, { mode: 0o755 });
  t.equal(await dataDirectory(open), 'warning');
  writeFileSync(join(open, 'text'), '');
  t.equal(await dataDirectory(open), 'fault');
  chmodSync(open, 0o700);
  t.equal(await dataDirectory(open), 'ok');
  chownSync(open, 1234, 1234);
  t.equal(await dataDirectory(open), 'fault');
  const within = await ask(t, storage, { flags: ['--data-dir', join(open, 'data')] });
  t.match(
    within,
    { 'data directory': 'fault', reflinks: 'warning' },
    'nothing is tried where others can change it',
  );
  mkdirSync(join(open, 'data'), { mode: 0o700 });
  t.equal(await dataDirectory(join(open, 'data')), 'fault', 'nor does the daemon take it');
  const full = join(dir, 'full');
  mkdirSync(full, { mode: 0o700 });
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k,nr_inodes=1', 'none', full]);
  t.teardown(() => execFileSync('umount', [full]));
  t.match(await ask(t, storage, { flags: ['--data-dir', full] }), { reflinks: 'fault', room: 'fault' });
});

t.test('engines: what does not work is no harm where a better one does', async (t) => {
  const engine = (accelerator: string) => ({ name: 'e', accelerator, isEmulation: accelerator === 'soft' });
  const works = { isUsable: true, version: '1', detail: 'd' } as const;
  const fails = { isUsable: false, reason: 'no' } as const;
  const levels = (
    fast: typeof works | typeof fails,
    soft: typeof works | typeof fails,
    requiresIsolation = false,
  ) =>
    judgeEngines(
      [
        { engine: engine('hard'), probe: fast },
        { engine: engine('soft'), probe: soft },
      ],
      { engine: 'auto', requiresIsolation },
    ).map(({ level }) => level);
  t.same(levels(works, works), ['ok', 'ok']);
  t.same(levels(works, fails), ['ok', 'ok']);
  t.same(levels(fails, works), ['warning', 'warning']);
  t.same(levels(fails, works, true), ['fault', 'fault'], 'emulation is no isolation');
  t.same(levels(fails, fails), ['fault', 'fault']);
  t.equal(judgeJail({ enabled: true, missing: [] }, true).level, 'ok');
  t.equal(judgeJail({ enabled: true, missing: ['x'] }, false).level, 'warning');
  t.equal(judgeJail({ enabled: true, missing: ['x'] }, true).level, 'fault');
  t.equal(judgeJail({ enabled: false, missing: [] }, false).level, 'warning');
});

t.test('the worst is what counts, and a check that breaks is a fault', async (t) => {
  const broken: Group = { name: 'broken', check: () => Promise.reject(new Error('why')) };
  t.same(await ask(t, broken, {}), { broken: 'fault' });
  const of = (...levels: ('ok' | 'warning' | 'fault')[]) => [
    { group: 'g', findings: levels.map((level) => ({ name: 'n', level, seen: 's' })) },
  ];
  t.equal(worstOf(of()), 'ok');
  t.equal(worstOf(of('ok', 'warning', 'ok')), 'warning');
  t.equal(worstOf(of('warning', 'fault')), 'fault');
  const text = renderGroup('g', [{ name: 'n', level: 'fault', seen: 'seen', advice: 'do this' }]);
  t.match(text, /^g\n {2}fault +n +seen\n +→ do this\n$/);
});
