// Images that hosts share through a bucket: one pulls or imports, the others fetch.
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import {
  archiveOf as archive,
  DAY_MS,
  eventually,
  SIGNAL,
  start as startHosts,
  startNamedRegistry,
} from './shared-hosts.ts';
import { stored, World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);

const start = (t: Test) => startHosts(t, world);
const archiveOf = (...args: [content: string, tag: string, ...more: string[]]) => archive(world, ...args);

t.test('an imported image is fetched by another host, whose registry does not have it', async (t) => {
  const { s3, collector, open, leads } = await start(t);
  const [one, two] = [await open(), await open()];
  const tag = 'registry.invalid/it:v1';
  const made = await one.images.import(archiveOf('first', tag)(), undefined);
  await leads(tag, made.digest);
  const lines: string[] = [];
  const fetched = await two.images.pull(tag, 'missing', { onProgress: (line) => lines.push(line) });
  t.match(fetched, { digest: made.digest, refs: made.refs, config: made.config, sizeBytes: made.sizeBytes });
  t.match(lines, [/from the snapshot store/]);
  t.match(stored(two.dataDir), { rootfs: 1, work: 0 });
  t.same(
    readFileSync(two.images.rootfsPath(await two.images.obtain(tag, 'never'))),
    readFileSync(one.images.rootfsPath(await one.images.obtain(tag, 'never'))),
  );
  await t.rejects((await open()).images.pull(tag, 'never'), { code: 'not_found' });
  const fifth = (await open()).images;
  for (const text of [`sha256:${'0'.repeat(64)}`, made.digest.slice(0, 20)])
    await t.rejects(fifth.obtain(text, 'missing'), { code: 'not_found' }, text);
  t.equal(`sha256:${(await fifth.obtain(made.digest, 'missing')).id}`, made.digest, 'by its digest, too');

  t.match(await collector.verify(true, SIGNAL), { snapshots: 0, images: 1, problems: [] });
  t.match(await collector.collect(SIGNAL, 0), { images: 1, removed: 0 }, 'nothing of it is collected');

  // A name moves to another image, and the host that has the older one does not take it back.
  const other = await one.images.import(archiveOf('second', tag)(), undefined);
  await leads(tag, other.digest);
  await two.images.import(archiveOf('first', 'registry.invalid/it:v2')(), undefined);
  await leads('registry.invalid/it:v2', made.digest);
  await leads(tag, other.digest);

  await one.images.delete(tag);
  await leads(tag, undefined);
  await t.rejects((await open()).images.pull(tag, 'missing'), { code: 'upstream' }, 'no name leads to it');
  s3.age(2 * DAY_MS);
  t.match(await collector.collect(SIGNAL), { images: 2, removed: 0 }, 'the image');
  t.match(await collector.collect(SIGNAL), { images: 1, removed: 1 }, 'then what only it needed');
  t.equal((await (await open()).images.pull('registry.invalid/it:v2', 'missing')).digest, made.digest);
});

t.test('a pull or an import puts its own name only, and the later one has it', async (t) => {
  const { s3, open, leads, lookUp } = await start(t);
  const app = 'registry.invalid/app:latest';
  const [one, two] = [await open(), await open()];
  const old = await one.images.import(archiveOf('old', app)(), undefined);
  await leads(app, old.digest);
  // An upload that ends late: its import began first.
  let release: (() => void) | undefined;
  const late = new Promise<void>((resolve) => {
    release = resolve;
  });
  s3.fault = async (method, key) => {
    if (method === 'PUT' && key.includes('/images/')) {
      s3.fault = () => undefined;
      await late;
    }
    return undefined;
  };
  await one.images.import(archiveOf('late', app)(), undefined);
  await eventually(async () => (s3.fault('', '') === undefined ? true : undefined), 'upload');
  await sleep(5);
  const newest = await two.images.import(archiveOf('new', app)(), undefined);
  await leads(app, newest.digest);
  release?.();
  // Any client may have a host send its older image again, under another name.
  const other = 'registry.invalid/other:1';
  await one.images.import(archiveOf('late', other)(), undefined);
  await eventually(async () => await lookUp(other), 'other name');
  t.equal(await lookUp(app), newest.digest);
});

t.test('hosts that change one name at the same time lose no later one', async (t) => {
  const { open, leads, lookUp } = await start(t);
  const tag = 'registry.invalid/busy:1';
  const hosts = [await open(), await open(), await open()];
  const made = [];
  for (const [n, { images }] of hosts.entries()) {
    made.push(await images.import(archiveOf(`content ${n}`, tag, `registry.invalid/done:${n}`)(), undefined));
    await sleep(5);
  }
  for (const [n, { digest }] of made.entries()) await leads(`registry.invalid/done:${n}`, digest);
  await leads(tag, made.at(-1)!.digest);
  // A delete on a host whose image is an older one leaves the name.
  await hosts[0]!.images.delete(made[0]!.digest);
  t.equal(await lookUp(tag), made.at(-1)!.digest);
});

