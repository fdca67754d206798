// Settings that give away what the daemon protects: refused or logged by the start.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { findWeakSettings, refuseWeakSettings } from '../../../../host-agent/src/app/weak-settings.ts';
import { type Config, loadConfig } from '../../../../host-agent/src/config/index.ts';
import { DAEMON_PROGRAM } from '../../../support/leftovers.ts';

const FILES: Readonly<Record<string, string>> = {
  '/etc/passwd': 'root:x:0:0::/root:/bin/bash\n+nis::::::\nfar:x:200005:200005::/:/bin/sh\n',
  '/etc/subuid': '# ids of containers\nme:300000:65536\n',
  '/etc/group': 'root:x:0:\nfargroup:x:500005:\n',
  '/etc/subgid': 'you:600000:65536\n',
};

function configOf(...flags: readonly string[]): Config {
  const loaded = loadConfig({ argv: flags, env: {}, engineNames: ['first'] });
  if (!('config' in loaded)) throw new Error('no configuration');
  return loaded.config;
}

/** Levels and what was seen, each as one text. */
function find(flags: readonly string[], hasKey = false): readonly string[] {
  return findWeakSettings(configOf(...flags), { read: (path) => FILES[path], hasKey }).map(
    ({ setting, level, seen }) => `${level} ${setting} ${seen}`,
  );
}

t.test('settings that cause no warning', (t) => {
  for (const flags of [
    [],
    ['--jail-uid-base', '100000'],
    ['--insecure-no-jail', '--jail-uid-base', '1000'],
    ['--network-allow-range', '10.0.0.0/8'],
    ['--network-allow-range', '192.168.1.7'],
    ['--network-subnet', '10.87.0.0/16'],
    ['--image-path-allow', '/srv/images'],
    ['--image-path-allow', '/root/images'],
    ['--image-path-allow', '/var/lib/images'],
    ['--image-path-allow', '/etcetera'],
    ['--listen', 'unix:/run/x.sock', '--socket-mode', '660'],
    ['--listen', 'unix:/run/x.sock', '--socket-mode', '775'],
  ])
    t.strictSame(find(flags), [], flags.join(' '));
  t.strictSame(find(['--listen', 'unix:/run/x.sock', '--socket-mode', '777'], true), []);
  t.end();
});

