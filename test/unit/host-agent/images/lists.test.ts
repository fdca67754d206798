// Lists of images in archives, directories and registries: which one is taken, under which names.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archive } from '../../guest-agent/support/tar-blocks.ts';
import {
  blobs,
  type Descriptor,
  image,
  index,
  MANIFEST,
  manifest,
  named,
  on,
  put,
  writeLayout,
} from './lists.ts';
import { type OpenedImages, World } from './world.ts';

t.setTimeout(scaled(240_000));
const world = new World(t);
const images = await world.openImages(world.path('data'), { allowedDirs: [world.dir] });
t.teardown(() => images.close());

const amd = image('amd64');
const other = image('other');
const arm = image('arm64', { architecture: 'arm64' });
const v2 = image('v2', { variant: 'v2' });
const v3 = image('v3', { variant: 'v3' });
const x86 = image('x86_64', { architecture: 'x86_64', os: 'Linux' });
const nothing = image('nothing', { os: undefined, architecture: undefined });
const attestation = image('attestation', { os: 'unknown', architecture: 'unknown' });
const signature = manifest({
  config: put('{}', 'application/vnd.dev.cosign.config.v1+json'),
  layers: [put('signed', 'application/vnd.dev.cosign.simplesigning.v1+json')],
});
const artifact = manifest({
  artifactType: 'application/spdx+json',
  config: put('{}', 'application/vnd.oci.empty.v1+json'),
  layers: [],
});
const lost = { ...put('lost', MANIFEST), size: 4 };
blobs.delete(lost.digest);
const UNKNOWN = { platform: { os: 'unknown', architecture: 'unknown' } };

/** The file of the one that is taken, and its names. */
type Taken = readonly [file: string, ...refs: string[]];
type Case = { readonly list: readonly Descriptor[]; readonly tag?: string; readonly want: Taken | RegExp };