t.test('a delete takes names only, and none comes back by an upload that runs', async (t) => {
  const { s3, open, leads, lookUp, keys } = await start(t);
  const [first, second] = ['registry.invalid/a:v1', 'registry.invalid/b:v1'];
  const [one, two] = [await open(), await open()];
  const made = await one.images.import(archiveOf('same', first)(), undefined);
  await leads(first, made.digest);
  await two.images.import(archiveOf('same', second)(), undefined);
  await leads(second, made.digest);
  await one.images.delete(first);
  t.equal(await lookUp(first), undefined);
  t.equal(keys('/images/').length, 1, 'another host has a name for it');
  t.equal((await (await open()).images.pull(second, 'missing')).digest, made.digest);

  const [hit, sent] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  s3.fault = async (method, key) => {
    if (method !== 'PUT' || !key.includes('/images/')) return undefined;
    sent.resolve();
    await hit.promise;
    return undefined;
  };
  const third = 'registry.invalid/c:v1';
  await one.images.import(archiveOf('third', third, 'registry.invalid/c:v2')(), undefined);
  await sent.promise;
  await one.images.delete(third);
  hit.resolve();
  await eventually(async () => await lookUp('registry.invalid/c:v2'), 'the name that stays');
  t.equal(await lookUp(third), undefined);
});

t.test('what the bucket does not take now it takes later, and a delete reaches it', async (t) => {
  const { s3, open, leads, lookUp, keys } = await start(t);
  const [first, second] = ['registry.invalid/a:v1', 'registry.invalid/b:v1'];
  let one = await open();
  s3.fault = (method) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : undefined);
  await one.images.import(archiveOf('first', first)(), undefined);
  await eventually(async () => (s3.count('PUT', /./) > 0 ? true : undefined), 'refused upload');
  const b = await one.images.import(archiveOf('second', second)(), undefined);
  s3.fault = () => undefined;
  await leads(second, b.digest);
  await eventually(async () => await lookUp(first), 'first name');
  s3.fault = (method) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : undefined);
  await one.images.delete(first);
  s3.fault = () => undefined;
  await leads(first, undefined);
  const third = await one.images.import(archiveOf('third', first)(), undefined);
  await leads(first, third.digest);

  // A later daemon of the host goes on with a delete.
  s3.fault = (method) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : undefined);
  await one.images.delete(first);
  await one.images.close();
  s3.fault = () => undefined;
  t.equal(await lookUp(first), third.digest);
  one = await open({}, one.dataDir);
  await leads(first, undefined);

  // No host has it any more: any one of them deletes it.
  await one.images.prune({ keepsNamed: false });
  t.equal(one.images.list().length, 0);
  t.equal(keys('/names/').length, 2, 'what is pruned stays in the bucket');
  const two = await open();
  await two.images.delete(second);
  await t.rejects(two.images.delete(second), { code: 'not_found' });
  await leads(second, undefined);

  s3.fault = () => ({ status: 503, code: 'SlowDown' });
  await t.rejects(two.images.pull(first, 'missing'), { code: 'upstream' }, 'as the registry says');
  t.match(stored(two.dataDir), { rootfs: 0, work: 0 });
  const left = new AbortController();
  const pulling = two.images.pull(first, 'missing', { signal: left.signal });
  left.abort(new Error('the client left'));
  await t.rejects(pulling, { message: 'the client left' });
});

