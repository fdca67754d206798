// Imports of archives as others save them.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { type Dirent, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archive, type Member, pax } from '../../guest-agent/support/tar-blocks.ts';
import { type MadeImage, makeLayout, type OpenedImages, skopeo, stored, World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const SMALL: MadeImage = {
  layers: [[{ name: 'hello', content: 'hello' }]],
  config: { Entrypoint: ['/hello'] },
};

async function* inPieces(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += 700) yield bytes.subarray(at, at + 700);
}

/** What `docker save` writes of these images. */
function dockerArchive(...names: readonly string[]): Buffer {
  const path = world.path('docker.tar');
  const layout = makeLayout(world.path('layout'), SMALL);
  skopeo(
    'copy',
    `oci:${layout}:latest`,
    `docker-archive:${path}${names[0] === undefined ? '' : `:${names[0]}`}`,
    ...names.slice(1).flatMap((name) => ['--additional-tag', name]),
  );
  return readFileSync(path);
}

/** An archive as docker saves it, of layers as they are, or packed in a way of its own. */
function saved(tags: readonly string[], layers: readonly Buffer[], pack = (tar: Buffer) => tar): Buffer {
  const diffIds = layers.map((tar) => `sha256:${createHash('sha256').update(tar).digest('hex')}`);
  const config = { os: 'linux', architecture: 'amd64', rootfs: { type: 'layers', diff_ids: diffIds } };
  const names = layers.map((_, at) => `${at}.tar`);
  return archive([
    {
      name: 'manifest.json',
      content: JSON.stringify([{ Config: 'config.json', RepoTags: tags, Layers: names }]),
    },
    { name: 'config.json', content: JSON.stringify(config) },
    ...layers.map((tar, at) => ({ name: names[at] ?? '', content: pack(tar) })),
  ]);
}

const importOf = (images: OpenedImages, bytes: Buffer, tag?: string) => images.import(inPieces(bytes), tag);

t.test('archives of docker save: plain, gzip and zstd are one image', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  const plain = dockerArchive('foo/bar:v2', 'foo/bar:v3');
  const made = await importOf(images, plain);
  t.match(made, { sourceRef: 'foo/bar:v2', refs: ['foo/bar:v2', 'foo/bar:v3'], entries: 1 });
  for (const packed of [gzipSync(plain), zstdCompressSync(plain)])
    t.equal((await importOf(images, packed)).digest, made.digest);
  t.equal((await importOf(images, plain, 'docker.io/foo/bar:v3')).digest, made.digest);
  t.same(
    await images.import(inPieces(dockerArchive()), undefined).then(({ digest }) => digest),
    made.digest,
    'without a name',
  );
  t.same(stored(dataDir), { blobs: 3, rootfs: 1, work: 0 });
  await images.close();
});

t.test('archives of an OCI layout', async (t) => {
  const images = await world.openImages(world.path('data'));
  const path = world.path('oci.tar');
  const layout = makeLayout(world.path('layout'), SMALL, 'v1');
  skopeo('copy', `oci:${layout}:v1`, `oci-archive:${path}:v1`);
  t.equal((await importOf(images, readFileSync(path))).entries, 1);
  const byTar = execFileSync('tar', ['-C', layout, '-c', '.']);
  t.equal((await importOf(images, byTar)).entries, 1, 'packed by tar');
  await images.close();
});

t.test('several images in one archive', async (t) => {
  const images = await world.openImages(world.path('data'));
  const list = JSON.stringify([
    { Config: 'a.json', RepoTags: ['one:v1'], Layers: [] },
    { Config: 'b.json', RepoTags: ['two:v1', 'two:v2'], Layers: [] },
  ]);
  const both = archive([{ name: 'manifest.json', content: list }]);
  const message = /holds 2 images \(it has one:v1, two:v1, two:v2\); say which by tag/;
  await t.rejects(importOf(images, both), { code: 'invalid_argument', message });
  await t.rejects(importOf(images, both, 'three'), {
    code: 'invalid_argument',
    message: /has no image "three"; it has one:v1/,
  });
  await images.close();
});

t.test('what is no archive of images', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  const fails = (name: string, bytes: Buffer, message: RegExp) =>
    t.rejects(importOf(images, bytes), { code: 'invalid_argument', message }, name);
  const listing = (value: unknown, ...more: Member[]) =>
    archive([{ name: 'manifest.json', content: JSON.stringify(value) }, ...more]);
  await fails('nothing', Buffer.alloc(0), /empty/);
  await fails('text', Buffer.from('hello\n'.repeat(1000)), /not a tar archive|damaged/);
  await fails('another archive', archive([{ name: 'a', content: 'x' }]), /holds no images/);
  await fails('a cut archive', dockerArchive('a:b').subarray(0, 2000), /cut off|holds no images/);
  await fails('a cut gzip', gzipSync(dockerArchive('a:b')).subarray(0, 300), /damaged/);
  await fails('a list that is none', listing({ a: 1 }), /manifest.json of the archive does not list images/);
  await fails('a list of nothing', listing([]), /holds no image/);
  await fails('no JSON', archive([{ name: 'manifest.json', content: '{' }]), /does not list images/);
  await fails(
    'a config that is not there',
    listing([{ Config: 'a.json', RepoTags: [], Layers: [] }]),
    /damaged/,
  );
  await fails(
    'a config that is no JSON',
    listing(
      [{ Config: 'a.json', RepoTags: [], Layers: ['l.tar'] }],
      { name: 'a.json', content: 'x' },
      { name: 'l.tar', content: archive([]) },
    ),
    /damaged|OCI/,
  );
  await fails(
    'a layer that leads out',
    listing(
      [{ Config: 'a.json', RepoTags: [], Layers: ['l.tar'] }],
      {
        name: 'a.json',
        content: JSON.stringify({
          os: 'linux',
          architecture: 'amd64',
          rootfs: { type: 'layers', diff_ids: [] },
        }),
      },
      { name: 'l.tar', content: archive([{ name: '../../etc/cron.d/x', content: 'x' }]) },
    ),
    /damaged|leads out|layers/,
  );
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
  t.same(images.list(), []);
  await images.close();
});