const CASES: Readonly<Record<string, Case>> = {
  'two platforms': {
    list: [
      { ...arm, ...on('arm64') },
      { ...amd, ...on('amd64') },
    ],
    want: ['amd64'],
  },
  'two platforms that only their configs tell': { list: [arm, amd], want: ['amd64'] },
  'an attestation': {
    list: [
      { ...amd, ...on('amd64') },
      { ...attestation, ...UNKNOWN },
    ],
    want: ['amd64'],
  },
  'an attestation that only its config tells': { list: [attestation, amd], want: ['amd64'] },
  'an attestation of an amd64 platform': { list: [amd, { ...signature, ...on('amd64') }], want: ['amd64'] },
  'a signature and an artifact, with names': {
    list: [
      { ...signature, ...named('sha256-1.sig') },
      { ...artifact, ...named('b') },
      { ...amd, ...named('app:1') },
    ],
    want: ['amd64', 'app:1'],
  },
  'two platforms of one name, by name': {
    list: [
      { ...arm, ...on('arm64'), ...named('app:1') },
      { ...amd, ...on('amd64'), ...named('app:1') },
    ],
    tag: 'app:1',
    want: ['amd64', 'app:1'],
  },
  'two platforms of one name': {
    list: [
      { ...arm, ...named('app:1') },
      { ...amd, ...named('app:1') },
    ],
    want: ['amd64', 'app:1'],
  },
  'one image of two names': {
    list: [
      { ...amd, ...named('one:1') },
      { ...amd, ...named('two:1') },
    ],
    want: ['amd64', 'one:1', 'two:1'],
  },
  'one image of two names, by one of them': {
    list: [
      { ...other, ...named('one:1') },
      { ...other, ...named('two:1') },
    ],
    tag: 'docker.io/library/two:1',
    want: ['other', 'two:1'],
  },
  'a short and a whole name': {
    list: [
      {
        ...amd,
        annotations: {
          'org.opencontainers.image.ref.name': '1',
          'io.containerd.image.name': 'docker.io/library/app:1',
        },
      },
      arm,
    ],
    tag: 'app:1',
    want: ['amd64', 'app:1'],
  },
  'two images of different names': {
    list: [
      { ...amd, ...named('one:1') },
      { ...other, ...named('two:1') },
    ],
    want: / holds 2 images \(it has one:1, two:1\); (?:say which by tag|only one can be taken)$/,
  },
  'a name that is not there': {
    list: [{ ...amd, ...named('one:1') }],
    tag: 'two:1',
    want: /has no image "two:1"; it has one:1/,
  },
  'two images without names': {
    list: [amd, other],
    want: /^the (?:archive|directory) holds 2 images \(none of its images has a tag\); (?:say which|only one)/,
  },
  'the same one twice': { list: [amd, amd], want: ['amd64'] },
  'a later one of the same name': {
    list: [
      { ...other, ...named('app:1') },
      { ...amd, ...named('app:1') },
    ],
    want: ['other', 'app:1'],
  },
  'levels of amd64': {
    list: [
      index([
        { ...v3, ...on('amd64', 'v3') },
        { ...amd, ...on('amd64', 'v1') },
        { ...v2, ...on('amd64', 'v2') },
      ]),
    ],
    want: ['amd64'],
  },
  'no lower level than v2': {
    list: [
      index([
        { ...v3, ...on('amd64', 'v3') },
        { ...v2, ...on('amd64', 'v2') },
      ]),
    ],
    want: ['v2'],
  },
  'levels that only configs tell': { list: [index([v3, v2])], want: ['v2'] },
  'only v3': { list: [{ ...v3, ...on('amd64', 'v3') }], want: ['v3'] },
  'another name of the platform': { list: [{ ...x86, ...on('x86_64') }, arm], want: ['x86_64'] },
  'no word of the platform': { list: [nothing], want: ['nothing'] },
  'only another platform': {
    list: [index([{ ...arm, ...on('arm64', 'v8') }])],
    want: /is for linux\/arm64\/v8; /,
  },
  'only another platform, which only the config tells': { list: [arm], want: /is for linux\/arm64; / },
  'another platform of that name': {
    list: [
      { ...arm, ...named('app:1') },
      { ...amd, ...named('app:2') },
    ],
    tag: 'app:1',
    want: /is for linux\/arm64; sandboxes here run linux\/amd64/,
  },
  'two names, one of them for this platform': {
    list: [
      { ...arm, ...on('arm64'), ...named('app:arm') },
      { ...amd, ...on('amd64'), ...named('app:amd') },
    ],
    want: ['amd64', 'app:amd'],
  },
  windows: { list: [{ ...amd, ...on('amd64', undefined, 'windows') }], want: /is for windows\/amd64; / },
  'lists of lists of lists': {
    list: [
      {
        ...index([
          index([
            index([
              { ...arm, ...on('arm64') },
              { ...amd, ...on('amd64') },
            ]),
          ]),
        ]),
        ...named('a:1'),
      },
    ],
    want: ['amd64', 'a:1'],
  },
  'too many lists of lists': {
    list: [index([index([index([index([index([index([amd])])])])])])],
    want: /holds no image|damaged/,
  },
  'one platform that is not there': {
    list: [
      { ...lost, ...on('arm64') },
      { ...amd, ...on('amd64') },
    ],
    want: ['amd64'],
  },
  'the one of this platform is not there': {
    list: [
      { ...lost, ...on('amd64') },
      { ...arm, ...on('arm64') },
    ],
    want: /damaged: .*no such file/,
  },
  'only attestations': { list: [{ ...attestation, ...UNKNOWN }, signature], want: /holds no image/ },
  nothing: { list: [], want: /holds no image/ },
};

/** Which file it has tells which it is. */
async function fileOf(text: string): Promise<string> {
  const found = await images.obtain(text, 'never');
  const out = world.path('out');
  execFileSync('fsck.erofs', [`--extract=${out}`, images.rootfsPath(found)], { stdio: 'pipe' });
  return execFileSync('ls', [out], { encoding: 'utf8' }).trim();
}

async function* tarOf(dir: string): AsyncGenerator<Buffer> {
  yield execFileSync('tar', ['-C', dir, '-c', '.'], { maxBuffer: 2 ** 28 });
}

