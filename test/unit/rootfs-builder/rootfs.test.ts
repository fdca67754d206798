// Baked profiles on disk: guest files, images, the current bake, damage, and leftovers of crashes.
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  copySparse,
  createWritableLayer,
  listProfiles,
  resolveKernel,
  resolveProfile,
  verifyProfile,
} from '@sandboxd/rootfs-builder';
import t from 'tap';
import {
  createWorkDirectory,
  publishDirectory,
  sweepWorkDirectories,
} from '../../../rootfs-builder/src/lib/atomic.ts';
import { mirrorEnvironment, runCommand, SCRATCH } from '../../../rootfs-builder/src/lib/command.ts';
import { digestDirectory, digestText, digestValue } from '../../../rootfs-builder/src/lib/digest.ts';
import { makeRootImage } from '../../../rootfs-builder/src/rootfs/ext4.ts';
import {
  ensureGuestDirectory,
  neutralSettings,
  trimTree,
  writeGuestFiles,
} from '../../../rootfs-builder/src/rootfs/guest-files.ts';
import { type ProfileManifest, ROOTFS_FORMAT } from '../../../rootfs-builder/src/rootfs/manifest.ts';
import { pruneBakes } from '../../../rootfs-builder/src/rootfs/prune.ts';

const DIGEST = digestText('some inputs');

/** Creates one baked profile in an empty data directory; its image has the given content. */
function bakedProfile(dataDir: string, content: string) {
  const directory = join(dataDir, 'profiles/base', DIGEST.slice(0, 16));
  const rootfsPath = join(directory, 'rootfs.ext4');
  const manifest: ProfileManifest = {
    formatVersion: ROOTFS_FORMAT,
    name: 'base',
    description: '',
    digest: DIGEST,
    recipeDigest: 'r',
    treeDigest: 't',
    agentDigest: 'a',
    suite: 'bookworm',
    packages: {},
    env: {},
    workdir: '/',
    rootfsSha256: digestText(content),
    sizeBytes: content.length,
    entries: 1,
    rootfsMtimeMs: 1_700_000_000_123,
    createdAt: '2026-01-01T00:00:00.000Z',
  };
  mkdirSync(directory, { recursive: true });
  writeFileSync(rootfsPath, content);
  utimesSync(rootfsPath, new Date(manifest.rootfsMtimeMs), new Date(manifest.rootfsMtimeMs));
  writeFileSync(join(directory, 'manifest.json'), JSON.stringify(manifest));
  writeFileSync(join(dataDir, 'profiles/base/current'), `${DIGEST}\n`);
  return { dataDir, directory, rootfsPath };
}

t.test('the current bake is found, listed and verified', async (t) => {
  const { dataDir, rootfsPath } = bakedProfile(t.testdir(), 'image');
  const profile = await resolveProfile(dataDir, 'base');
  t.equal(profile.rootfsPath, rootfsPath);
  t.equal(profile.manifest.digest, DIGEST);
  t.same(
    (await listProfiles(dataDir)).map(({ manifest }) => manifest.name),
    ['base'],
  );
  await verifyProfile(dataDir, 'base');
});

t.test('a profile that is not there is named with what to do, whatever its name', async (t) => {
  const { dataDir } = bakedProfile(t.testdir(), 'image');
  for (const name of ['other', '..', '', 'a/b', '.trees', `x${'y'.repeat(300)}`.slice(0, 250)]) {
    await t.rejects(resolveProfile(dataDir, name), { code: 'profile_not_baked', message: /bake/ });
  }
  t.same(await listProfiles(join(dataDir, 'absent')), []);
});

t.test('damage is noticed: cheaply by size and time, surely by checksum', async (t) => {
  const longer = bakedProfile(t.testdir(), 'image');
  writeFileSync(longer.rootfsPath, 'longer image');
  await t.rejects(resolveProfile(longer.dataDir, 'base'), { code: 'profile_corrupt', message: /bytes/ });
  t.same(await listProfiles(longer.dataDir), []);

  const touched = bakedProfile(t.testdir(), 'image');
  utimesSync(touched.rootfsPath, 1, 1);
  await t.rejects(resolveProfile(touched.dataDir, 'base'), { code: 'profile_corrupt', message: /modified/ });
  await verifyProfile(touched.dataDir, 'base');
  t.ok(await resolveProfile(touched.dataDir, 'base'), 'verify found the content intact and mended the time');

  writeFileSync(touched.rootfsPath, 'imagE');
  utimesSync(touched.rootfsPath, new Date(1_700_000_000_123), new Date(1_700_000_000_123));
  t.ok(await resolveProfile(touched.dataDir, 'base'), 'size and time alone cannot see this');
  await t.rejects(verifyProfile(touched.dataDir, 'base'), { code: 'profile_corrupt', message: /SHA-256/ });

  writeFileSync(join(touched.directory, 'manifest.json'), '{"name":');
  await t.rejects(resolveProfile(touched.dataDir, 'base'), { code: 'profile_corrupt', message: /manifest/ });
});

