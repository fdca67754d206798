// Commands of the built program, and how long steps show that they are alive.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ProgressLine } from '../../../../host-agent/src/commands/progress.ts';
import { ROOTFS_FORMAT } from '../../../../rootfs-builder/src/rootfs/manifest.ts';
import { DAEMON_PROGRAM } from '../../../support/leftovers.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));

const dir = mkdtempSync(join(tmpdir(), 'commands-test-'));
t.teardown(() => rmSync(dir, { recursive: true }));

function run(words: readonly string[], env: Readonly<Record<string, string>> = {}, program = DAEMON_PROGRAM) {
  const { status, stdout, stderr } = spawnSync(program, words, {
    encoding: 'utf8',
    env: { PATH: process.env.PATH, ...env },
  });
  return { status, stdout, stderr };
}

/** A profile with a current bake and replaced ones, whose images need not be any. */
function makeProfile(dataDir: string, replaced: readonly string[]): string {
  const parent = join(dataDir, 'profiles/base');
  for (const [age, digit] of ['f', ...replaced].entries()) {
    const bake = join(parent, digit.repeat(16));
    mkdirSync(bake, { recursive: true });
    writeFileSync(join(bake, 'rootfs.ext4'), 'image');
    utimesSync(join(bake, 'rootfs.ext4'), 1_700_000_000 - age, 1_700_000_000 - age);
  }
  const manifest = {
    ...{
      formatVersion: ROOTFS_FORMAT,
      name: 'base',
      description: 'a test',
      digest: 'f'.repeat(64),
      recipeDigest: 'r',
    },
    ...{ treeDigest: 't', agentDigest: 'a', suite: 'bookworm', packages: {}, env: {}, workdir: '/' },
    ...{ rootfsSha256: '0'.repeat(64), sizeBytes: 5, entries: 1, rootfsMtimeMs: 1_700_000_000_000 },
    createdAt: '2026-01-01T00:00:00.000Z',
  };
  writeFileSync(join(parent, 'f'.repeat(16), 'manifest.json'), JSON.stringify(manifest));
  writeFileSync(join(parent, 'current'), `${'f'.repeat(64)}\n`);
  return parent;
}

t.test('an output that cannot be written is a failure with a message; a closed pipe is silent', async (t) => {
  const dataDir = join(dir, 'output');
  makeProfile(dataDir, []);
  chmodSync(dataDir, 0o700);
  const all = [
    ...[['--help'], ['--print-config'], ['keys', '--help']],
    ...[
      ['profiles', 'list', '--json', '--data-dir', dataDir],
      ['keys', 'create', 'a', '--data-dir', dataDir],
    ],
    ...[
      ['doctor', '--quick', '--data-dir', dataDir],
      ['keys', 'list', '--data-dir', dataDir],
    ],
  ];
  for (const words of all) {
    const shell = (script: string) =>
      spawnSync('bash', ['-c', script, 'bash', DAEMON_PROGRAM, ...words], { encoding: 'utf8' });
    const full = shell('"$@" >/dev/full');
    t.equal(full.status, 1, words.join(' '));
    t.match(full.stderr, /^sandboxd: the output cannot be written: ENOSPC: [^\n]+$/m);
    t.notMatch(full.stderr, /^ +at /m);
    const left = shell('"$@" | true; exit $PIPESTATUS');
    t.equal(left.signal, null);
    t.notMatch(left.stderr, /EPIPE|^ +at /m);
    t.match(shell('"$@" >&- 2>&-'), { signal: null });
  }
});

t.test('a key or secret that could not be printed is revoked', (t) => {
  const dataDir = ['--data-dir', join(dir, 'secrets')];
  for (const [words, list] of [
    [['keys', 'create', 'a'], 'keys'],
    [['keys', 'create', 'b', '--json'], 'keys'],
    [['webhooks', 'add', 'a', 'http://localhost/'], 'webhooks'],
  ] as const) {
    const full = [DAEMON_PROGRAM, ...words, ...dataDir];
    t.equal(spawnSync('sh', ['-c', '"$@" >/dev/full', 'sh', ...full]).status, 1);
    const { stdout } = run([list, 'list', '--json', ...dataDir]);
    t.notMatch(stdout, /"state": "valid"|"url"/, words.join(' '));
    t.match(run([...words, ...dataDir]), { status: 0 }, 'its name is free');
    if (list === 'keys') t.match(run(['keys', 'revoke', words[2], ...dataDir]), { status: 0 });
  }
  t.end();
});