const removeAll = async (images: OpenedImages) => {
  for (const { digest } of images.list()) await images.delete(digest);
};

for (const [name, { list, tag, want }] of Object.entries(CASES)) {
  t.test(name, async (t) => {
    const dir = writeLayout(world.path('layout'), list);
    const kinds: Record<string, () => Promise<{ digest: string; refs: readonly string[] }>> = {
      archive: () => images.import(tarOf(dir), tag),
      // Nobody can say which image of a directory is meant.
      ...(tag === undefined && {
        directory: async () => {
          const { id } = await images.obtainFile(dir);
          return images.get(`sha256:${id}`);
        },
      }),
    };
    for (const [kind, take] of Object.entries(kinds)) {
      await removeAll(images);
      if (want instanceof RegExp) await t.rejects(take(), { code: 'invalid_argument', message: want }, kind);
      else {
        const { digest, refs } = await take();
        t.same([await fileOf(digest), ...refs], want, kind);
      }
    }
  });
}

t.test('an archive of docker save that lists one image twice, under a name each', async (t) => {
  await removeAll(images);
  const tar = archive([{ name: 'a', content: 'x' }]);
  const config = {
    os: 'linux',
    architecture: 'amd64',
    rootfs: { type: 'layers', diff_ids: [`sha256:${createHash('sha256').update(tar).digest('hex')}`] },
  };
  const entry = (tag: string) => ({ Config: 'c.json', RepoTags: [tag], Layers: ['l.tar'] });
  async function* saved(): AsyncGenerator<Buffer> {
    yield archive([
      { name: 'manifest.json', content: JSON.stringify([entry('one:1'), entry('two:1')]) },
      { name: 'c.json', content: JSON.stringify(config) },
      { name: 'l.tar', content: tar },
    ]);
  }
  t.same((await images.import(saved(), undefined)).refs, ['one:1', 'two:1']);
});

t.test('lists of a registry', async (t) => {
  const server = createServer((request, response) => {
    const wanted = request.url?.split('/').at(-1) ?? '';
    const bytes = blobs.get(wanted) ?? blobs.get(tags.get(wanted) ?? '');
    if (request.url === '/v2/') response.end('{}');
    else if (bytes === undefined) response.writeHead(404).end();
    else {
      const type = /"mediaType":"(application\/vnd.oci.image.(?:manifest|index)[^"]+)"/.exec(
        String(bytes),
      )?.[1];
      response.writeHead(200, { 'content-type': type ?? 'application/octet-stream' }).end(bytes);
    }
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => server.close().closeAllConnections());
  const registry = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const LISTS: Readonly<Record<string, readonly [list: readonly Descriptor[], want: string | RegExp]>> = {
    attestation: [
      [
        { ...amd, ...on('amd64') },
        { ...attestation, ...UNKNOWN },
      ],
      'amd64',
    ],
    levels: [
      [
        { ...v3, ...on('amd64', 'v3') },
        { ...v2, ...on('amd64', 'v2') },
      ],
      'v2',
    ],
    lists: [
      [
        index([
          { ...arm, ...on('arm64') },
          { ...index([{ ...amd, ...on('amd64') }]), ...on('amd64') },
        ]),
      ],
      'amd64',
    ],
    names: [[{ ...x86, ...on('x86_64') }], 'x86_64'],
    arm: [[{ ...arm, ...on('arm64') }], /^cannot pull \S+:arm: the image is for linux\/arm64; /],
    none: [[{ ...attestation, ...UNKNOWN }], /^cannot pull \S+:none: .*no image/],
  };
  const tags = new Map(Object.entries(LISTS).map(([tag, [list]]) => [tag, index(list).digest]));
  for (const [tag, [, want]] of Object.entries(LISTS)) {
    await removeAll(images);
    const name = `${registry}/app:${tag}`;
    if (want instanceof RegExp)
      await t.rejects(images.pull(name, 'missing'), { code: 'upstream', message: want });
    else {
      t.same((await images.pull(name, 'missing')).refs, [name]);
      t.equal(await fileOf(name), want, tag);
    }
  }
});
