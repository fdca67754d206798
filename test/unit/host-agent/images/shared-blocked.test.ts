// A registry that a host blocks is not reached by way of the bucket.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archiveOf, start } from './shared-hosts.ts';
import { stored, World } from './world.ts';

t.setTimeout(scaled(120_000));
const world = new World(t);

/** What `registries.conf` of this host says from now on. */
function configure(t: Test) {
  const home = world.path('home');
  mkdirSync(join(home, '.config/containers'), { recursive: true });
  const before = process.env.HOME;
  process.env.HOME = home;
  t.teardown(() => {
    process.env.HOME = before;
  });
  return (text: string) => writeFileSync(join(home, '.config/containers/registries.conf'), text);
}

t.test('what others pulled of it is not taken, by its name or its digest', async (t) => {
  const { s3, open, leads } = await start(t, world);
  const write = configure(t);
  const [bad, good, moved] = ['bad.invalid/app:1', 'good.invalid/app:1', 'moved.invalid/app:1'];
  const one = await open();
  const made = [];
  for (const tag of [bad, good, moved]) {
    made.push(await one.images.import(archiveOf(world, tag, tag)(), undefined));
    await leads(tag, made.at(-1)?.digest);
  }
  write(
    '[[registry]]\nprefix = "*.invalid"\nblocked = true\n' +
      '[[registry]]\nlocation = "good.invalid"\n' +
      '[[registry]]\nprefix = "moved.invalid"\nlocation = "any.invalid"\n',
  );
  const two = await open();
  for (const tag of [bad, moved])
    await t.rejects(
      two.images.pull(tag, 'missing'),
      { code: 'upstream', message: /is blocked in .*registries\.conf/ },
      `${tag}, as its registry says`,
    );
  await t.rejects(two.images.obtain(made[0]?.digest ?? '', 'missing'), { code: 'not_found' });
  t.match(stored(two.dataDir), { rootfs: 0, work: 0 });
  t.equal(s3.count('GET', /chunks/), 0, 'nothing of it was fetched');
  t.equal((await two.images.pull(good, 'missing')).digest, made[1]?.digest);
  const three = await open();
  t.equal(`sha256:${(await three.images.obtain(made[1]?.digest ?? '', 'missing')).id}`, made[1]?.digest);

  // Which ones are blocked is not known.
  write('no TOML');
  await t.rejects((await open()).images.pull(good, 'missing'), { code: 'upstream' });
  write('');
  t.equal((await (await open()).images.pull(bad, 'missing')).digest, made[0]?.digest, 'no longer');
});