t.test('an OCI archive writes nowhere but into its own image, and reads nothing of the host', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  const layout = makeLayout(world.path('layout'), SMALL);
  const members = (without = ''): Member[] =>
    (readdirSync(layout, { recursive: true, withFileTypes: true }) as Dirent[])
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => without === '' || !path.endsWith(without))
      .map((path) => ({ name: relative(layout, path), content: readFileSync(path) }));
  const target = 'f'.repeat(64);
  const blobs = `${dataDir}/images/oci/blobs`;
  const poison: readonly Member[][] = [
    [
      { name: 'a', flag: '2', target: blobs },
      { name: `a/sha256/${target}`, content: 'poison' },
    ],
    [{ name: `../../blobs/sha256/${target}`, content: 'poison' }],
    [{ name: `${blobs}/sha256/${target}`, content: 'poison' }],
  ];
  for (const each of poison) {
    t.equal((await importOf(images, archive([...each, ...members()]))).entries, 1);
    t.notOk(readdirSync(`${blobs}/sha256`).includes(target), 'no other image has its blob replaced');
  }
  const [manifest] = JSON.parse(readFileSync(`${layout}/index.json`, 'utf8')).manifests;
  const hex: string = manifest.digest.slice(7);
  const name = `blobs/sha256/${hex}`;
  const fails = (what: string, more: readonly Member[], message: RegExp) =>
    t.rejects(
      importOf(images, archive([...members(hex), ...more])),
      { code: 'invalid_argument', message },
      what,
    );
  for (const flag of ['1', '2'] as const)
    await fails(
      'a link',
      [{ name, flag, target: '/dev/zero' }],
      /is not a plain file, and all of an OCI layout are/,
    );
  await fails('a directory', [{ name, flag: '5' }], /is not a plain file/);
  await fails(
    'holes',
    [pax({ 'GNU.sparse.size': String(2 ** 40), 'GNU.sparse.map': '0,1' }), { name, content: 'x' }],
    /is not a plain file/,
  );
  await fails('another manifest', [{ name, content: '{}' }], /damaged|manifest|OCI/);
  await fails('no manifest', [], /damaged/);
  t.equal(images.list().length, 1);
  await images.close();
});

t.test(
  'what little was sent costs little: archives and layers that unpack to far more are refused',
  async (t) => {
    const dataDir = world.path('data');
    const images = await world.openImages(dataDir);
    const zeros = Buffer.alloc(160 << 20);
    const of = (name: string, bytes: number) => archive([{ name, content: zeros.subarray(0, bytes) }]);
    const big = of('zeros', zeros.length);
    const BOMBS: Readonly<Record<string, Buffer>> = {
      'a packed archive': zstdCompressSync(saved(['a:b'], [big])),
      'a packed layer': saved(['a:b'], [big], zstdCompressSync),
      'packed layers that are small one by one': saved(
        ['a:b'],
        ['a', 'b'].map((name) => of(name, 70 << 20)),
        zstdCompressSync,
      ),
    };
    for (const [name, bytes] of Object.entries(BOMBS)) {
      t.ok(bytes.length < 200_000, `${name}: ${bytes.length} bytes`);
      await t.rejects(
        importOf(images, bytes),
        {
          code: 'invalid_argument',
          message: /unpacks to, more than|a blob has more than|layers of the archive have/,
        },
        name,
      );
    }
    t.same(images.list(), []);
    await images.close();
  },
);

t.test('labels, names and configs of an image have their bounds', async (t) => {
  const images = await world.openImages(world.path('data'));
  const importLayout = (config: Readonly<Record<string, unknown>>) => {
    const layout = makeLayout(world.path('layout'), { layers: [[{ name: 'a', content: 'x' }]], config });
    return importOf(images, execFileSync('tar', ['-C', layout, '-c', '.'], { maxBuffer: 2 ** 28 }));
  };
  const long = 'x'.repeat(60_000);
  const labelled = await importLayout({ Labels: { first: 'kept', a: long, b: long, last: 'kept' } });
  t.same(Object.keys(labelled.config.labels), ['first', 'a', 'last']);
  t.equal(labelled.config.labelsOmitted, 1);
  await t.rejects(importLayout({ Env: [`A=${long}`, `B=${long}`, `C=${long}`] }), {
    code: 'invalid_argument',
    message: /has a config of \d+ bytes without its labels; at most 131072 are kept/,
  });
  const tags = (count: number) =>
    saved(
      Array.from({ length: count }, (_, n) => `many:v${n}`),
      [archive([{ name: 'b', content: 'x' }])],
    );
  t.equal((await importOf(images, tags(64))).refs.length, 64);
  await t.rejects(importOf(images, tags(65)), {
    code: 'invalid_argument',
    message: /65 names, and may have 64/,
  });
  await images.close();
});