t.test('left-overs of dead processes are swept, those of live ones are not', async (t) => {
  // In a container, a daemon has the id that the one before it had.
  const dir = t.testdir({ '.tmp-999999999-1-aa': { x: '' }, [`.tmp-${process.pid}-1-bb`]: {}, keep: {} });
  const own = await createWorkDirectory(dir);
  await sweepWorkDirectories(dir);
  t.same(readdirSync(dir).sort(), [basename(own), 'keep']);
  t.equal(await publishDirectory(own, join(dir, 'done')), true);
  mkdirSync(join(dir, 'late/x'), { recursive: true });
  writeFileSync(join(dir, 'done/first'), '');
  t.equal(await publishDirectory(join(dir, 'late'), join(dir, 'done')), false, 'the first one stays');
  t.same(readdirSync(join(dir, 'done')), ['first']);
});

t.test('of replaced bakes, the newest and those in use are kept', async (t) => {
  const { dataDir, directory } = bakedProfile(t.testdir(), 'the current one');
  const parent = join(dataDir, 'profiles/base');
  const old = ['1', '2', '3', '4', '5'].map((digit, age) => {
    const path = join(parent, digit.repeat(16));
    mkdirSync(path);
    writeFileSync(join(path, 'rootfs.ext4'), digit.repeat(8192));
    utimesSync(join(path, 'rootfs.ext4'), 1_600_000_000 - age, 1_600_000_000 - age);
    return path;
  });
  mkdirSync(join(parent, '.tmp-1-00000000'));
  mkdirSync(join(dataDir, 'sandboxes/one'), { recursive: true });
  linkSync(join(old[3]!, 'rootfs.ext4'), join(dataDir, 'sandboxes/one/rootfs.ext4'));
  const first = await pruneBakes(dataDir, 'base');
  t.same(first.removed, [old[2], old[4]]);
  t.same(first.inUse, [old[3]]);
  t.equal(first.freedBytes, 2 * 8192);
  t.same(
    [directory, ...old].map((path) => existsSync(path)),
    [true, true, true, false, true, false],
  );
  t.ok(existsSync(join(parent, '.tmp-1-00000000')), 'what another bake is making is its own');
  rmSync(join(dataDir, 'sandboxes/one'), { recursive: true });
  t.same((await pruneBakes(dataDir, 'base', 0)).removed, [old[0], old[1], old[3]], 'unused meanwhile');
  t.ok((await resolveProfile(dataDir, 'base')).rootfsPath.startsWith(directory));
  t.same((await pruneBakes(dataDir, 'base', 0)).removed, [], 'never the current one');
  t.same((await pruneBakes(dataDir, 'unknown', 0)).removed, []);
});

t.test('an aborted command ends with all of its children, after its clean-up', async (t) => {
  const dir = t.testdir({});
  const script = `sleep 1000 & echo $! >${dir}/pid; trap 'echo cleaned >${dir}/cleaned' EXIT; trap exit TERM; wait; sleep 1000`;
  const stop = new AbortController();
  const reason = new Error('enough');
  const ended = runCommand('sh', ['-c', script], { signal: stop.signal });
  while (!existsSync(join(dir, 'pid')) || readFileSync(join(dir, 'pid'), 'utf8') === '') await sleep(5);
  stop.abort(reason);
  await t.rejects(ended, reason);
  t.ok(existsSync(join(dir, 'cleaned')));
  const pid = readFileSync(join(dir, 'pid'), 'utf8').trim();
  const state = spawnSync('ps', ['-o', 'stat=', '-p', pid], { encoding: 'utf8' }).stdout.trim();
  t.match(state, /^(?:Z.*)?$/, 'its child is gone, too');
  await t.rejects(runCommand('sleep', ['1000'], { signal: AbortSignal.abort(reason) }), reason);
});

t.test(
  'a command gets nothing of the environment but where programs are, and one for mirrors their proxies',
  async (t) => {
    const before = { ...process.env };
    t.teardown(() => {
      process.env = before;
    });
    process.env = { PATH: before.PATH, SECRET: 'x', https_proxy: 'http://proxy', HOME: '/root' };
    const plain = [`PATH=${before.PATH}`, 'LC_ALL=C.UTF-8'];
    t.same((await runCommand('env', [])).split('\n'), plain);
    t.same((await runCommand('env', [], { env: mirrorEnvironment() })).split('\n'), [
      ...plain,
      'https_proxy=http://proxy',
      'HOME=/root',
    ]);
  },
);

