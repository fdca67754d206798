// Images that hosts share through a bucket: one pulls or imports, the others fetch.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';
import { scaled } from '../../../support/time-scale.ts';
import { makeLayout, skopeo, stored, World } from './world.ts';

t.setTimeout(scaled(300_000));
const SIGNAL = new AbortController().signal;
const world = new World(t);

async function eventually<T>(find: () => Promise<T | undefined>, what: string): Promise<T> {
  for (const untilMs = performance.now() + scaled(30_000); ; await sleep(20)) {
    const found = await find();
    if (found !== undefined) return found;
    if (performance.now() > untilMs) throw new Error(`there is no ${what}`);
  }
}

async function start(t: Test) {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const { collector } = openTestStore(t, settings);
  const open = async () => {
    const dataDir = world.path('data');
    const { store } = openTestStore(t, settings);
    const images = await world.openImages(dataDir, { depot: store.images });
    t.teardown(() => images.close());
    return { images, dataDir };
  };
  const hasNames = (count: number) =>
    eventually(
      async () => ((await collector.stats(SIGNAL)).images === count ? true : undefined),
      `${count} images in the bucket`,
    );
  return { s3, collector, open, hasNames };
}

function archiveOf(content: string, tag: string) {
  const [layout, path] = [world.path('layout'), world.path('saved.tar')];
  makeLayout(layout, { layers: [[{ name: 'a', content }]], config: { Cmd: ['/a'], Env: ['A=b'] } });
  skopeo('copy', `oci:${layout}:latest`, `docker-archive:${path}:${tag}`);
  return async function* () {
    yield readFileSync(path);
  };
}

t.test('an imported image is fetched by another host, whose registry does not have it', async (t) => {
  const { s3, collector, open, hasNames } = await start(t);
  const [one, two] = [await open(), await open()];
  const tag = 'registry.invalid/it:v1';
  const made = await one.images.import(archiveOf('first', tag)(), undefined);
  await hasNames(1);
  const lines: string[] = [];
  const fetched = await eventually(
    () => two.images.pull(tag, 'missing', { onProgress: (line) => lines.push(line) }).catch(() => undefined),
    'the name',
  );
  t.match(fetched, { digest: made.digest, refs: made.refs, config: made.config, sizeBytes: made.sizeBytes });
  t.match(lines, [/from the snapshot store/]);
  t.match(stored(two.dataDir), { rootfs: 1, work: 0 });
  t.same(
    readFileSync(two.images.rootfsPath(await two.images.obtain(tag, 'never'))),
    readFileSync(one.images.rootfsPath(await one.images.obtain(tag, 'never'))),
  );
  const third = await open();
  t.match(
    await third.images.pull(made.digest, 'missing'),
    { digest: made.digest, refs: [] },
    'by its digest',
  );
  await t.rejects((await open()).images.pull(tag, 'never'), { code: 'not_found' });
  await t.rejects((await open()).images.pull(`sha256:${'0'.repeat(64)}`, 'missing'), { code: 'not_found' });

  t.match(await collector.verify(true, SIGNAL), { snapshots: 0, images: 1, problems: [] });
  t.match(await collector.collect(SIGNAL, 0), { images: 1, removed: 0 }, 'nothing of it is collected');

  // A name moves to another image, and the host that has the older one does not take it back.
  const other = await one.images.import(archiveOf('second', tag)(), undefined);
  await hasNames(2);
  await eventually(async () => {
    const { digest } = await (await open()).images.pull(tag, 'missing');
    return digest === other.digest ? true : undefined;
  }, 'newer image');

  await one.images.delete(tag);
  await hasNames(1);
  await t.rejects((await open()).images.pull(tag, 'missing'), { code: 'upstream' }, 'no name leads to it');
  const HOUR_MS = 3_600_000;
  s3.age(25 * HOUR_MS);
  t.match(await collector.collect(SIGNAL), { images: 1, removed: 1 }, 'what only it needed');
  s3.age(30 * 24 * HOUR_MS);
  t.match(await collector.collect(SIGNAL), { images: 0, removed: 1 }, 'one that had no name for a month');
});

t.test('the registry is asked where the bucket cannot help', async (t) => {
  const { s3, open, hasNames } = await start(t);
  const registry = await world.startRegistry();
  const name = `${registry}/app:latest`;
  world.push(name, { layers: [[{ name: 'a', content: 'pulled' }]] });
  const one = await open();
  const made = await one.images.pull(name, 'missing');
  await hasNames(1);
  world.push(name, { layers: [[{ name: 'a', content: 'newer' }]] });
  const two = await open();
  t.not((await two.images.pull(name, 'always')).digest, made.digest, 'a pull that asks the registry');
  await hasNames(2);
  for (const [key, object] of s3.objects) if (key.includes('/chunks/')) object.body = Buffer.alloc(100);
  const three = await open();
  t.ok((await three.images.pull(name, 'missing')).digest, 'damaged');
  t.match(stored(three.dataDir), { work: 0 });
});

t.test('what the bucket does not take now it takes later, and a delete reaches it', async (t) => {
  const { s3, open, hasNames } = await start(t);
  const [first, second] = ['registry.invalid/a:v1', 'registry.invalid/b:v1'];
  const one = await open();
  s3.fault = (method) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : undefined);
  await one.images.import(archiveOf('first', first)(), undefined);
  await eventually(async () => (s3.count('PUT', /./) > 0 ? true : undefined), 'refused upload');
  await one.images.import(archiveOf('second', second)(), undefined);
  s3.fault = () => undefined;
  await hasNames(2);
  await one.images.delete(first);
  await one.images.import(archiveOf('third', first)(), undefined);
  const names = () => [...s3.objects.keys()].filter((key) => key.includes('/names/')).length;
  await eventually(async () => (names() === 2 ? true : undefined), 'name again');

  // No host has it any more: any one of them deletes it.
  await one.images.prune({ keepsNamed: false });
  t.equal(one.images.list().length, 0);
  t.equal(names(), 2, 'what is pruned stays in the bucket');
  const two = await open();
  await two.images.delete(second);
  await t.rejects(two.images.delete(second), { code: 'not_found' });
  t.equal(names(), 1);

  s3.fault = () => ({ status: 503, code: 'SlowDown' });
  await t.rejects(two.images.pull(first, 'missing'), { code: 'upstream' }, 'as the registry says');
  t.match(stored(two.dataDir), { rootfs: 0, work: 0 });
  const left = new AbortController();
  const pulling = two.images.pull(first, 'missing', { signal: left.signal });
  left.abort(new Error('the client left'));
  await t.rejects(pulling, { message: 'the client left' });
});
