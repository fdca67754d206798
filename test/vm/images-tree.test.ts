// The tree that layers add up to, as a guest reads it and as umoci unpacks it: neither may have a file that the other has not,
// nor a byte, mode, owner, time, attribute or link of one.
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { compileTreeProgram } from '../support/tree-program.ts';
import { archive, type Member, pax } from '../unit/guest-agent/support/tar-blocks.ts';
import { makeLayoutOf, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const world = new World(t);
const daemon = await startDaemon(t, {
  flags: ['--template-disk-bytes', '0', '--image-path-allow', world.dir],
});
const { api } = daemon;

const LOWER = String.raw`
mkdir -p plain opaque/deep/er hidden/dir odd links lib-target swap merged setgid sticky replaced-dir/in
for size in 0 1 4095 4096 4097 1000003; do head -c $size /dev/urandom > plain/$size; done
truncate -s 80M plain/sparse
printf head | dd of=plain/sparse conv=notrunc status=none
printf middle | dd of=plain/sparse bs=1 seek=40000001 conv=notrunc status=none
truncate -s 5M plain/only-holes
printf x > plain/setuid; chown 12:34 plain/setuid; chmod 6755 plain/setuid
printf x > plain/nobody; chown 3000000:4000000000 plain/nobody; chmod 000 plain/nobody
printf x > plain/before-1970; touch -d @-1000000000.5 plain/before-1970
printf x > plain/nanos; touch -d @1500000000.123456789 plain/nanos
printf x > plain/far; touch -d @5000000000 plain/far
chown 7:8 setgid; chmod 2775 setgid; chmod 1777 sticky; chmod 0 hidden/dir
cp /bin/true plain/capable; setcap cap_net_bind_service,cap_net_raw=ep plain/capable
printf x > plain/attributed
mknod odd/null c 1 3; mknod odd/large b 259 70000; mkfifo odd/pipe; chown 5:6 odd/null
printf x > "odd/$(head -c 255 /dev/zero | tr '\0' n)"
printf x > $'odd/\xff\xfe\x80bytes'; printf x > $'odd/new\nline'; printf x > 'odd/quo"te\ and space'; printf x > 'odd/größe'
printf x > $'odd/\xff-removed'
deep=odd; for n in $(seq 12); do deep=$deep/$(head -c 200 /dev/zero | tr '\0' d)$n; mkdir $deep; done; printf deep > $deep/file
ln -s ../plain/1 links/relative; ln -s /plain/1 links/absolute; ln -s nowhere links/dangling; ln -s "$(head -c 3000 /dev/zero | tr '\0' l)" links/long
ln -s $'\xff\xfe' links/bytes; chown -h 9:10 links/relative; touch -h -d @1234567890.5 links/relative
printf linked > links/a; ln links/a links/b; ln links/a plain/c; ln links/dangling links/dangling-too; ln odd/pipe links/pipe-too
printf linked > links/unlinked; ln links/unlinked links/kept
ln -s lib-target lib
printf x > opaque/gone; printf x > opaque/deep/er/gone; printf x > opaque/back; printf x > hidden/file; printf x > hidden/dir/file
printf x > swap/file-to-directory; mkdir swap/directory-to-file; printf x > swap/directory-to-file/in; ln -s ../plain swap/link-to-directory
printf x > merged/lower; printf x > gone-of-the-root; printf x > replaced-dir/in/it; printf 1 > plain/overwritten; chmod 600 plain/overwritten
touch -d @1400000000 merged opaque hidden plain odd links swap setgid lib-target .`;

const file = (name: string, content = name): Member => ({ name, content });
const directory = (name: string, mode = 0o755): Member => ({ name, flag: '5', mode });
const link = (name: string, target: string): Member => ({ name, flag: '1', target });
const symlink = (name: string, target: string): Member => ({ name, flag: '2', target });
const whiteout = (name: string): Member => file(name.replace(/[^/]+$/, '.wh.$&'), '');

const xattrs = (values: Readonly<Record<string, string>>): Member =>
  pax(Object.fromEntries(Object.entries(values).map(([key, value]) => [`SCHILY.xattr.${key}`, value])));

const ATTRIBUTES: readonly Member[] = [
  xattrs({ 'user.one': '1', 'user.empty': '', 'trusted.owner': 'root', 'user.large': 'v'.repeat(3000) }),
  file('plain/attributed'),
  xattrs({ 'user.bytes': '\n \\\u00e4=\t' }),
  file('plain/attributed-oddly'),
  xattrs({ 'user.of-a-directory': '2' }),
  directory('merged'),
  xattrs({ 'user.of-a-directory': '3', 'trusted.owner': 'other' }),
  directory('setgid', 0o2775),
  { name: 'odd/zero', flag: '3' },
  xattrs({ 'user.old': '1' }),
  file('plain/overwritten'),
];

/** By hand: no program packs these. */
const MIDDLE: readonly Member[] = [
  whiteout('gone-of-the-root'),
  whiteout('hidden'),
  whiteout('never-was'),
  whiteout('links/unlinked'),
  whiteout('odd/\xff-removed'),
  directory('opaque'),
  file('opaque/.wh..wh..opq', ''),
  file('opaque/new'),
  whiteout('swap/file-to-directory'),
  directory('swap/file-to-directory', 0o700),
  file('swap/file-to-directory/in'),
  file('swap/directory-to-file', 'a file now'),
  directory('swap/link-to-directory'),
  file('swap/link-to-directory/in'),
  pax({ uid: '77', gid: '88', mtime: '1450000000.75', 'SCHILY.xattr.user.new': 'n' }),
  file('plain/overwritten', 'anew'),
  directory('merged', 0o711),
  file('merged/upper'),
  file('lib/through-a-link'),
  link('links/to-lower', 'plain/4097'),
  link('links/to-lower-too', 'links/to-lower'),
  symlink('links/relative', '../plain/4096'),
  whiteout('replaced-dir'),
  file('replaced-dir', 'was a directory'),
];

const UPPER = `
mkdir -p hidden opaque odd plain
printf again > hidden/file; printf back > opaque/back; printf again > gone-of-the-root; printf upper > plain/1
setcap cap_chown=ep plain/1
touch -d @1600000000.000000001 hidden/file hidden opaque odd plain .`;

/** A tree that the shell makes, as GNU tar packs it. */
function pack(script: string): Buffer {
  const dir = world.path('tree');
  mkdirSync(dir);
  const env = { PATH: process.env.PATH, LC_ALL: 'C' };
  execFileSync('bash', ['-euc', script], { cwd: dir, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const options = ['--format=posix', '--sparse', '--xattrs', '--xattrs-include=*', '--numeric-owner'];
  return execFileSync('tar', [...options, '--sort=name', '-C', dir, '-c', '.'], {
    env,
    maxBuffer: 1 << 30,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** What a guest has at its root besides its image. */
const OWN = ['dev', 'proc', 'sys', 'run', 'tmp', 'etc', 'root', '.sandbox', 'walk'];
/** The modules of the guest's kernel are in what the image has as /lib, which is changed by that. */
const MODULES = /^\.\/lib-target(?: |\/modules[ /])/;

/** umoci ignores owner, mode and times of a hard link's entry. Docker, containerd, podman and we apply them. */
const TIME_OF_LINKED = /^(\.\/(?:links\/to-lower(?:-too)?|plain\/4097) \S+ \S+) \S+/;

t.test('a tree of five layers is what umoci unpacks of them, file by file', async (t) => {
  const program = compileTreeProgram();
  const own = archive([{ name: 'walk', mode: 0o755, content: program }]);
  const layers = [own, pack(LOWER), archive(ATTRIBUTES), archive(MIDDLE), pack(UPPER)];
  const layout = makeLayoutOf(world.path('layout'), { layers }, 'v1');
  const bundle = world.path('bundle');
  execFileSync('umoci', ['unpack', '--image', `${layout}:v1`, bundle], { stdio: 'pipe' });
  const walk = join(bundle, 'rootfs/walk');
  const wanted = execFileSync(walk, [join(bundle, 'rootfs'), ...OWN], { encoding: 'utf8' });

  const { id } = await api.ask('createSandbox', { body: { image: { path: layout } } });
  const { stdout, stderr } = await api.exec(id, ['/walk', '/', ...OWN]);
  t.equal(stderr, '');
  t.match(stdout, /^\.\/lib-target\/modules\/6\.[^/]*\/modules\.dep /m);
  const [has, should] = [stdout, wanted].map((text) =>
    text
      .trim()
      .split('\n')
      .filter((line) => !MODULES.test(line))
      .map((line) => line.replace(TIME_OF_LINKED, '$1')),
  );
  const missing = should?.filter((line) => !has?.includes(line)) ?? [];
  // The overlay of a guest would take it for a whiteout.
  t.match(missing, [/^\.\/odd\/zero 2/]);
  t.equal(missing.length, 1, 'nothing else is missing');
  t.same(
    has?.filter((line) => !should?.includes(line)),
    [],
    'nothing is there besides',
  );
  t.equal(has?.length, 74);
  // What is not packed to begin with is equal everywhere.
  for (const kind of [
    /security\.capability=\S/,
    /\\377\\376\\200bytes /,
    / user\.large=v{3000} /,
    / links=3 /,
    / 259:70000/,
  ])
    t.match(stdout, kind);
  const { images } = await api.ask('listImages');
  t.ok((images?.[0]?.size_bytes ?? Number.POSITIVE_INFINITY) < 10e6, 'holes of 85 MB take no room');
  await api.ask('deleteSandbox', { params: { id } });
});
