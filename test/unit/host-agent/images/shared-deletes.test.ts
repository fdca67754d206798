// Deletes and lists of images that only the bucket has.
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archiveOf, DAY_MS, eventually, SIGNAL, start } from './shared-hosts.ts';
import { World } from './world.ts';

t.setTimeout(scaled(240_000));
const world = new World(t);
const [FIRST, SECOND, THIRD] = ['first', 'second', 'third'].map((name) => `registry.invalid/${name}:1`) as [
  string,
  string,
  string,
];
const ACCESS_DENIED = (method: string, key: string) =>
  method === 'PUT' && key.includes('/names/') ? { status: 403, code: 'AccessDenied' } : undefined;

/** An image that two hosts put under two names, and that the bucket alone has. */
async function startStored(t: Parameters<typeof start>[0]) {
  const fleet = await start(t, world);
  const [one, two] = [await fleet.open(), await fleet.open()];
  const { digest } = await one.images.import(archiveOf(world, 'same', FIRST)(), undefined);
  await fleet.leads(FIRST, digest);
  await two.images.import(archiveOf(world, 'same', SECOND)(), undefined);
  await fleet.leads(SECOND, digest);
  for (const { images } of [one, two]) await images.prune({ keepsNamed: false });
  const isPut = fleet.s3.count('PUT', /names/);
  /** Both names are those of no image. */
  const withdrawn = () =>
    eventually(async () => (fleet.s3.count('PUT', /names/) >= isPut + 2 ? true : undefined), 'withdrawals');
  return { ...fleet, one, two, digest, withdrawn };
}

t.test('a delete by the digest takes it out of the bucket, with all its names', async (t) => {
  const { s3, collector, open, leads, lookUp, keys, digest, withdrawn } = await startStored(t);
  const { images } = await open();
  await t.rejects(images.delete(`sha256:${'0'.repeat(64)}`), { code: 'not_found' });
  await t.rejects(images.delete(digest.slice(0, 30)), { code: 'not_found' }, 'a whole one only');
  await images.delete(digest);
  t.equal(keys('/images/').length, 0);
  for (const ref of [FIRST, SECOND]) t.equal(await lookUp(ref), undefined, ref);
  await t.rejects(images.obtain(digest, 'missing'), { code: 'not_found' });
  await t.rejects(images.delete(digest), { code: 'not_found' });
  await withdrawn();
  // The same image, which comes again, is not theirs.
  const again = await images.import(archiveOf(world, 'same', THIRD)(), undefined);
  t.equal(again.digest, digest);
  await leads(THIRD, digest);
  for (const ref of [FIRST, SECOND]) t.equal(await lookUp(ref), undefined, ref);
  // A host that has it deletes what others put.
  await images.delete(digest.slice('sha256:'.length));
  t.equal(keys('/images/').length, 0);
  s3.age(8 * DAY_MS);
  await collector.collect(SIGNAL);
  t.equal(keys('/names/').length, 0);
  t.equal(keys('/chunks/').length, 0);
});

t.test('names that the bucket does not change now are changed by a later daemon', async (t) => {
  const { s3, open, lookUp, digest, withdrawn } = await startStored(t);
  let three = await open();
  s3.fault = ACCESS_DENIED;
  await three.images.delete(digest);
  t.equal(await lookUp(FIRST), undefined, 'it leads nowhere at once');
  await three.images.close();
  s3.fault = () => undefined;
  three = await open({}, three.dataDir);
  await withdrawn();

  s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  for (const text of [digest, FIRST])
    await t.rejects(three.images.delete(text), { code: 'upstream', message: /snapshot store/ }, text);
});

t.test('lists have what only the bucket has, and say where each is', async (t) => {
  const { s3, open, digest } = await startStored(t);
  const { images } = await open();
  const list = async () => (await images.shared?.listWith(images.list())) ?? { images: [] };
  t.match((await list()).images, [{ digest, refs: [FIRST, SECOND], storage: 'remote' }]);
  await images.pull(SECOND, 'missing');
  t.match((await list()).images, [{ digest, refs: [SECOND], storage: 'stored' }]);
  t.equal((await list()).images.length, 1);
  s3.fault = (method) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : undefined);
  const own = await images.import(archiveOf(world, 'own', THIRD)(), undefined);
  t.match((await list()).images, [{ digest }, { digest: own.digest, storage: 'local' }]);

  s3.fault = () => undefined;
  await images.delete(digest);
  t.match((await list()).images, [{ digest: own.digest }]);
  t.equal((await list()).images.length, 1);

  s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  const other = (await open()).images;
  t.match(await other.shared?.listWith(other.list()), { images: [], problem: /./ });
});

t.test('a host whose clock is ahead keeps no name from the others', async (t) => {
  const { s3, store } = await start(t, world);
  const [early, late] = ['1'.repeat(64), '2'.repeat(64)];
  const ahead = () => Date.now() + 3_600_000;
  await store.images.name(FIRST, { id: early, atMs: ahead() }, SIGNAL);
  await store.images.name(FIRST, { id: late, atMs: Date.now() - 60_000 }, SIGNAL);
  t.equal(await store.images.withdraw(FIRST, early, Date.now() - 60_000, SIGNAL), false, 'it is later');
  t.equal(await store.images.withdraw(FIRST, late, ahead(), SIGNAL), false, 'it leads to the later one');
  s3.age(60_000);
  await store.images.name(FIRST, { id: late, atMs: Date.now() }, SIGNAL);
  t.equal(await store.images.withdraw(FIRST, early, ahead(), SIGNAL), false, 'it leads to the later pull');
  s3.age(60_000);
  t.equal(await store.images.withdraw(FIRST, undefined, Date.now(), SIGNAL), true);
  await store.images.name(FIRST, { id: early, atMs: Date.now() - 60_000 }, SIGNAL);
  t.equal(await store.images.withdraw(FIRST, undefined, ahead() * 2, SIGNAL), false, 'the delete is later');
});
