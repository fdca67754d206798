// Pulls from a real registry on loopback, with skopeo and the converter as they are installed.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import t from 'tap';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { scaled } from '../../../support/time-scale.ts';
import { type MadeImage, makeLayout, skopeo, stored, World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const SMALL: MadeImage = {
  layers: [[{ name: 'hello', content: 'hello' }], [{ name: 'world', content: 'world' }]],
  config: { Cmd: ['/hello'], Env: ['A=b', 'A=c', 'odd'], ExposedPorts: { '80/tcp': {} }, Labels: { a: 'b' } },
};

t.test('pulled, listed, found in every spelling, deleted', async (t) => {
  const registry = await world.startRegistry();
  const [dataDir, elsewhere] = [world.path('data'), world.path('disk')];
  mkdirSync(elsewhere);
  // As where a disk of its own is mounted elsewhere.
  symlinkSync(elsewhere, dataDir);
  const images = await world.openImages(dataDir);
  world.push(`${registry}/a/b:v1`, SMALL);
  const steps: string[] = [];
  const made = await images.pull(`${registry}/a/b:v1`, 'missing', { onProgress: (line) => steps.push(line) });
  t.match(made, { sourceRef: `${registry}/a/b:v1`, entries: 2, contentBytes: 10, convertMode: 'erofs' });
  t.match(made.config, { cmd: ['/hello'], env: { A: 'c' }, exposedPorts: ['80/tcp'], labels: { a: 'b' } });
  t.equal(steps[0], `pulling ${registry}/a/b:v1`);
  t.ok(steps.includes('converted 2 of 2 layers'));
  const hex = made.digest.slice(7);
  for (const text of [made.digest, hex, hex.slice(0, 7), `sha256:${hex.slice(0, 12)}`])
    t.same(images.get(text), made);
  t.throws(() => images.get('nothing'), { code: 'not_found', message: 'image nothing is not here' });
  t.throws(() => images.get(`${registry}/a/b`), { code: 'not_found' }, 'another tag');
  await images.delete(`${registry}/a/b:v1`);
  t.same(images.list(), []);
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
  await images.close();
});

t.test('missing, always and never', async (t) => {
  const registry = await world.startRegistry();
  const images = await world.openImages(world.path('data'));
  const name = `${registry}/app`;
  world.push(name, SMALL);
  await t.rejects(images.pull(name, 'never'), {
    code: 'not_found',
    message: /pull it first, or send another pull than never/,
  });
  const first = await images.pull(name, 'missing');
  world.push(name, { ...SMALL, layers: [[{ name: 'new', content: 'x' }]] });
  t.equal((await images.pull(name, 'missing')).digest, first.digest, 'it is here');
  t.equal((await images.pull(name, 'never')).digest, first.digest);
  const second = await images.pull(name, 'always');
  t.not(second.digest, first.digest);
  t.same(images.get(first.digest).refs, [], 'the older one has lost its name');
  t.equal(images.get(name).digest, second.digest);
  t.same(await images.prune({ keepsNamed: true }), [first.digest]);
  await images.close();
});

t.test(
  'layers of several images are stored once, and images of one name by two registries are two names',
  async (t) => {
    const [one, other] = [await world.startRegistry(), await world.startRegistry()];
    const dataDir = world.path('data');
    const images = await world.openImages(dataDir);
    for (const registry of [one, other]) world.push(`${registry}/same:v`, SMALL);
    world.push(`${one}/more:v`, { ...SMALL, layers: [...SMALL.layers, [{ name: 'more', content: '' }]] });
    const first = await images.pull(`${one}/same:v`, 'missing');
    const again = await images.pull(`${other}/same:v`, 'missing');
    t.equal(first.digest, again.digest, 'equal input, equal digest');
    t.same(again.refs, [`${one}/same:v`, `${other}/same:v`]);
    t.same(stored(dataDir), { blobs: 4, rootfs: 1, work: 0 });
    await images.pull(`${one}/more:v`, 'missing');
    t.same(stored(dataDir), { blobs: 7, rootfs: 2, work: 0 }, 'a layer, a config and a manifest more');
    await images.delete(`${one}/same:v`);
    t.equal(images.get(first.digest).sourceRef, `${other}/same:v`, 'only the name went');
    await images.delete(first.digest);
    t.same(stored(dataDir), { blobs: 5, rootfs: 1, work: 0 });
    await images.close();
  },
);

t.test('a lost root filesystem is made again', async (t) => {
  const registry = await world.startRegistry();
  const images = await world.openImages(world.path('data'));
  world.push(`${registry}/app`, SMALL);
  const made = await images.obtain(`${registry}/app`, 'missing');
  rmSync(images.rootfsPath(made));
  await t.rejects(images.obtain(`${registry}/app`, 'never'), { code: 'not_found' });
  const again = await images.obtain(`${registry}/app`, 'missing');
  t.equal(again.id, made.id);
  t.ok(existsSync(images.rootfsPath(again)));
  await images.close();
});

t.test('two pulls at once do the work once, and one that leaves does not end the other', async (t) => {
  const registry = await world.startRegistry();
  const images = await world.openImages(world.path('data'));
  world.push(`${registry}/app`, SMALL);
  const steps: string[] = [];
  const leave = new AbortController();
  const pulls = [
    images.pull(`${registry}/app`, 'always', { onProgress: (line) => steps.push(line) }),
    images.pull(`${registry}/app:latest`, 'always', { signal: leave.signal }),
    images.pull(`${registry}/app`, 'missing'),
  ];
  leave.abort(new AppError('cancelled', 'gone'));
  const ends = await Promise.allSettled(pulls);
  t.same(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  t.equal(steps.filter((line) => line.startsWith('pulling')).length, 1);
  await images.close();
});

t.test('what the last one gave up leaves nothing', async (t) => {
  const registry = await world.startRegistry();
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  world.push(`${registry}/app`, SMALL);
  for (const step of ['pulling', 'fetching layer', 'converting']) {
    const leave = new AbortController();
    const onProgress = (line: string) =>
      line.startsWith(step) && leave.abort(new AppError('cancelled', step));
    await t.rejects(images.pull(`${registry}/app`, 'missing', { onProgress, signal: leave.signal }), {
      message: step,
    });
  }
  await images.close();
  const next = await world.openImages(dataDir);
  t.same(next.list(), []);
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
  await next.close();
});

t.test('what a registry says comes through in one line', async (t) => {
  const registry = await world.startRegistry();
  const images = await world.openImages(world.path('data'));
  world.push(`${registry}/app`, SMALL);
  const fails = (name: string, message: RegExp) =>
    t.rejects(images.pull(name, 'always'), { code: 'upstream', message }, name);
  await fails(`${registry}/app:nope`, /^cannot pull 127\.0\.0\.1:\d+\/app:nope: .*manifest unknown/);
  await fails(`${registry}/nothing`, /manifest unknown|name unknown/);
  await fails(`127.0.0.1:1/app`, /connection refused/);
  await fails(`${registry}/app@sha256:${'0'.repeat(64)}`, /manifest unknown/);
  world.push(`${registry}/arm`, { ...SMALL, platform: { os: 'linux', architecture: 'arm64' } });
  await fails(`${registry}/arm`, /arm64/);
  await images.close();
});

t.test('of an image for several platforms the one of this host is taken', async (t) => {
  const registry = await world.startRegistry();
  const images = await world.openImages(world.path('data'));
  const layout = world.path('layout');
  const listed = (architecture: string, files: number) => {
    const platform = { os: 'linux', architecture };
    const members = Array.from({ length: files }, (_, n) => ({ name: `${architecture}-${n}`, content: '' }));
    makeLayout(layout, { layers: [members], platform });
    return { ...JSON.parse(readFileSync(`${layout}/index.json`, 'utf8')).manifests[0], platform };
  };
  const all = [listed('arm64', 1), listed('amd64', 2), listed('s390x', 3)].map(
    ({ annotations: _, ...each }) => each,
  );
  const push = (name: string, manifests: readonly object[]) => {
    const mediaType = 'application/vnd.oci.image.index.v1+json';
    const bytes = JSON.stringify({ schemaVersion: 2, mediaType, manifests });
    const hex = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(`${layout}/blobs/sha256/${hex}`, bytes);
    const annotations = { 'org.opencontainers.image.ref.name': 'latest' };
    const whole = { mediaType, digest: `sha256:${hex}`, size: bytes.length, annotations };
    writeFileSync(`${layout}/index.json`, JSON.stringify({ schemaVersion: 2, manifests: [whole] }));
    skopeo('copy', '--all', '--dest-tls-verify=false', `oci:${layout}:latest`, `docker://${name}`);
    return whole.digest;
  };
  const digest = push(`${registry}/all`, all);
  t.equal((await images.pull(`${registry}/all`, 'missing')).entries, 2);
  t.equal(
    (await images.pull(`${registry}/all@${digest}`, 'missing')).entries,
    2,
    'by the digest of the list',
  );
  push(
    `${registry}/others`,
    all.filter(({ platform }) => platform.architecture !== 'amd64'),
  );
  await t.rejects(images.pull(`${registry}/others`, 'missing'), {
    code: 'upstream',
    message: /^cannot pull \S+\/others:latest: .*amd64/,
  });
  await images.close();
});

t.test('layers that are packed as gzip, as zstd, or not at all make one image', async (t) => {
  const registry = await world.startRegistry();
  const images = await world.openImages(world.path('data'), { allowedDirs: [world.dir] });
  const digests: string[] = [];
  for (const packing of ['gzip', 'zstd', 'plain'] as const) {
    const layout = makeLayout(world.path('layout'), { ...SMALL, packing });
    const blobs = `${layout}/blobs/sha256`;
    const heads = readdirSync(blobs).map((name) => readFileSync(`${blobs}/${name}`).toString('hex', 0, 4));
    const marks = { gzip: /^1f8b/, zstd: /^28b52ffd/, plain: /^68656c6c/ };
    t.equal(heads.filter((head) => marks[packing].test(head)).length, packing === 'plain' ? 1 : 2, packing);
    digests.push((await images.obtainFile(layout)).record.rootfsDigest);
    world.push(`${registry}/${packing}`, { ...SMALL, packing });
    digests.push((await images.obtain(`${registry}/${packing}`, 'missing')).record.rootfsDigest);
  }
  t.equal(new Set(digests).size, 1);
  await images.close();
});

t.test('a password of the host is used, and a missing one is reported', async (t) => {
  const passwords = world.path('passwords');
  writeFileSync(passwords, execFileSync('htpasswd', ['-nbB', 'me', 'secret']));
  const registry = await world.startRegistry({ passwords });
  const images = await world.openImages(world.path('data'));
  world.push(`${registry}/app`, SMALL, ['--dest-creds', 'me:secret']);
  await t.rejects(images.pull(`${registry}/app`, 'missing'), {
    code: 'upstream',
    message: /unauthorized|authentication/,
  });
  const authfile = world.path('auth.json');
  const auth = Buffer.from('me:secret').toString('base64');
  writeFileSync(authfile, JSON.stringify({ auths: { [registry]: { auth } } }), { mode: 0o600 });
  process.env.REGISTRY_AUTH_FILE = authfile;
  try {
    t.equal((await images.pull(`${registry}/app`, 'missing')).entries, 2);
  } finally {
    delete process.env.REGISTRY_AUTH_FILE;
  }
  await images.close();
});

t.test('a registry with TLS of its own authority', async (t) => {
  const dir = world.path('tls');
  mkdirSync(dir);
  const [cert, key] = [`${dir}/cert.pem`, `${dir}/key.pem`];
  const subject = ['-subj', '/CN=registry', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  execFileSync(
    'openssl',
    ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2', ...subject],
    { stdio: 'pipe' },
  );
  const registry = await world.startRegistry({ tls: { cert, key } });
  const images = await world.openImages(world.path('data'));
  world.push(`${registry}/app`, SMALL);
  t.equal((await images.pull(`${registry}/app`, 'missing')).entries, 2);
  await images.close();
});

t.test('an image of 127 layers', async (t) => {
  const registry = await world.startRegistry();
  const images = await world.openImages(world.path('data'));
  const layers = Array.from({ length: 127 }, (_, n) => [{ name: `f${n}`, content: `${n}` }]);
  world.push(`${registry}/high`, { layers });
  t.match(await images.pull(`${registry}/high`, 'missing'), { entries: 127 });
  await images.close();
});
