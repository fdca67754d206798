// The same archives for us and for podman: what both take has the same config and the same files, and where one refuses is said.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archive, type Member, pax } from '../../guest-agent/support/tar-blocks.ts';
import { World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const images = await world.openImages(world.path('data'));
t.teardown(() => images.close());
const NAME = 'localhost/compared:1';
const STORE = ['--root', world.path('store'), '--runroot', world.path('run'), '--storage-driver', 'vfs'];
const podman = (...args: readonly string[]) =>
  spawnSync('podman', [...STORE, ...args], { encoding: 'utf8', maxBuffer: 2 ** 26 });

type Input = {
  readonly config?: unknown;
  /** Members, or archives as they are. */
  readonly layers?: readonly (readonly Member[] | Buffer)[];
  readonly pack?: (tar: Buffer) => Buffer;
  /** What else the config says, beside `config`. */
  readonly about?: object;
  /** As `docker save` wrote a layer that comes again. */
  readonly isLinked?: boolean;
  readonly tags?: readonly string[];
  /** Before the names of all members. */
  readonly prefix?: string;
  /** Absent: both take it. */
  readonly onlyBy?: 'podman' | 'us' | 'nobody';
};
const file = (name: string, content = 'x'): Member => ({ name, content });
const one = (...members: readonly Member[]): Input => ({ layers: [members] });
const halves = (pack: (bytes: Buffer) => Buffer) => (tar: Buffer) =>
  Buffer.concat([pack(tar.subarray(0, 700)), pack(tar.subarray(700))]);
const directory = (name: string, mode = 0o755): Member => ({ name, flag: '5', mode });
const symlink = (name: string, target: string): Member => ({ name, flag: '2', target });
const link = (name: string, target: string): Member => ({ name, flag: '1', target });
const sized = (member: Member): Member => ({ ...member, sizeField: '00000000017' });
const owned = (uid: number, member: Member): Member => ({
  ...member,
  patch: (header) => header.write(`${uid.toString(8).padStart(7, '0')}\0`.repeat(2), 108),
});
/** A frame of four bytes that readers of zstd skip. */
const skipped = Buffer.from('502a4d180400000000000000', 'hex');

const INPUTS: Readonly<Record<string, Input>> = {
  'all that a config says': {
    config: {
      ...{ User: 'a:b', Env: ['A=b', 'PATH=/x'], Entrypoint: ['/e'], Cmd: ['c', ''], WorkingDir: 'w' },
      ...{ Labels: { a: 'b' }, ExposedPorts: { '80/tcp': {}, '53/udp': {} }, StopSignal: 'RTMIN+3' },
    },
  },
  'an empty entrypoint': { config: { Entrypoint: [''], Cmd: ['sh'] } },
  'an empty command': { config: { Cmd: [''] } },
  'nulls within': { config: { Cmd: ['a', null], Labels: { a: null }, ExposedPorts: { '1/tcp': null } } },
  nulls: { config: { User: null, Env: null, Cmd: null, Labels: null, StopSignal: null } },
  'no config': { config: null },
  'names in another case': { config: { cmd: ['x'], ENTRYPOINT: ['y'], stopsignal: 'x' } },
  'odd ports': { config: { ExposedPorts: { http: {}, '8000-8002/tcp': {} } } },
  'odd users': { config: { User: ' : ' } },
  'a command that is a text': { config: { Cmd: 'a b' }, onlyBy: 'nobody' },
  'a user that is a number': { config: { User: 1000 }, onlyBy: 'nobody' },
  'a stop signal that is a number': { config: { StopSignal: 15 }, onlyBy: 'nobody' },
  'an environment that is a text': { config: { Env: 'A=b' }, onlyBy: 'nobody' },
  'a label that is a number': { config: { Labels: { a: 1 } }, onlyBy: 'nobody' },
  'labels that are a list': { config: { Labels: ['a=b'] }, onlyBy: 'nobody' },
  'ports that are a list': { config: { ExposedPorts: ['80/tcp'] }, onlyBy: 'nobody' },

  'names with two dots': one(
    file('a/../o'),
    file('b/c/../../d'),
    { name: 'l', flag: '2', target: 'x/y' },
    file('l/../p'),
  ),
  'a whiteout of a name with two dots': { layers: [[file('b'), file('c')], [file('a/../.wh.b', '')]] },
  'a hard link by two dots': one(file('b'), { name: 'c', flag: '1', target: 'a/../b' }),
  'names that lead out': { ...one(file('../../o')), onlyBy: 'podman' },
  'an owner below zero': one(pax({ uid: '-2', gid: '-2' }), file('p')),
  'an owner that is no number': { ...one(pax({ uid: 'x' }), file('p')), onlyBy: 'nobody' },
  'an /etc that leads nowhere': one({ name: 'etc', flag: '2', target: 'nowhere/etc' }),
  'an opaque directory': { layers: [[file('a/b')], [file('a/.wh..wh..opq', ''), file('a/c')]] },
  'a file of an unknown type': { ...one({ name: 'p', flag: 'A' }), onlyBy: 'nobody' },
  'a hard link to nothing': { ...one({ name: 'a', flag: '1', target: 'b' }), onlyBy: 'nobody' },
  'a record without its end': {
    ...one({ name: 'h', flag: 'x', content: '10 path=q' }, file('p')),
    onlyBy: 'nobody',
  },

  'gzip in two members': { pack: halves((bytes) => gzipSync(bytes)) },
  'gzip after an empty member': { pack: (tar) => Buffer.concat([gzipSync(''), gzipSync(tar)]) },
  'gzip that is cut': { pack: (tar) => gzipSync(tar).subarray(0, -5), onlyBy: 'nobody' },
  'gzip before words': {
    pack: (tar) => Buffer.concat([gzipSync(tar), Buffer.from('words')]),
    onlyBy: 'nobody',
  },
  'gzip in gzip': { pack: (tar) => gzipSync(gzipSync(tar)), onlyBy: 'nobody' },
  'zstd in two frames': { pack: halves((bytes) => zstdCompressSync(bytes)) },
  'zstd before a frame to skip': { pack: (tar) => Buffer.concat([zstdCompressSync(tar), skipped]) },
  'zstd after a frame to skip': {
    pack: (tar) => Buffer.concat([skipped, zstdCompressSync(tar)]),
    onlyBy: 'nobody',
  },
  'zstd that is cut': { pack: (tar) => zstdCompressSync(tar).subarray(0, -5), onlyBy: 'nobody' },
  xz: { pack: (tar) => execFileSync('xz', ['-c'], { input: tar }) },
  lz4: { pack: (tar) => execFileSync('lz4', ['-q', '-c'], { input: tar }), onlyBy: 'nobody' },
};

/** What others reported to the trackers of their programs. */
const REPORTED: Readonly<Record<string, Input>> = {
  'apple/container#1797: a hard link in a directory that nothing names': one(
    file('b/a'),
    link('b/x/y/a', 'b/a'),
  ),
  'google/go-containerregistry#977: the target of a hard link goes later': {
    layers: [[file('a'), link('b', 'a')], [file('.wh.a', '')]],
  },
  'opencontainers/image-spec#1204: a hard link to a lower layer': { layers: [[file('a')], [link('b', 'a')]] },
  'the same, whose target goes with it': { layers: [[file('a')], [link('b', 'a'), file('.wh.a', '')]] },
  'the same, whose target went before': {
    layers: [[file('a')], [file('.wh.a', ''), link('b', 'a')]],
    onlyBy: 'nobody',
  },
  'A3S-Lab/Box#78: a hard link in place of a file': {
    layers: [[file('a'), file('b', 'yy')], [link('b', 'a')]],
  },
  'the same in place of a directory': { layers: [[file('a'), file('b/c')], [link('b', 'a')]] },
  'containerd/containerd#2458: a hard link to a link': one(symlink('x', '/z'), link('y', 'x')),
  'confidential-containers/guest-components#1152: a hard link by a whole path': one(
    file('usr/bin/u'),
    link('v', '/usr/bin/u'),
  ),
  'a hard link to itself': { ...one(file('a'), link('a', 'a')), onlyBy: 'us' },
  'a hard link of another owner and mode': one(
    owned(1000, file('a')),
    owned(2000, { ...link('b', 'a'), mode: 0o600 }),
  ),
  'the same to a lower layer': { layers: [[owned(1000, file('a'))], [owned(2000, link('b', 'a'))]] },
  'the same to a link': one(owned(1000, symlink('x', 'z')), owned(2000, { ...link('y', 'x'), mode: 0o600 })),
  'ayuhito/modern-tar#114: a hard link with a size': one(file('a'), sized(link('b', 'a')), file('c')),
  'moby/moby#14022: a link with the size of its target': one(sized(symlink('a', 'b')), file('c'), file('d')),
  'the same of a pipe and a directory': one(
    sized({ name: 'a', flag: '6' }),
    sized(directory('b')),
    file('c'),
  ),
  'moby/moby#14022: a file without a name': { ...one(file(''), file('a')), onlyBy: 'nobody' },
  // Podman knows them by names without a slash in front only, and leaves an empty directory of them.
  'moby/moby#4178: files that AUFS kept for hard links': {
    ...one(file('.wh..wh.plnk/1.2'), link('bin/a', '.wh..wh.plnk/1.2'), link('bin/b', '/.wh..wh.plnk/1.2')),
    onlyBy: 'us',
  },
  'opencontainers/image-spec#840: a whiteout that is a directory': {
    layers: [[file('a/b/c/d')], [directory('a/.wh.b/'), file('a/.wh.b/c/e')]],
  },
  'opencontainers/umoci#254: a whiteout beneath a whiteout': {
    layers: [[file('a/b')], [file('.wh.a', ''), file('a/.wh.b', '')]],
  },
  'opencontainers/image-spec#144: a directory that goes and comes again': {
    layers: [
      [file('a/b/c'), file('a/b/d')],
      [file('a/.wh.b', ''), directory('a/b/', 0o711), file('a/b/d', 'dd')],
    ],
  },
  // As the format has it: what a whiteout says of lower layers holds wherever it stands.
  'opencontainers/umoci#232: the same with the whiteout behind': {
    layers: [[file('a/b/c')], [directory('a/b/', 0o711), file('a/b/d'), file('a/.wh.b', '')]],
    onlyBy: 'us',
  },
  'opencontainers/image-spec#1215: an opaque directory in place of a file, the mark first': {
    layers: [[file('a')], [file('a/.wh..wh..opq', ''), directory('a/'), file('a/b')]],
  },
  'a file beneath a file': { layers: [[file('a')], [file('a/b')]], onlyBy: 'nobody' },
  'moby/moby#41261: an owner and a mode of the root': one(owned(33, directory('./', 0o1711)), file('./a')),
  'containers/storage#1288: directories that nothing names': one(file('a/b/c')),
  'moby/moby#18226: a layer of no byte': { layers: [[file('a')], Buffer.alloc(0)] },
  'a layer that comes again': { layers: [[file('a')], [file('.wh.a', '')], [file('a')]], isLinked: true },
  'an archive without an end mark': { layers: [archive([file('a')], { isWhole: false })] },
  'an archive behind an archive': { layers: [Buffer.concat([archive([file('a')]), archive([file('b')])])] },
  'a file that comes twice': { ...one(file('a'), file('a', 'xx')), onlyBy: 'us' },
  'attributes of another system': one(
    pax({ 'SCHILY.xattr.com.apple.quarantine': 'q', 'LIBARCHIVE.xattr.com.apple.quarantine': 'cQ' }),
    file('a'),
    file('._a'),
  ),
  'a comment for all, as git has it': one(pax({ comment: 'f00' }, 'g'), file('a')),
  'awslabs/soci-snapshotter#382: gzip with a name, a comment and more': {
    pack: (tar) => {
      const more = [
        Buffer.of(0x1f, 0x8b, 8, 0x1c, 0, 0, 0, 0, 0, 3, 4, 0, 1, 2, 0, 0),
        Buffer.from('name\0word\0'),
      ];
      return Buffer.concat([...more, gzipSync(tar).subarray(10)]);
    },
  },
  'gzip before zeros': { pack: (tar) => Buffer.concat([gzipSync(tar), Buffer.alloc(512)]), onlyBy: 'nobody' },
  bzip2: { pack: (tar) => execFileSync('bzip2', ['-c'], { input: tar }) },
  'an archive of a directory': { prefix: './' },
  'a tag that is none': { tags: ['<none>:<none>'], onlyBy: 'us' },
  'a history of more layers': {
    about: { history: [{ created_by: 'x' }, { empty_layer: true }, { created_by: 'y' }] },
  },
  'a time that is none': { about: { created: '' }, onlyBy: 'nobody' },
  'more digests than layers': {
    about: { rootfs: { type: 'layers', diff_ids: ['0', '1'].map((each) => `sha256:${each.repeat(64)}`) } },
    onlyBy: 'nobody',
  },
  'no root filesystem': { about: { rootfs: null }, onlyBy: 'nobody' },
  'another platform': { about: { architecture: 'arm64' }, onlyBy: 'podman' },
  'settings of builds and checks': {
    config: {
      ...{ Healthcheck: { Test: ['CMD', 'x'], Interval: 1e9 }, OnBuild: ['RUN x'], Shell: ['sh'] },
      ...{ Volumes: { '/data': {}, '': {} }, StopTimeout: 5, ArgsEscaped: true, Cmd: ['a b'] },
    },
  },
  'a health check that is a text': { config: { Healthcheck: { Test: 'CMD x' } }, onlyBy: 'nobody' },
  'volumes that are a list': { config: { Volumes: ['/data'] }, onlyBy: 'nobody' },
  'an environment of odd lines': { config: { Env: ['A=1', 'A=2', 'B', '=C', '', 'E=a\nb'] } },
  'ports of every kind': {
    config: {
      ExposedPorts: { '80': {}, '80/TCP': {}, '-1/tcp': {}, '99999': {}, '80-90/tcp': {}, '': {}, '/': {} },
    },
  },
};

/** As docker saves it. */
function save(input: Input): Buffer {
  const { config = {}, layers = [[file('hello')]], pack = (tar) => tar } = input;
  const { about = {}, isLinked = false, tags = [NAME], prefix = '' } = input;
  const tars = layers.map((layer) => (Buffer.isBuffer(layer) ? layer : archive(layer)));
  const diffIds = tars.map((tar) => `sha256:${createHash('sha256').update(tar).digest('hex')}`);
  const all = {
    ...{ os: 'linux', architecture: 'amd64', config, rootfs: { type: 'layers', diff_ids: diffIds } },
    ...about,
  };
  const entry = { Config: 'c.json', RepoTags: tags, Layers: tars.map((_, at) => `${at}.tar`) };
  return archive([
    { name: `${prefix}manifest.json`, content: JSON.stringify([entry]) },
    { name: `${prefix}c.json`, content: JSON.stringify(all) },
    ...tars.map((tar, at) => {
      const first = diffIds.indexOf(diffIds[at] ?? '');
      if (isLinked && first < at) return symlink(`${at}.tar`, `${first}.tar`);
      return { name: `${prefix}${at}.tar`, content: pack(tar) };
    }),
  ]);
}

/**
 * Kinds, targets, owners and modes of all but what was made to hold something. The root is of 0555 there and of 0755 here where no
 * layer says what it is of.
 */
function treeOf(dir: string): string[] {
  const found = execFileSync('find', [dir, '-printf', '%P %y %l %U %G %m %s\n'], {
    encoding: 'utf8',
  });
  return found
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replace(/^(\S* d .*) \d+$/, '$1'))
    .filter((line) => !/^ d {2}0 0 [57]55$/.test(line))
    .sort();
}