t.test('help names every command, and a command its flags', async (t) => {
  for (const words of [['--help'], ['-h'], ['help']]) {
    const { status, stdout } = run(words);
    t.equal(status, 0);
    for (const name of ['serve', 'profiles bake', 'profiles list', 'profiles verify', 'profiles prune'])
      t.match(stdout, new RegExp(`^  ${name} `, 'm'));
    t.match(stdout, /^ {2}--data-dir <path>/m, 'the daemon’s settings are there, too');
  }
  t.match(run(['serve', '--help']).stdout, /^Usage: sandboxd serve/);
  t.match(run(['profiles', '--help']).stdout, /^ {2}bake [\s\S]*^ {2}prune /m);
  t.match(run(['profiles', 'bake', '--help']).stdout, /--refresh[\s\S]*--mirror <url>[\s\S]*--keep <count>/);
  t.match(run(['serve', '--version']).stdout, /^sandboxd \d/);
});

t.test('words that make no sense are refused, with what is known', async (t) => {
  const cases: [string[], RegExp][] = [
    [
      ['profile'],
      /^sandboxd: there is no command "profile"; known are serve, doctor, bench, drain, gateway, upgrade, profiles/,
    ],
    [['profiles'], /^sandboxd: a command is missing behind `sandboxd profiles`; known are bake, list/],
    [['profiles', 'burn'], /^sandboxd: there is no command "burn" behind/],
    [['profiles', 'list', '--nope'], /^sandboxd: unknown option '--nope'; `sandboxd profiles list --help`/],
    [['profiles', 'list', 'base'], /^sandboxd: "base" is one argument too many: sandboxd profiles list$/m],
    [['profiles', 'list', '--jsno'], /; did you mean --json\? `sandboxd profiles list --help`/],
    [['keys', 'revoke'], /^sandboxd: an argument is missing: sandboxd keys revoke <name\|id>…$/m],
    [['profiles', 'prune', '--keep', 'all'], /^sandboxd: --keep must be a whole number, not "all"/],
    [['profiles', 'prune', '--keep', '-1'], /^sandboxd: option '--keep' argument is ambiguous; /],
    [['profiles', 'list', '--data-dir='], /^sandboxd: flag --data-dir: got "", expected an absolute path/],
    [['--data-dir', '/x', 'profiles'], /^sandboxd: argument "profiles": .*a command comes before all flags/],
  ];
  for (const [words, pattern] of cases) {
    const { status, stderr, stdout } = run(words);
    t.equal(status, 2, words.join(' '));
    t.match(stderr, pattern);
    t.equal(stderr.trim().split('\n').length, 1, 'in one line');
    t.equal(stdout, '');
  }
});

t.test('the data directory is found as the daemon finds it', async (t) => {
  const dataDir = join(dir, 'found');
  makeProfile(dataDir, []);
  const file = join(dir, 'settings.json');
  writeFileSync(file, JSON.stringify({ data_dir: dataDir }));
  const expected = /^base +f{16} +0 MiB +2026-01-01T00:00:00.000Z +a test$/m;
  t.match(run(['profiles', 'list', '--data-dir', dataDir]).stdout, expected);
  t.match(run(['profiles', 'list'], { SANDBOXD_DATA_DIR: dataDir }).stdout, expected);
  t.match(run(['profiles', 'list', '--config', file]).stdout, expected);
  t.match(run(['profiles', 'list'], { SANDBOXD_CONFIG: file }).stdout, expected);
  t.equal(JSON.parse(run(['profiles', 'list', '--json', '--data-dir', dataDir]).stdout)[0].name, 'base');
  const none = run(['profiles', 'list', '--data-dir', join(dir, 'none')]);
  t.match(none, { status: 0, stdout: '', stderr: /no profile is baked in .*none; `sandboxd profiles bake`/ });
  t.match(run(['profiles', 'verify', '--data-dir', dataDir]), { status: 1, stderr: /SHA-256/ });
});

t.test('a damaged profile is never passed over in silence', async (t) => {
  const dataDir = join(dir, 'damaged');
  const parent = makeProfile(dataDir, []);
  const verify = () => run(['profiles', 'verify', '--data-dir', dataDir]);
  const list = () => run(['profiles', 'list', '--data-dir', dataDir]);
  writeFileSync(join(parent, 'f'.repeat(16), 'rootfs.ext4'), 'of another size');
  t.match(verify(), { status: 1, stderr: /profile "base" is damaged: .* has 15 bytes/ });
  t.match(list(), { status: 0, stdout: '', stderr: /^profile "base" is damaged: .* has 15 bytes/ });
  writeFileSync(join(parent, 'current'), 'garbage');
  t.match(verify(), { status: 1, stderr: /profile "base" is not baked/ });
  rmSync(join(parent, 'current'));
  t.match(verify(), { status: 1, stderr: /no profile is baked in .*damaged; `sandboxd profiles bake`/ });
  t.match(list(), { status: 0, stderr: /no profile is baked in/ });
});