t.test('what is refused, and what is logged', (t) => {
  const cases: readonly (readonly [flags: readonly string[], found: RegExp])[] = [
    [['--jail-uid-base', '1000'], /^fault jail_uid_base .*1000 to 66535/],
    [['--jail-uid-base', '65535'], /^fault jail_uid_base/],
    [
      ['--jail-uid-base', '200000', '--jail-uid-count', '10'],
      /^warning jail_uid_base .*200000 to 200009.* far$/,
    ],
    [['--jail-uid-base', '299999', '--jail-uid-count', '2'], /^warning .* me \(\/etc\/subuid\)$/],
    [['--jail-uid-base', '500000', '--jail-uid-count', '10'], /^warning jail_uid_base .* to fargroup$/],
    [['--jail-uid-base', '599999', '--jail-uid-count', '2'], /^warning .* you \(\/etc\/subgid\)$/],
    [['--network-allow-range', '0.0.0.0/0'], /^fault network_allow_range 0\.0\.0\.0\/0/],
    [['--network-allow-range', '0.0.0.0/8'], /^fault network_allow_range/],
    [['--network-allow-range', '10.0.0.0/7'], /^fault network_allow_range/],
    [['--network-allow-range', '127.0.0.0/8'], /^fault network_allow_range/],
    [['--network-allow-range', '224.0.0.0/4'], /^fault network_allow_range/],
    [['--network-allow-range', '255.255.255.255'], /^fault network_allow_range/],
    [['--network-allow-range', '100.64.0.0/10'], /^warning network_allow_range/],
    [['--network-allow-range', '128.0.0.0/1'], /^fault network_allow_range/],
    [['--network-allow-range', '127.0.0.1'], /^fault network_allow_range/],
    [['--network-allow-range', '224.0.0.0/24'], /^fault network_allow_range/],
    [['--network-allow-range', '169.254.169.254'], /^warning network_allow_range/],
    [['--network-allow-range', '168.63.0.0/16'], /^warning network_allow_range/],
    [['--network-subnet', '127.0.0.0/16'], /^fault network_subnet/],
    [['--network-subnet', '169.254.0.0/16'], /^fault network_subnet/],
    [['--network-subnet', '8.0.0.0/8'], /^warning network_subnet .*public range/],
    [['--image-path-allow', '/'], /^fault image_path_allow \/ is all of this host/],
    [['--image-path-allow', '/srv/../.'], /^fault image_path_allow/],
    [['--image-path-allow', '/etc/ssl'], /^fault image_path_allow .* files of \/etc/],
    [['--image-path-allow', '/proc'], /^fault image_path_allow/],
    [['--image-path-allow', '/root'], /^fault image_path_allow/],
    [['--image-path-allow', '/run'], /^fault image_path_allow/],
    [['--image-path-allow', '/usr', '--data-dir', '/d', '--run-dir', '/r'], /^fault image_path_allow/],
    [['--image-path-allow', '/var', '--data-dir', '/d', '--run-dir', '/r'], /^fault image_path_allow/],
    [['--image-path-allow', '/var/lib'], /^fault image_path_allow .* files of \/var\/lib\/sandboxd/],
    [['--image-path-allow', '/var/lib/sandboxd/images'], /^fault image_path_allow/],
    [
      ['--listen', 'unix:/run/x.sock', '--socket-mode', '777'],
      /^warning socket_mode mode 777 of \/run\/x\.sock/,
    ],
    [['--metrics-listen', 'unix:/run/m.sock', '--socket-mode', '602'], /^warning socket_mode/],
  ];
  for (const [flags, found] of cases) {
    const [first = '', ...more] = find(flags);
    t.match(first, found, flags.join(' '));
    t.strictSame(more, []);
  }
  const dir = mkdtempSync(join(tmpdir(), 'careless-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  symlinkSync('/', join(dir, 'link'));
  t.match(find(['--image-path-allow', join(dir, 'link')])[0], /^fault/, 'links are resolved first');
  t.end();
});

t.test('a start fails with what is refused, and logs the rest', (t) => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  t.throws(() => refuseWeakSettings(configOf('--image-path-allow', '/'), true, log), {
    name: 'ConfigError',
    message:
      /^image_path_allow: \/ is all of this host, .*; give images and archives a directory of their own/,
  });
  refuseWeakSettings(configOf('--listen', 'unix:/run/x.sock', '--socket-mode', '666'), false, log);
  t.match(lines, [/^socket_mode: .*there is no key; create a key/]);
  t.end();
});

t.test('the daemon itself ends before it has begun anything', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'careless-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const own = ['--data-dir', join(dir, 'data'), '--run-dir', join(dir, 'run'), '--listen', '127.0.0.1:0'];
  for (const [flag = '', value = ''] of [
    ['--jail-uid-base', '1000'],
    ['--network-allow-range', '0.0.0.0/0'],
    ['--network-allow-range', '127.0.0.0/8'],
    ['--network-allow-range', '224.0.0.0/4'],
    ['--image-path-allow', '/'],
    ['--network-subnet', '169.254.0.0/16'],
  ]) {
    const { status, stdout, stderr } = spawnSync(DAEMON_PROGRAM, [...own, flag, value], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH },
      timeout: 60_000,
    });
    t.equal(status, 2, `${flag} ${value}`);
    t.match(stdout + stderr, `${flag.slice(2).replaceAll('-', '_')}: `);
    t.notMatch(stdout, /listening on/);
  }
  t.end();
});
