// What shared images may take in the bucket.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archiveOf, DAY_MS, eventually, SIGNAL, start } from './shared-hosts.ts';
import { World } from './world.ts';

t.setTimeout(scaled(240_000));
const MIB = 2 ** 20;
const world = new World(t);
const LIMIT = { sharedMaxBytes: 2.5 * MIB, sharedRetryMs: 100 };
const [FIRST, SECOND] = ['registry.invalid/first:1', 'registry.invalid/second:1'];

t.test('beyond it an image stays on its host, and is sent when there is space', async (t) => {
  const { s3, collector, open, leads, lookUp, keys } = await start(t, world);
  const stored = () =>
    [...s3.objects].reduce((sum, [key, { body }]) => sum + (/chunks|images/.test(key) ? body.length : 0), 0);
  const [one, two] = [await open(LIMIT), await open(LIMIT)];
  const content = randomBytes(1.5 * MIB);
  const first = await one.images.import(archiveOf(world, content, FIRST)(), undefined);
  await leads(FIRST, first.digest);
  const chunks = keys('/chunks/').length;
  const second = await one.images.import(archiveOf(world, randomBytes(1.5 * MIB), SECOND)(), undefined);
  await eventually(async () => one.images.shared?.state.refused || undefined, 'refusal');
  t.equal(keys('/chunks/').length, chunks, 'nothing of it was sent');
  t.equal(one.images.get(SECOND).digest, second.digest, 'it is on its host');
  t.ok(stored() <= LIMIT.sharedMaxBytes);

  // Another host counts what this one sent.
  await two.images.import(archiveOf(world, randomBytes(1.5 * MIB), 'registry.invalid/third:1')(), undefined);
  await eventually(async () => two.images.shared?.state.refused || undefined, 'refusal there');
  t.equal(keys('/chunks/').length, chunks);
  t.equal(await lookUp('registry.invalid/third:1'), undefined);

  // Names of what is there take nothing, and one that moves to what does not fit leads to no older image.
  await two.images.import(archiveOf(world, content, 'registry.invalid/first:2')(), undefined);
  await leads('registry.invalid/first:2', first.digest);
  const moved = await two.images.import(archiveOf(world, randomBytes(1.5 * MIB), FIRST)(), undefined);
  await leads(FIRST, undefined);
  await t.rejects(one.images.pull(SECOND, 'always'), { code: 'upstream' }, 'elsewhere its registry is asked');
  t.match(await collector.stats(SIGNAL), { images: 1, imageNames: 2, imageBytes: stored() });

  // A delete, and the collections behind it, free it.
  await two.images.delete('registry.invalid/third:1');
  await one.images.delete(SECOND);
  await one.images.delete(first.digest);
  s3.age(2 * DAY_MS);
  await collector.collect(SIGNAL);
  t.equal(keys('/chunks/').length, 0);
  await leads(FIRST, moved.digest);
  await eventually(async () => (two.images.shared?.state.refused === 0 ? true : undefined), 'end of it');
});

t.test('an image that an earlier version sent is sent again, and counts then', async (t) => {
  const { store, collector, open, leads } = await start(t, world);
  const one = await open();
  const made = await one.images.import(archiveOf(world, 'earlier', FIRST)(), undefined);
  await leads(FIRST, made.digest);
  const id = made.digest.slice('sha256:'.length);
  const { description } = (await store.images.findImage(id, SIGNAL))!;
  const path = one.images.rootfsPath(await one.images.obtain(FIRST, 'never'));
  const files = [{ part: 'rootfs', path }];
  await store.upload({ id, tenant: undefined, description, files }, SIGNAL);
  const tenantsOf = async () => (await collector.stats(SIGNAL)).byTenant;
  t.match(await tenantsOf(), [{ tenant: undefined, snapshots: 0, chunks: 1 }]);
  t.equal((await (await open()).images.pull(FIRST, 'missing')).digest, made.digest, 'it can be fetched');
  await sleep(5);
  await one.images.import(archiveOf(world, 'earlier', FIRST)(), undefined);
  await eventually(async () => ((await tenantsOf()).length === 0 ? true : undefined), 'new one');
  t.equal((await (await open()).images.pull(FIRST, 'missing')).digest, made.digest);
});

t.test('a tenant that sends all it can leaves space for the others, on every host', async (t) => {
  const { s3, collector, store, open, leads, keys } = await start(t, world);
  const lines: { reason?: string; owner?: string }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const limit = { sharedMaxBytes: 8 * MIB, sharedRetryMs: 100, log };
  const [one, two] = [await open(limit), await open(limit)];
  const send = async ({ images }: typeof one, owner: string | undefined, name: string) =>
    await images.import(archiveOf(world, randomBytes(1.2 * MIB), `registry.invalid/${name}`)(), undefined, {
      owner,
    });
  const refused = () => (one.images.shared?.state.refused ?? 0) + (two.images.shared?.state.refused ?? 0);
  const evil: Awaited<ReturnType<typeof send>>[] = [];
  for (let n = 0; n < 5; n++) {
    const image = await send(n % 2 ? one : two, 'evil', `evil:${n}`);
    evil.push(image);
    // One after the other: hosts that send at the same moment may exceed it.
    if (n < 3) await leads(`registry.invalid/evil:${n}`, image.digest);
    else await eventually(async () => refused() === n - 2 || undefined, 'end of its share');
  }
  t.equal(keys('/images/').filter((key) => key.includes('shares')).length, 3, 'the half of it');
  t.match(lines.find(({ owner }) => owner === 'evil')?.reason, /the share of "evil" .*shared_images_bytes/);

  const acme = await send(one, 'acme', 'acme:1');
  await leads('registry.invalid/acme:1', acme.digest);
  const beta = await send(two, 'beta', 'beta:1');
  await leads('registry.invalid/beta:1', beta.digest);
  // A host that has no list of the bucket yet.
  await send(await open(limit), 'beta', 'beta:2');
  await eventually(async () => lines.find(({ owner }) => owner === 'beta'), 'line of another one');
  const free = await send(one, undefined, 'free:1');
  await leads('registry.invalid/free:1', free.digest);

  // What another one sent is for all, and takes nothing of a share.
  await two.images.pull('registry.invalid/acme:1', 'missing', { owner: 'evil' });
  t.equal(keys('shares/').filter((key) => key.includes('/images/')).length, 5);

  // Deleted images are of their tenant until they are collected.
  const [gone, waiting] = [evil.slice(0, 3), evil.slice(3)];
  const counted = () => gone.filter(({ digest }) => keys(`/images/${digest.slice(7)}-`).length > 0).length;
  for (const { digest } of gone) await one.images.delete(digest);
  t.equal(counted(), 3);
  s3.age(2 * DAY_MS);
  await collector.collect(SIGNAL);
  await collector.collect(SIGNAL);
  t.equal(counted(), 0);
  const isSent = async ({ digest }: (typeof evil)[number]) =>
    (await store.images.findImage(digest.slice(7), SIGNAL)) !== undefined;
  const sent = async () => (await Promise.all(waiting.map(isSent))).includes(true) || undefined;
  await eventually(sent, 'one more of its own');
});