t.test('prune leaves what is current, what is young and what is used', async (t) => {
  const dataDir = join(dir, 'pruned');
  const parent = makeProfile(dataDir, ['1', '2', '3', '4']);
  mkdirSync(join(dataDir, 'snapshots/one'), { recursive: true });
  linkSync(join(parent, '4'.repeat(16), 'rootfs.ext4'), join(dataDir, 'snapshots/one/rootfs.ext4'));
  const left = () => ['f', '1', '2', '3', '4'].filter((digit) => existsSync(join(parent, digit.repeat(16))));
  t.match(run(['profiles', 'prune', '--data-dir', dataDir]).stdout, /removed: 1, .*in use: 1$/m);
  t.same(left(), ['f', '1', '2', '4']);
  t.match(run(['profiles', 'prune', 'nosuch', '--data-dir', dataDir]), {
    status: 1,
    stderr: /^sandboxd: profile "nosuch" is not baked in .*; run: sandboxd profiles bake nosuch$/m,
  });
  run(['profiles', 'prune', 'base', '--keep', '0', '--data-dir', dataDir]);
  t.same(left(), ['f', '4']);
});

t.test('baking says what it lacks before it begins', async (t) => {
  const words = ['profiles', 'bake', '--data-dir', join(dir, 'baked')];
  const isRoot = process.getuid?.() === 0;
  if (!isRoot) {
    t.match(run(words), { status: 1, stderr: /^sandboxd: baking needs root/ });
    return;
  }
  t.match(run(words, { PATH: '/nonexistent' }), {
    status: 1,
    stderr: /^sandboxd: the program mmdebstrap was not found; as root: apt-get install mmdebstrap/,
  });
  t.match(run([...words, 'nosuch']), {
    status: 1,
    stderr: /no recipe named "nosuch"; known: base, code, e2b-base, node/,
  });
  t.match(run([...words, '/nonexistent.json']), {
    status: 1,
    stderr: /cannot read recipe file \/nonexistent/,
  });
  // An installed program looks beside itself, never into the checkout that built it.
  const program = join(dir, 'installed/sandboxd');
  mkdirSync(join(dirname(program), 'addons'), { recursive: true });
  copyFileSync(DAEMON_PROGRAM, program);
  for (const name of ['addons/lmdb.node', 'addons/host.node'])
    copyFileSync(join(dirname(DAEMON_PROGRAM), name), join(dirname(program), name));
  const { status, stderr } = run(words, {}, program);
  t.equal(status, 1);
  t.ok(stderr.includes(`no init of the initramfs at ${join(dirname(program), 'guest-init')}`), stderr);
  t.notOk(existsSync(join(dir, 'baked')), 'nothing was begun');
});

t.test('a long step is seen to be alive', async (t) => {
  const write = async (isTTY: boolean, columns: number) => {
    const written: string[] = [];
    const screen = { isTTY, columns, write: (text: string) => written.push(text) };
    using line = new ProgressLine(screen, 5);
    line.show({ kind: 'start', step: 'packages' });
    while (written.length < 4) await sleep(5);
    line.show({ kind: 'note', step: 'packages', text: 'installing' });
    const ticks = written.length;
    while (written.length < ticks + 2) await sleep(5);
    line.show({ kind: 'done', step: 'packages', durationMs: 1234 });
    const count = written.length;
    await sleep(100);
    t.equal(written.length, count, 'no more once it is done');
    return written;
  };
  const terminal = await write(true, 0);
  t.ok(terminal.slice(0, -1).every((text) => text.startsWith('\r\x1b[K') && !text.includes('\n')));
  t.match(terminal.at(-3), /packages … \d+ s: installing$/);
  t.equal(terminal.at(-1), '  packages: 1.2 s\n');
  const plain = await write(false, 80);
  t.ok(plain.every((text) => text.endsWith('\n') && !text.includes('\x1b')));
  t.equal(plain[0], '  packages …\n');
  t.match(plain.at(-2), /packages … \d+ s: installing\n$/);
  for (const text of await write(true, 12))
    t.ok(text.replace('\r\x1b[K', '').length <= 18, 'it stays in its line');
});
