// Pulls from registries that break off: what is transient is tried again, what came whole is not fetched twice.
import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';
import { archive } from '../../guest-agent/support/tar-blocks.ts';
import { type OpenedImages, stored, World } from './world.ts';

t.setTimeout(scaled(240_000));
const world = new World(t);
const sha256 = (bytes: string | Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const describe = (kind: string, bytes: string | Buffer) => ({
  mediaType: `application/vnd.oci.image.${kind}`,
  digest: sha256(bytes),
  size: bytes.length,
});

function makeImage() {
  const tars = ['a', 'b', 'c'].map((name) => archive([{ name, content: randomBytes(400_000) }]));
  const layers = tars.map((tar) => gzipSync(tar, { level: 1 }));
  const config = JSON.stringify({
    os: 'linux',
    architecture: 'amd64',
    rootfs: { type: 'layers', diff_ids: tars.map(sha256) },
  });
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: describe('config.v1+json', config),
    layers: layers.map((layer) => describe('layer.v1.tar+gzip', layer)),
  });
  return { layers, config, manifest };
}

type Asked = {
  readonly what: 'ping' | 'manifest' | 'config' | 'layer';
  /** Which layer. */
  readonly layer: number;
  /** How often that was asked for, this time included. */
  readonly time: number;
  readonly bytes: Buffer;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
};

/** Answers as a registry does unless `habit` does it. */
async function startHabits(t: Test, habit: (asked: Asked) => boolean) {
  const image = makeImage();
  const asked = new Map<string, number>();
  const server: Server = createServer((request, response) => {
    const path = request.url ?? '';
    const layer = image.layers.findIndex((each) => path.endsWith(sha256(each)));
    const isPing = path === '/v2/' || path === '/v1/_ping';
    const what = isPing ? 'ping' : path.includes('/manifests/') ? 'manifest' : layer < 0 ? 'config' : 'layer';
    const key = layer < 0 ? what : `${what} ${layer}`;
    const time = (asked.get(key) ?? 0) + 1;
    asked.set(key, time);
    const texts = { ping: '{}', manifest: image.manifest, config: image.config, layer: '' };
    const bytes = image.layers[layer] ?? Buffer.from(texts[what]);
    if (habit({ what, layer, time, bytes, request, response })) return;
    if (what === 'manifest') response.setHeader('content-type', JSON.parse(image.manifest).mediaType);
    response.setHeader('content-length', bytes.length).end(bytes);
  });
  const listen = (port: number) =>
    new Promise<number>((done) =>
      server.listen(port, '127.0.0.1', () => done((server.address() as AddressInfo).port)),
    );
  const port = await listen(0);
  const close = () => void server.close().closeAllConnections();
  t.teardown(close);
  const times = (...keys: string[]) => keys.map((key) => asked.get(key) ?? 0);
  return { name: `127.0.0.1:${port}/app:latest`, times, close, listen: () => listen(port) };
}

/** Half of it, and the connection is gone. */
function cut({ bytes, response }: Asked): true {
  response.writeHead(200, { 'content-length': bytes.length });
  response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy());
  return true;
}

function refuse({ response }: Asked, status: number, headers: Record<string, string> = {}): true {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ errors: [{ code: 'SOME', message: 'some words' }] }));
  return true;
}

const LAYERS = ['layer 0', 'layer 1', 'layer 2'];
const QUICK = { pullPauseMs: 20 };

async function pulled(
  t: Test,
  habit: (asked: Asked) => boolean,
): Promise<{ lines: string[]; times: (...keys: string[]) => number[] }> {
  const { name, times } = await startHabits(t, habit);
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, QUICK);
  const lines: string[] = [];
  const made = await images.pull(name, 'missing', { onProgress: (line) => lines.push(line) });
  t.equal(made.entries, 3);
  t.same(stored(dataDir), { blobs: 5, rootfs: 1, work: 0 });
  await images.close();
  return { lines, times };
}

t.test('a layer that is cut is fetched again, and none that is whole', async (t) => {
  const { lines, times } = await pulled(
    t,
    (asked) => asked.what === 'layer' && asked.layer === 1 && asked.time <= 2 && cut(asked),
  );
  t.same(times(...LAYERS), [1, 3, 1]);
  const again = lines.filter((line) => /^trying again in \d/.test(line));
  t.equal(again.length, 2);
  t.match(again[0], /^trying again in [\d.]+ s: .*EOF/);
});

t.test('every layer is cut once', async (t) => {
  const { times } = await pulled(t, (asked) => asked.what === 'layer' && asked.time === 1 && cut(asked));
  t.same(times(...LAYERS), [2, 2, 2]);
});

for (const status of [502, 503, 504]) {
  t.test(`${status} for a layer, the manifest, the config and the first word`, async (t) => {
    for (const what of ['layer', 'manifest', 'config', 'ping'] as const)
      await pulled(t, (asked) => asked.what === what && asked.time <= 2 && refuse(asked, status));
  });
}

t.test('429 says when: skopeo waits so long', async (t) => {
  const { times } = await pulled(
    t,
    (asked) =>
      asked.what === 'layer' &&
      asked.layer === 0 &&
      asked.time <= 2 &&
      refuse(asked, 429, { 'retry-after': '1' }),
  );
  t.same(times('layer 0'), [3]);
});

