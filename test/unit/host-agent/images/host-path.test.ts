// Images of the daemon's host: which files may be named, and what is made of them.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import t, { type Test } from 'tap';
import { until } from '../../../support/until.ts';
import { convert } from './merge.ts';
import { makeLayout, skopeo, stored, World } from './world.ts';

const world = new World(t);
const REFUSED = {
  code: 'invalid_argument',
  message: /is not a file or OCI directory beneath a directory that the operator of the daemon allowed$/,
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
  const elsewhere = /^the directory is damaged: .*no such file/;
  await fails('index', secret, (layout) => `${layout}/index.json`, /is not a file or OCI directory/);
  await fails('manifest', '/dev/zero', manifestOf, elsewhere);
  await fails('document', secret, manifestOf, elsewhere);
  await fails('layer', secret, layerOf, elsewhere);
  // Whether there is something on the host sounds the same.
  await fails('missing', '/nowhere', layerOf, elsewhere);
  await images.close();
});

t.test('what is exchanged for a link while it is taken gives nothing of the host', async (t) => {
  const allowed = world.path('allowed');
  mkdirSync(allowed);
  const secret = world.path('secret');
  const path = `${allowed}/root.img`;
  await convert(path, [[{ name: 'a', content: 'x' }]]);
  const own = readFileSync(path);
  writeFileSync(secret, Buffer.concat([own, Buffer.from('the-secret')]));
  const images = await world.openImages(world.path('data'), { allowedDirs: [allowed] });
  const exchanger = exchange(t, path, own, secret);
  const outcomes = { taken: 0, refused: 0 };
  for (let tries = 0; tries < 60; tries++) {
    try {
      const made = await images.obtainFile(path);
      t.ok(readFileSync(images.rootfsPath(made)).equals(own), 'it is the file that was there');
      outcomes.taken += 1;
      await images.delete(`sha256:${made.id}`);
    } catch (error) {
      t.match(error, REFUSED);
      outcomes.refused += 1;
    }
  }
  exchanger.kill();
  t.ok(outcomes.taken > 0 && outcomes.refused > 0, JSON.stringify(outcomes));
  await images.close();
});

t.test('what is endless or no file is not opened', async (t) => {
  const images = await world.openImages(world.path('data'), { allowedDirs: ['/dev', world.dir] });
  const pipe = world.path('pipe');
  execFileSync('mkfifo', [pipe]);
  for (const path of ['/dev/urandom', '/dev/zero', pipe])
    await t.rejects(images.obtainFile(path), REFUSED, path);
  await images.close();
});

t.test('an allowed directory counts only where others cannot put a link in its place', async (t) => {
  const [home, outside] = [world.path('home'), world.path('outside')];
  for (const dir of [home, outside]) mkdirSync(dir);
  writeFileSync(`${outside}/secret.tar`, 'the-secret');
  chownSync(home, 65_534, 65_534);
  symlinkSync(outside, `${home}/images`);
  const own = world.path('own');
  symlinkSync(outside, own);
  const theirs = await world.openImages(world.path('data'), { allowedDirs: [`${home}/images`] });
  await t.rejects(theirs.obtainFile(`${home}/images/secret.tar`), {
    ...REFUSED,
    cause: { message: /\/images is a link in a directory that user 65534 can change$/ },
  });
  await theirs.close();
  const ours = await world.openImages(world.path('data'), { allowedDirs: [own] });
  await t.rejects(
    ours.obtainFile(`${own}/secret.tar`),
    { message: /damaged|archive/ },
    'the operator’s own link',
  );
  await ours.close();
});

t.test('a root filesystem is no larger than an image may be, and is given up with its create', async (t) => {
  const allowed = world.path('allowed');
  mkdirSync(allowed);
  const path = `${allowed}/root.img`;
  await convert(path, [[{ name: 'a', content: 'x' }]]);
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, { allowedDirs: [allowed], maxBlobBytes: 1 << 24 });
  truncateSync(path, (1 << 24) + 1);
  await t.rejects(images.obtainFile(path), {
    code: 'invalid_argument',
    message: 'the root filesystem has more than 16777216 bytes, and no image may be larger',
  });
  await images.close();
  const large = await world.openImages(dataDir, { allowedDirs: [allowed] });
  truncateSync(path, 2 ** 35);
  const left = new AbortController();
  const asked = large.obtainFile(path, { signal: left.signal });
  await until(() => stored(dataDir).work === 1, 'the copy');
  left.abort(new Error('the client left'));
  await t.rejects(asked, { message: 'the client left' });
  await until(() => stored(dataDir).work === 0, 'nothing is left of it');
  t.equal(stored(dataDir).rootfs, 0);
  await large.close();
});

/** A process that has the file and a link to another one take turns under one name. */
function exchange(t: Test, path: string, own: Buffer, target: string): ChildProcess {
  const dir = world.path('exchange');
  mkdirSync(dir);
  writeFileSync(`${dir}/own`, own);
  const script = `
    const { linkSync, renameSync, symlinkSync } = require('node:fs');
    for (;;) {
      linkSync('${dir}/own', '${dir}/file');
      renameSync('${dir}/file', ${JSON.stringify(path)});
      symlinkSync(${JSON.stringify(target)}, '${dir}/link');
      renameSync('${dir}/link', ${JSON.stringify(path)});
    }`;
  const child = spawn(process.execPath, ['-e', script], { stdio: 'ignore' });
  t.teardown(() => child.kill());
  return child;
}