t.test('what a command has in its scratch directory and what it mounts are gone with it', async (t) => {
  const scratch = mkdtempSync(join(tmpdir(), 'scratch-'));
  t.teardown(() => rmSync(scratch, { recursive: true }));
  const mounts = readFileSync('/proc/self/mounts', 'utf8');
  const script = `mkdir $TMPDIR/here && mount -t tmpfs none $TMPDIR/here && touch ${SCRATCH}/file && stat -c %a .`;
  t.equal(await runCommand('sh', ['-c', script], { scratch, cwd: scratch }), '755', 'others may enter it');
  t.same(readdirSync(scratch), ['file', 'here']);
  t.equal(readFileSync('/proc/self/mounts', 'utf8'), mounts);
  await t.rejects(runCommand('false', [], { scratch }), { message: /^false ended with exit code 1/ });
});

t.test('digests are stable and see every change', async (t) => {
  t.equal(digestValue({ a: 1, b: { c: 2, d: undefined } }), digestValue({ b: { c: 2 }, a: 1 }));
  t.not(digestValue([1, 2]), digestValue([2, 1]));
  const dir = t.testdir({ a: 'x', lib: { b: 'y' } });
  const before = await digestDirectory(dir);
  t.equal(await digestDirectory(dir), before);
  writeFileSync(join(dir, 'lib/b'), 'z');
  t.not(await digestDirectory(dir), before);
});

t.test('guest files follow links inside the tree only', async (t) => {
  const root = t.testdir({ usr: { lib: {} }, var: { log: { old: 'x' } }, etc: {} });
  symlinkSync('usr/lib', join(root, 'lib'));
  symlinkSync('/run', join(root, 'var/run'));
  symlinkSync('../../../../../..', join(root, 'up'));
  symlinkSync('loop', join(root, 'loop'));
  await trimTree(root);
  await writeGuestFiles(root, [
    ...neutralSettings('bookworm'),
    { path: '/lib/a', mode: '0600', content: 'a' },
    { path: '/var/run/sandboxd-unit-test/b', mode: '0644', content: 'b' },
    { path: '/up/c', mode: '0644', content: 'c' },
  ]);
  t.equal(readFileSync(join(root, 'usr/lib/a'), 'utf8'), 'a');
  t.equal(statSync(join(root, 'usr/lib/a')).mode & 0o777, 0o600);
  t.equal(readFileSync(join(root, 'run/sandboxd-unit-test/b'), 'utf8'), 'b');
  t.equal(readFileSync(join(root, 'c'), 'utf8'), 'c');
  t.equal(readFileSync(join(root, 'etc/machine-id'), 'utf8'), '');
  t.same(readdirSync(join(root, 'var/log')), []);
  t.equal(statSync(join(root, 'tmp')).mode & 0o7777, 0o1777);
  await t.rejects(ensureGuestDirectory(root, '/loop/x'), {
    code: 'recipe_invalid',
    message: /too many links/,
  });
});

t.test('an image holds its tree in little more space than the tree needs', async (t) => {
  const dir = t.testdir({ tree: { a: 'x'.repeat(3_000_000), d: { e: 'y' } } });
  const image = join(dir, 'image.ext4');
  t.equal(await makeRootImage(join(dir, 'tree'), image), 3);
  t.ok(statSync(image).size < 3_000_000 + (6 << 20));
});

t.test('writable layers are sparse, whole and refused in odd sizes', async (t) => {
  const dir = t.testdir();
  await createWritableLayer(dir, join(dir, 'layer'), 256 << 20);
  const stats = statSync(join(dir, 'layer'));
  t.equal(stats.size, 256 << 20);
  t.ok(stats.blocks * 512 < 2 << 20, 'almost nothing is allocated');
  await t.rejects(createWritableLayer(dir, join(dir, 'odd'), (64 << 20) + 1), { code: 'layer_size' });
  await t.rejects(createWritableLayer(dir, join(dir, 'small'), 1 << 20), { code: 'layer_size' });
  await t.rejects(copySparse(join(dir, 'absent'), join(dir, 'x')), { code: 'ENOENT' });
});

t.test('KERNEL and INITRD replace the prepared kernel', async (t) => {
  const dir = t.testdir({ k: 'kernel', i: 'initrd' });
  await t.rejects(resolveKernel(dir, {}), {
    code: 'kernel_not_prepared',
    message: /profiles bake.*--kernel/,
  });
  const kernel = await resolveKernel(dir, { KERNEL: join(dir, 'k'), INITRD: join(dir, 'i') });
  t.match(kernel, { vmlinuxPath: join(dir, 'k'), initramfsPath: join(dir, 'i'), version: 'custom' });
  await t.rejects(resolveKernel(dir, { KERNEL: join(dir, 'no'), INITRD: join(dir, 'i') }), {
    message: /KERNEL=/,
  });
});