t.test('the registry is asked where the bucket cannot help, and what is damaged is sent again', async (t) => {
  const { s3, collector, open, leads, keys } = await start(t);
  const registry = await startNamedRegistry(t, world, 'registry.test');
  const name = 'registry.test/app:latest';
  world.push(`${registry}/app:latest`, { layers: [[{ name: 'a', content: 'pulled' }]] });
  const one = await open();
  const made = await one.images.pull(name, 'missing');
  await leads(name, made.digest);
  world.push(`${registry}/app:latest`, { layers: [[{ name: 'a', content: 'newer' }]] });
  const two = await open();
  const newer = await two.images.pull(name, 'always');
  t.not(newer.digest, made.digest, 'a pull that asks the registry');
  await leads(name, newer.digest);
  for (const key of keys('/chunks/')) s3.objects.get(key)!.body = Buffer.alloc(100);
  const three = await open();
  t.equal((await three.images.pull(name, 'missing')).digest, newer.digest, 'damaged');
  t.match(stored(three.dataDir), { work: 0 });
  const four = await open();
  await eventually(async () => {
    const { problems } = await collector.verify(true, SIGNAL);
    return problems.every(({ snapshot }) => `sha256:${snapshot}` !== newer.digest) ? true : undefined;
  }, 'whole image');
  const lines: string[] = [];
  await four.images.pull(name, 'missing', { onProgress: (line) => lines.push(line) });
  t.match(lines, [/snapshot store/]);
  t.equal(lines.length, 1, 'from the bucket alone');

  // A server that sends nothing.
  const five = await open({ sharedIdleMs: 200 });
  s3.fault = (method, key) => (method === 'GET' && key.includes('/chunks/') ? 'hang' : undefined);
  t.equal((await five.images.pull(name, 'missing')).digest, newer.digest, 'the registry again');
  s3.fault = () => undefined;

  // A pull that ends while an older image is fetched.
  const six = await open();
  const [asked, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  s3.fault = async (method, key) => {
    if (method !== 'GET' || !key.includes('/chunks/')) return undefined;
    asked.resolve();
    await go.promise;
    return undefined;
  };
  const slow = six.images.pull(name, 'missing');
  await asked.promise;
  world.push(`${registry}/app:latest`, { layers: [[{ name: 'a', content: 'newest' }]] });
  const newest = await six.images.pull(name, 'always');
  go.resolve();
  t.equal((await slow).digest, newest.digest, 'the newer one stays');
  t.equal(six.images.get(name).digest, newest.digest);
});

t.test(
  'chunks that the bucket lost come again with the next import, also of a host that sent them',
  async (t) => {
    const { s3, collector, open, leads, keys } = await start(t);
    const tag = 'registry.invalid/lost:1';
    const one = await open();
    const made = await one.images.import(archiveOf('lost', tag)(), undefined);
    await leads(tag, made.digest);
    for (const key of keys('/chunks/')) s3.objects.delete(key);
    t.not((await collector.verify(false, SIGNAL)).problems.length, 0);
    await one.images.import(archiveOf('lost', tag)(), undefined);
    await eventually(async () => {
      const { problems } = await collector.verify(true, SIGNAL);
      return problems.length === 0 ? true : undefined;
    }, 'whole image');
    t.equal((await (await open()).images.pull(tag, 'missing')).digest, made.digest);
  },
);

t.test('images of host files, and of registries of the host itself, are not shared', async (t) => {
  const { s3, open, leads } = await start(t);
  const path = world.path('file.tar');
  for await (const bytes of archiveOf('private', 'registry.invalid/private:1')()) writeFileSync(path, bytes);
  const registry = await world.startRegistry();
  world.push(`${registry}/app:latest`, { layers: [[{ name: 'a', content: 'local' }]] });
  const one = await open({ allowedDirs: [world.dir] });
  await one.images.obtainFile(path);
  await one.images.pull(`${registry}/app:latest`, 'missing');
  t.same(s3.requests, []);
  const made = await one.images.import(archiveOf('shared', 'registry.invalid/shared:1')(), undefined);
  await leads('registry.invalid/shared:1', made.digest);
  t.equal([...s3.objects.keys()].filter((key) => key.includes('/images/')).length, 1, 'only this one');
});

t.test('a collection keeps what hosts use, and nothing for ever', async (t) => {
  const { s3, collector, open, leads, keys } = await start(t);
  const [used, unused] = ['registry.invalid/used:1', 'registry.invalid/unused:1'];
  const one = await open();
  const made = await one.images.import(archiveOf('used', used)(), undefined);
  const other = await one.images.import(archiveOf('unused', unused)(), undefined);
  await leads(used, made.digest);
  await leads(unused, other.digest);
  s3.age(29 * DAY_MS);
  t.equal((await (await open()).images.pull(used, 'missing')).digest, made.digest);
  s3.age(2 * DAY_MS);
  await collector.collect(SIGNAL);
  await collector.collect(SIGNAL);
  t.equal(keys('/names/').length, 1, 'one was used');
  t.equal(keys('/images/').length, 1);
  t.equal((await (await open()).images.pull(used, 'missing')).digest, made.digest);

  // A name that cannot be read may be of any image.
  const [key = ''] = keys('/names/');
  const name = s3.objects.get(key)!;
  const body = name.body;
  name.body = Buffer.from('garbage');
  t.match(await collector.collect(SIGNAL), { images: 1, problems: [/names\/.* cannot be used/] });
  name.body = body;
  t.match(await collector.collect(SIGNAL), { images: 1, problems: [] });
  // Nothing is removed if a manifest cannot be read.
  const [image = ''] = keys('/images/');
  s3.objects.get(image)!.body = Buffer.from('garbage');
  s3.age(40 * DAY_MS);
  await t.rejects(collector.collect(SIGNAL), { code: 'internal' });
  t.equal(keys('/names/').length, 1);
});
