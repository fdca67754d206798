// How much of an image is here while it comes, from a registry whose large layers stop half-way until a test has seen that.
import { randomBytes } from 'node:crypto';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { readSizes } from '../../../../host-agent/src/images/fetch/download-progress.ts';
import type { LayerProgress } from '../../../../host-agent/src/images/index.ts';
import { until } from '../../../support/until.ts';
import { stored, World } from './world.ts';

const MIB = 2 ** 20;
const world = new World(t);
const registry = await world.startRegistry();

/** In front of the registry; `go` lets the rest of large blobs come. */
async function holdBlobs(t: Test, { hasSizes = true } = {}) {
  const held = Promise.withResolvers<void>();
  let manifests = 0;
  const server = createServer((incoming, outgoing) => {
    const isManifest = incoming.url?.includes('/manifests/') ?? false;
    if (isManifest) manifests += 1;
    if (isManifest && manifests > 1 && !hasSizes) return void outgoing.writeHead(429).end();
    get(`http://${registry}${incoming.url}`, { headers: incoming.headers }, async (answer) => {
      outgoing.writeHead(answer.statusCode ?? 0, answer.rawHeaders);
      const bytes = Buffer.concat(await answer.toArray());
      if (bytes.length > MIB) {
        outgoing.write(bytes.subarray(0, bytes.length / 2));
        await held.promise;
        outgoing.end(bytes.subarray(bytes.length / 2));
      } else outgoing.end(bytes);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { host: `127.0.0.1:${port}`, go: held.resolve, manifests: () => manifests };
}

const image = () => ({
  layers: [
    [{ name: 'one', content: randomBytes(3 * MIB) }],
    [{ name: 'two', content: randomBytes(2 * MIB) }],
    [{ name: 'small', content: 'x' }],
  ],
});

t.test('all layers together while they come, and each once it is whole', async (t) => {
  const { host, go, manifests } = await holdBlobs(t);
  world.push(`${registry}/watched`, image());
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  const seen: [string, LayerProgress][] = [];
  const onProgress = (line: string, about: LayerProgress = {}) => seen.push([line, about]);
  const pulling = images.pull(`${host}/watched`, 'missing', { onProgress });
  const amounts = () =>
    seen.flatMap(([, { layer, bytes = 0, totalBytes = 0 }]) =>
      layer === undefined && totalBytes > 0 ? [{ bytes, totalBytes }] : [],
    );
  await until(() => amounts().some(({ bytes, totalBytes }) => bytes > 0.4 * totalBytes), 'nearly half');
  t.ok(
    amounts().every(({ bytes }) => bytes < 3.2 * MIB),
    'what has not come is not counted',
  );
  const whole = () => seen.filter(([line]) => line.startsWith('fetched layer'));
  t.match(whole(), [[/^fetched layer [\da-f]{12}$/, { bytes: Number, totalBytes: Number }]], 'the small one');
  go();
  await pulling;
  const [first] = amounts();
  t.ok(first !== undefined && first.totalBytes > 5 * MIB && first.totalBytes < 5.1 * MIB);
  t.ok(amounts().every(({ totalBytes }) => totalBytes === first?.totalBytes));
  const all = amounts().map(({ bytes }) => bytes);
  t.same(
    all,
    [...new Set(all)].sort((a, b) => a - b),
    'it only grows',
  );
  for (const [line, { layer, bytes, totalBytes }] of whole()) {
    t.equal(line, `fetched layer ${layer}`);
    t.equal(bytes, totalBytes);
  }
  t.equal(manifests(), 2, 'one request for the pull, one for its sizes');
  await images.close();
  t.equal(stored(dataDir).work, 0);
});

t.test('a registry that omits the size, and a pull without progress', async (t) => {
  for (const isHeard of [true, false]) {
    const { host, go, manifests } = await holdBlobs(t, { hasSizes: false });
    world.push(`${registry}/other`, image());
    const images = await world.openImages(world.path('data'));
    const lines: string[] = [];
    const pulling = images.pull(
      `${host}/other`,
      'missing',
      isHeard ? { onProgress: (line) => lines.push(line) } : {},
    );
    if (isHeard) await until(() => manifests() > 1, 'the question for sizes');
    else await new Promise((done) => setTimeout(done, 2500));
    go();
    t.match(await pulling, { entries: 3 });
    t.equal(manifests() > 1, isHeard);
    t.notOk(lines.includes('fetching layers'));
    await images.close();
  }
});

t.test('what a manifest says', (t) => {
  const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
  const manifest = { layers: [{ digest: digest('a'), size: 5, mediaType: 'x' }] };
  t.same(readSizes(JSON.stringify(manifest)), new Map([['a'.repeat(64), 5]]));
  const platforms = [
    { digest: digest('b'), platform: { os: 'linux', architecture: 'arm64' } },
    { digest: digest('c') },
    { digest: digest('d'), platform: { os: 'linux', architecture: 'amd64' } },
  ];
  t.match(readSizes(JSON.stringify({ manifests: platforms })), { digest: digest('d') });
  t.equal(readSizes(JSON.stringify({ manifests: platforms.slice(0, 2) })), undefined);
  t.equal(readSizes('{}'), undefined);
  for (const size of [-1, 0.5, '5', 2 ** 60])
    t.throws(() => readSizes(JSON.stringify({ layers: [{ digest: digest('a'), size }] })));
  for (const bad of ['', '[', 'null', '{"layers":5}', '{"layers":[{"digest":"sha256:../..","size":1}]}'])
    t.throws(() => readSizes(bad), bad);
  t.end();
});
