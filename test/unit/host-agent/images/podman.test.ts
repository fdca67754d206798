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
  readonly layers?: readonly (readonly Member[])[];
  readonly pack?: (tar: Buffer) => Buffer;
  /** Absent: both take it. */
  readonly onlyBy?: 'podman' | 'nobody';
};
const file = (name: string, content = 'x'): Member => ({ name, content });
const one = (...members: readonly Member[]): Input => ({ layers: [members] });
const halves = (pack: (bytes: Buffer) => Buffer) => (tar: Buffer) =>
  Buffer.concat([pack(tar.subarray(0, 700)), pack(tar.subarray(700))]);
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

/** As docker saves it. */
function save({ config = {}, layers = [[file('hello')]], pack = (tar) => tar }: Input): Buffer {
  const tars = layers.map((members) => archive(members));
  const diffIds = tars.map((tar) => `sha256:${createHash('sha256').update(tar).digest('hex')}`);
  const about = { os: 'linux', architecture: 'amd64', config, rootfs: { type: 'layers', diff_ids: diffIds } };
  const entry = { Config: 'c.json', RepoTags: [NAME], Layers: tars.map((_, at) => `${at}.tar`) };
  return archive([
    { name: 'manifest.json', content: JSON.stringify([entry]) },
    { name: 'c.json', content: JSON.stringify(about) },
    ...tars.map((tar, at) => ({ name: `${at}.tar`, content: pack(tar) })),
  ]);
}

/** Kinds, targets, owners and modes of all but what was made to hold something. */
function treeOf(dir: string): string[] {
  const found = execFileSync('find', [dir, '-mindepth', '1', '-printf', '%P %y %l %U %G %m %s\n'], {
    encoding: 'utf8',
  });
  return found
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replace(/^(\S+ d .*) \d+$/, '$1'))
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
    env: Object.fromEntries(variables.map((each) => each.split('='))),
    exposedPorts: Object.keys(Config?.ExposedPorts ?? {}).sort(),
    labels: Config?.Labels ?? {},
  };
  return { config, tree };
}

for (const [name, input] of Object.entries(INPUTS)) {
  t.test(name, async (t) => {
    const bytes = save(input);
    const [ours, theirs] = [await takeOurselves(bytes), takeByPodman(bytes)];
    t.equal(ours !== undefined, input.onlyBy === undefined, 'we take it, or not');
    t.equal(theirs !== undefined, input.onlyBy !== 'nobody', 'podman takes it, or not');
    if (input.onlyBy === undefined) t.same(ours, theirs);
  });
}
