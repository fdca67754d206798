// What the store keeps: for how long, for whom, and what becomes of it on a disk that changes it.
import {
  createReadStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { RootfsFinder } from '../../../../host-agent/src/images/index.ts';
import { Profiles } from '../../../../host-agent/src/images/profiles.ts';
import { scaled } from '../../../support/time-scale.ts';
import { type MadeImage, makeLayout, type OpenedImages, skopeo, stored, World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const registry = await world.startRegistry();
const SHARED = { name: 'shared', content: Buffer.alloc(20_000, 's') };
const withLayer = (name: string): MadeImage => ({
  layers: [[SHARED], [{ name, content: name }]],
  config: { Cmd: [name] },
});
const APP = `${registry}/app:latest`;
world.push(APP, withLayer('a'));
world.push(`${registry}/other`, withLayer('b'));

async function importOne(images: OpenedImages, image: MadeImage, owner?: string): Promise<string> {
  const path = world.path('oci.tar');
  skopeo('copy', `oci:${makeLayout(world.path('layout'), image)}:latest`, `oci-archive:${path}`);
  return (await images.import(createReadStream(path), undefined, { owner })).digest;
}

const large = (name: string): MadeImage => ({ layers: [[{ name, content: Buffer.alloc(1_000_000, name) }]] });

t.test('beyond its limit the store drops what nothing uses, the longest unused first', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, { maxBytes: 3_000_000 });
  const digests: string[] = [];
  for (const name of ['a', 'b', 'c']) digests.push(await importOne(images, large(name)));
  t.same(
    images.list().map(({ digest }) => digest),
    digests.slice(1),
  );
  t.equal(stored(dataDir).rootfs, 2);
  await images.close();
});

t.test('who has most of the store gives way, and not who has little of it', async (t) => {
  const images = await world.openImages(world.path('data'), { maxBytes: 3_500_000 });
  const kept = await importOne(images, large('a'), 'acme');
  for (const name of ['b', 'c', 'd', 'e']) await importOne(images, large(name), 'greedy');
  const left = images.list().map(({ digest }) => digest);
  t.equal(left[0], kept, 'though it is the longest unused');
  t.ok(left.length < 5, `${left.length} are left`);
  await images.close();
});

t.test('an image that is about to be used is not evicted, and outlives its deletion', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, { maxBytes: 3_000_000 });
  const [first = '', second] = [await importOne(images, large('a')), await importOne(images, large('b'))];
  const image = await images.obtain(first, 'never');
  await images.obtain(second ?? '', 'never');
  const held = await images.hold(image);
  const third = await importOne(images, large('c'));
  t.same(
    images.list().map(({ digest }) => digest),
    [first, third],
    'the other one went, which was used later',
  );
  t.same(await images.prune({ keepsNamed: false }), [third]);
  await images.delete(first);
  t.ok(existsSync(images.rootfsPath(image)));
  await held?.[Symbol.asyncDispose]();
  await images.prune({ keepsNamed: false });
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
  t.equal(await images.hold(image), undefined, 'it is gone');
  await images.close();
});

t.test('an image that is deleted before it can be held is obtained again', async (t) => {
  const images = await world.openImages(world.path('data'));
  const agent = {
    agentPath: async () => '/agent',
    profiles: new Profiles(world.path('data')),
  };
  let obtained = 0;
  const hasty: Pick<OpenedImages, 'obtain' | 'obtainFile' | 'hold' | 'rootfsPath'> = {
    obtain: async (...call) => {
      obtained += 1;
      const image = await images.obtain(...call);
      if (obtained === 1) await images.delete(APP);
      return image;
    },
    hold: (image) => images.hold(image),
    obtainFile: (...call) => images.obtainFile(...call),
    rootfsPath: (image) => images.rootfsPath(image),
  };
  const finder = new RootfsFinder({ ...agent, images: hasty });
  await using holds = new AsyncDisposableStack();
  const { rootfs } = await finder.find({ kind: 'image', name: APP }, 'missing', { holds });
  t.equal(obtained, 2);
  await images.delete(APP);
  t.ok(existsSync(rootfs.rootfsPath), 'now it stays');
  const never = new RootfsFinder({
    ...agent,
    images: { ...hasty, hold: async () => undefined },
  });
  await t.rejects(never.find({ kind: 'image', name: APP }, 'missing', { holds }), {
    code: 'conflict',
    message: /is deleted again and again while a sandbox is made of it/,
  });
  await images.close();
});

t.test('blobs that a disk has changed are fetched again', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  const blobs = join(dataDir, 'images/oci/blobs/sha256');
  await images.pull(APP, 'missing');
  const whole = new Map(readdirSync(blobs).map((name) => [name, readFileSync(join(blobs, name))]));
  const harm: Readonly<Record<string, (path: string) => void>> = {
    'another byte': (path) => {
      const bytes = readFileSync(path);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
      writeFileSync(path, bytes);
    },
    'cut off': (path) => truncateSync(path, 10),
    empty: (path) => truncateSync(path, 0),
  };
  for (const [what, change] of Object.entries(harm)) {
    for (const name of whole.keys()) change(join(blobs, name));
    t.equal((await images.pull(`${registry}/other`, 'always')).entries, 2, `${what}: a layer that it shares`);
    t.equal((await images.pull(APP, 'always')).entries, 2, `${what}: its manifest and its config`);
    await images.delete(`${registry}/other`);
    await images.delete(APP);
    t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
    await images.pull(APP, 'missing');
    for (const [name, bytes] of whole) t.ok(bytes.equals(readFileSync(join(blobs, name))), what);
  }
  await images.close();
});

t.test('work of a process that is gone is swept, also when another has its number now', async (t) => {
  const dataDir = world.path('data');
  for (const name of [`oci/work-${process.pid}-1-abc`, 'oci/work-1-abc'])
    mkdirSync(join(dataDir, 'images', name), { recursive: true });
  mkdirSync(join(dataDir, 'images/held'));
  writeFileSync(join(dataDir, `images/held/${process.pid}-1-abc`), '');
  const images = await world.openImages(dataDir);
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
  t.same(readdirSync(join(dataDir, 'images/held')), []);
  await images.close();
});

t.test('a link in place of the blobs has nothing of the host removed', async (t) => {
  const [dataDir, outside] = [world.path('data'), world.path('outside')];
  await (await world.openImages(dataDir)).close();
  mkdirSync(outside);
  writeFileSync(join(outside, 'precious'), 'x');
  rmSync(join(dataDir, 'images/oci/blobs/sha256'), { recursive: true });
  symlinkSync(outside, join(dataDir, 'images/oci/blobs/sha256'));
  await world.openImages(dataDir).then(
    (images) => images.close(),
    (error) => t.match(error, { message: 'sha256 is not a file of its own' }),
  );
  t.same(readdirSync(outside), ['precious']);
});

t.test('a data directory may lie behind a link', async (t) => {
  const [real, dataDir] = [world.path('real'), world.path('data')];
  mkdirSync(real);
  symlinkSync(real, dataDir);
  const images = await world.openImages(dataDir);
  t.equal((await images.pull(APP, 'missing')).entries, 2);
  await images.close();
});
