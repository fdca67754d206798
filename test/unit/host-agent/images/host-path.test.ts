// Images of the daemon's host: which files may be named, and what is made of them.
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { convert } from './merge.ts';
import { makeLayout, skopeo, stored, World } from './world.ts';

const world = new World(t);
const REFUSED = {
  code: 'invalid_argument',
  message: /is no file beneath a directory that the operator of the daemon allowed$/,
};

t.test('without an allowed directory there is no such thing', async (t) => {
  const images = await world.openImages(world.path('data'));
  await t.rejects(images.obtainFile('/etc/passwd'), {
    code: 'unsupported',
    message: /its operator allowed no directory/,
  });
  await images.close();
});

t.test('only files beneath it, wherever links lead', async (t) => {
  const [allowed, outside] = [world.path('allowed'), world.path('outside')];
  for (const dir of [allowed, `${allowed}-not`, outside, `${allowed}/dir`]) mkdirSync(dir);
  for (const dir of [outside, `${allowed}-not`]) writeFileSync(`${dir}/secret.tar`, 'x');
  symlinkSync(`${outside}/secret.tar`, `${allowed}/link.tar`);
  symlinkSync(outside, `${allowed}/way`);
  const images = await world.openImages(world.path('data'), { allowedDirs: [allowed] });
  for (const path of [
    `${outside}/secret.tar`,
    `${allowed}/link.tar`,
    `${allowed}/way/secret.tar`,
    `${allowed}/../${outside.split('/').at(-1)}/secret.tar`,
    `${allowed}-not/secret.tar`,
    `${allowed}/missing`,
    `${allowed}/dir`,
    allowed,
  ])
    await t.rejects(images.obtainFile(path), REFUSED, path);
  await images.close();
});

t.test('an archive is converted once, until it is another', async (t) => {
  const allowed = world.path('allowed');
  mkdirSync(allowed);
  const path = `${allowed}/saved.tar`;
  const layout = makeLayout(world.path('layout'), { layers: [[{ name: 'a', content: 'x' }]] });
  skopeo('copy', `oci:${layout}:latest`, `docker-archive:${path}:it:v1`);
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, { allowedDirs: [allowed] });
  const steps: string[] = [];
  const first = await images.obtainFile(path, { onProgress: (line) => steps.push(line) });
  t.ok(steps.length > 0);
  t.equal((await images.obtainFile(path, { onProgress: () => t.fail('it is here') })).id, first.id);
  writeFileSync(path, readFileSync(path));
  t.equal((await images.obtainFile(path)).id, first.id, 'the same content');
  t.same(
    images.list().map(({ refs }) => refs),
    [['it:v1']],
  );
  await images.close();
});

t.test('a root filesystem is taken as it is', async (t) => {
  const allowed = world.path('allowed');
  mkdirSync(allowed);
  const path = `${allowed}/root.img`;
  const { digest } = await convert(path, [[{ name: 'a', content: 'x' }]]);
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, { allowedDirs: [allowed] });
  const made = await images.obtainFile(path);
  t.equal(made.record.rootfsDigest, digest);
  t.ok(readFileSync(images.rootfsPath(made)).equals(readFileSync(path)));
  t.match(images.list(), [{ convertMode: 'copy', refs: [] }]);
  await images.delete(`sha256:${made.id.slice(0, 20)}`);
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
  await images.close();
});
