// Images of the daemon's host: which files may be named, and what is made of them.
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { convert } from './merge.ts';
import { makeLayout, skopeo, stored, World } from './world.ts';

const world = new World(t);
const REFUSED = {
  code: 'invalid_argument',
  message: /is no file or OCI directory beneath a directory that the operator of the daemon allowed$/,
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

t.test('a directory that is an OCI layout is converted where it lies, until it is another', async (t) => {
  const allowed = world.path('allowed');
  mkdirSync(allowed);
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, { allowedDirs: [allowed] });
  const path = makeLayout(`${allowed}/some: layout`, { layers: [[{ name: 'a', content: 'x' }]] }, 'it');
  const before = readdirSync(path, { recursive: true }).sort();
  const first = await images.obtainFile(path);
  t.equal(first.record.entries, 1);
  t.equal((await images.obtainFile(path, { onProgress: () => t.fail('it is here') })).id, first.id);
  rmSync(images.rootfsPath(first));
  t.equal((await images.obtainFile(path)).id, first.id, 'what is lost is made anew');
  t.same(readdirSync(path, { recursive: true }).sort(), before, 'nothing was written there');
  rmSync(path, { recursive: true });
  makeLayout(path, { layers: [[{ name: 'b', content: 'y' }]] }, 'it');
  t.not((await images.obtainFile(path)).id, first.id);
  await images.close();
});

t.test('a layout of links costs no memory and shows nothing of the host', async (t) => {
  const allowed = world.path('allowed');
  mkdirSync(allowed);
  const secret = world.path('secret');
  writeFileSync(secret, 'the-secret');
  const images = await world.openImages(world.path('data'), { allowedDirs: [allowed] });
  const fails = async (name: string, target: string, link: (layout: string) => string, message: RegExp) => {
    const layout = makeLayout(`${allowed}/${name}`, { layers: [[{ name: 'a', content: 'x' }]] });
    const path = link(layout);
    rmSync(path);
    symlinkSync(target, path);
    const error = await images.obtainFile(layout).then(
      () => undefined,
      (error: Error) => error,
    );
    t.match(error, { code: 'invalid_argument', message }, name);
    t.notMatch(error?.message, /the-secret/);
  };
  const manifestOf = (layout: string) => {
    const { manifests } = JSON.parse(readFileSync(`${layout}/index.json`, 'utf8'));
    return `${layout}/blobs/sha256/${manifests[0].digest.slice(7)}`;
  };
  const layerOf = (layout: string) => {
    const { layers } = JSON.parse(readFileSync(manifestOf(layout), 'utf8'));
    return `${layout}/blobs/sha256/${layers[0].digest.slice(7)}`;
  };
  await fails('index', secret, (layout) => `${layout}/index.json`, /is no file or OCI directory/);
  await fails('manifest', '/dev/zero', manifestOf, /documents are too large/);
  await fails('document', secret, manifestOf, /damaged/);
  await fails('layer', secret, layerOf, /damaged/);
  await images.close();
});