t.test('a registry that restarts meanwhile is waited for, and one that was never there is not', async (t) => {
  const images = await world.openImages(world.path('data'), { pullPauseMs: 100 });
  let isDown = false;
  const registry = await startHabits(t, (asked) => {
    if (asked.what !== 'layer' || isDown) return false;
    isDown = true;
    registry.close();
    setTimeout(() => void registry.listen(), 500);
    return true;
  });
  t.equal((await images.pull(registry.name, 'missing')).entries, 3);
  t.ok(isDown);
  const startedAt = performance.now();
  await t.rejects(images.pull('127.0.0.1:1/app', 'missing'), { code: 'upstream', message: /refused/ });
  t.ok(performance.now() - startedAt < scaled(3000));
  await images.close();
});

t.test('a permanent failure is reported at once', async (t) => {
  for (const status of [401, 403, 404, 500]) {
    const registry = await startHabits(t, (asked) => asked.what === 'layer' && refuse(asked, status));
    const images = await world.openImages(world.path('data'), QUICK);
    await t.rejects(images.pull(registry.name, 'missing'), { code: 'upstream' }, `${status}`);
    t.same(registry.times(...LAYERS), [1, 1, 1], `${status}`);
    await images.close();
  }
});

t.test('retries end with the last failure', async (t) => {
  const registry = await startHabits(t, (asked) => asked.what === 'layer' && asked.layer === 2 && cut(asked));
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, QUICK);
  await t.rejects(images.pull(registry.name, 'missing'), {
    code: 'upstream',
    message: /^cannot pull \S+: .*EOF.*; tried 6 times$/,
  });
  t.same(registry.times(...LAYERS), [1, 1, 6]);
  t.same(images.list(), []);
  await images.close();
});

t.test('each complete layer resets the count of retries', async (t) => {
  // Each try brings one layer more, after five that brought nothing.
  let whole = 0;
  let failures = 0;
  const { times } = await pulled(t, (asked) => {
    if (asked.what !== 'layer') return false;
    if (asked.layer === whole && failures >= 4) {
      whole += 1;
      failures = 0;
      return false;
    }
    if (asked.layer === whole) failures += 1;
    return cut(asked);
  });
  t.ok((times('layer 2')[0] ?? 0) > 6, `${times('layer 2')}`);
});

t.test('what came whole is kept for the next pull, and gone with an hour or a new start', async (t) => {
  let isBroken = true;
  const registry = await startHabits(
    t,
    (asked) => isBroken && asked.what === 'layer' && asked.layer === 2 && refuse(asked, 503),
  );
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, QUICK);
  await t.rejects(images.pull(registry.name, 'missing'), { code: 'upstream', message: /503/ });
  t.same(stored(dataDir), { blobs: 2, rootfs: 0, work: 0 });
  await images.prune({ keepsNamed: false });
  t.equal(stored(dataDir).blobs, 2, 'other work does not take it');
  isBroken = false;
  await images.pull(registry.name, 'missing');
  t.same(registry.times('layer 0', 'layer 1'), [1, 1]);
  await images.delete(registry.name);
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 }, 'an image that is deleted takes all of it');

  isBroken = true;
  await t.rejects(images.pull(registry.name, 'missing'), { code: 'upstream' });
  t.equal(stored(dataDir).blobs, 2);
  const { now } = Date;
  t.teardown(() => {
    Date.now = now;
  });
  Date.now = () => now() + 3_600_001;
  await images.prune({ keepsNamed: false });
  t.equal(stored(dataDir).blobs, 0);
  Date.now = now;
  await t.rejects(images.pull(registry.name, 'missing'), { code: 'upstream' });
  t.equal(stored(dataDir).blobs, 2);
  await images.close();
  const next = await world.openImages(dataDir);
  t.equal(stored(dataDir).blobs, 0);
  await next.close();
});

const ENDS: Readonly<Record<string, (images: OpenedImages, leave: AbortController) => unknown>> = {
  'the client that goes': (_, leave) => leave.abort(new AppError('cancelled', 'gone')),
  'the daemon that stops': (images) => images.stop(),
};
for (const [who, end] of Object.entries(ENDS)) {
  t.test(`${who} ends the waiting at once`, async (t) => {
    const registry = await startHabits(t, (asked) => asked.what === 'manifest' && refuse(asked, 503));
    const images = await world.openImages(world.path('data'), { pullPauseMs: scaled(60_000) });
    const leave = new AbortController();
    const lines: string[] = [];
    const pull = images.pull(registry.name, 'missing', {
      signal: leave.signal,
      onProgress: (line) => lines.push(line),
    });
    pull.catch(() => undefined);
    await until(() => lines.some((line) => line.startsWith('trying again')), 'it waits');
    const startedAt = performance.now();
    void end(images, leave);
    await t.rejects(pull, { code: 'cancelled' });
    t.ok(performance.now() - startedAt < scaled(3000));
    await images.close();
    t.same(registry.times('manifest'), [1]);
  });
}