type Taken = { readonly config: object; readonly tree: readonly string[] } | undefined;

async function takeOurselves(bytes: Buffer): Promise<Taken> {
  async function* pieces(): AsyncGenerator<Buffer> {
    yield bytes;
  }
  const made = await images.import(pieces(), undefined).catch(() => undefined);
  if (made === undefined) return undefined;
  const out = world.path('out');
  const rootfs = images.rootfsPath(await images.obtain(made.digest, 'never'));
  execFileSync('fsck.erofs', [`--extract=${out}`, '--preserve', rootfs], { stdio: 'pipe' });
  await images.delete(made.digest);
  const { labelsOmitted: _, ...config } = made.config;
  return { config, tree: treeOf(out) };
}

function takeByPodman(bytes: Buffer): Taken {
  const path = world.path('saved.tar');
  writeFileSync(path, bytes);
  if (podman('load', '-i', path).status !== 0) return undefined;
  const [{ Config }] = JSON.parse(podman('image', 'inspect', NAME).stdout);
  const tree = treeOf(podman('image', 'mount', NAME).stdout.trim());
  podman('image', 'umount', '--force', NAME);
  podman('rmi', '--force', NAME);
  const { User = '', Env = [], Entrypoint = [], Cmd = [], WorkingDir = '', StopSignal = '' } = Config ?? {};
  const variables: readonly string[] = Env;
  const config = {
    ...{ entrypoint: Entrypoint, cmd: Cmd, user: User, workdir: WorkingDir, stopSignal: StopSignal },
    env: Object.fromEntries(variables.filter((each) => each.indexOf('=') > 0).map((each) => each.split('='))),
    exposedPorts: Object.keys(Config?.ExposedPorts ?? {}).sort(),
    labels: Config?.Labels ?? {},
  };
  return { config, tree };
}

for (const [name, input] of Object.entries({ ...INPUTS, ...REPORTED })) {
  t.test(name, async (t) => {
    const bytes = save(input);
    const [ours, theirs] = [await takeOurselves(bytes), takeByPodman(bytes)];
    const { onlyBy } = input;
    t.equal(ours !== undefined, onlyBy === undefined || onlyBy === 'us', 'we take it, or not');
    t.equal(theirs !== undefined, onlyBy === undefined || onlyBy === 'podman', 'podman takes it, or not');
    if (onlyBy === undefined) t.same(ours, theirs);
  });
}
