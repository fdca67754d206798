// Registries that lie, and what they can reach through a host that believes them: each meets one line of 502 and leaves nothing.
import { createHash } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { watchFreeDisk } from '../../../../host-agent/src/images/fetch/watch.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';
import { archive } from '../../guest-agent/support/tar-blocks.ts';
import { stored, World } from './world.ts';

t.setTimeout(scaled(240_000));
const world = new World(t);
const SECRET = 'token-of-the-metadata-service';
const sha256 = (bytes: string | Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const describe = (kind: string, bytes: string | Buffer, more = {}) => ({
  mediaType: `application/vnd.oci.image.${kind}`,
  digest: sha256(bytes),
  size: bytes.length,
  ...more,
});
const tar = archive([{ name: 'a', content: 'x' }]);
const layer = gzipSync(tar);
const config = JSON.stringify({
  os: 'linux',
  architecture: 'amd64',
  rootfs: { type: 'layers', diff_ids: [sha256(tar)] },
});
const toManifest = (layers: unknown[] = [describe('layer.v1.tar+gzip', layer)]) =>
  JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: describe('config.v1+json', config),
    layers,
  });
const toIndex = (manifests: unknown[]) =>
  JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests,
  });

const servers: ReturnType<typeof createServer>[] = [];
t.teardown(() => {
  for (const server of servers) server.close().closeAllConnections();
});
function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve(`127.0.0.1:${(server.address() as AddressInfo).port}`)),
  );
}

type Lies = { readonly [what in 'ping' | 'manifest' | 'layer' | 'config']?: RequestListener };

/** Tells the truth but where it is told otherwise. */
function liar({ ping, manifest, layer: onLayer, config: onConfig }: Lies): Promise<string> {
  return serve((request, response) => {
    const path = request.url ?? '';
    if (path === '/v2/') ping === undefined ? response.end('{}') : ping(request, response);
    else if (path.includes('/manifests/')) (manifest ?? says(toManifest()))(request, response);
    else if (path.includes(sha256(config))) (onConfig ?? says(config))(request, response);
    else (onLayer ?? says(layer))(request, response);
  });
}

const says =
  (body: string | Buffer, status = 200): RequestListener =>
  (_, response) => {
    const type = /"mediaType":"(application\/vnd.oci.image.(?:manifest|index)[^"]+)"/.exec(String(body))?.[1];
    response.writeHead(status, { 'content-type': type ?? 'application/octet-stream' }).end(body);
  };

/** Until nobody takes more. */
const goesOn =
  (byte: string, type = 'application/octet-stream'): RequestListener =>
  (_, response) => {
    response.writeHead(200, { 'content-type': type });
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536, byte)));
    };
    response.on('drain', more);
    more();
  };

const inside = await serve((request, response) =>
  says(SECRET, request.url === '/forbidden' ? 403 : 200)(request, response),
);
const leads =
  (path: string): RequestListener =>
  (_, response) =>
    response.writeHead(307, { location: `http://${inside}${path}` }).end();
const PLATFORM = { os: 'linux', architecture: 'amd64' };

const LIES: Readonly<Record<string, readonly [lies: Lies, message: RegExp]>> = {
  'a layer of another digest': [{ layer: says('x'.repeat(1000)) }, /digest/i],
  'a layer that is cut': [
    {
      layer: (_, response) => {
        response.setHeader('content-length', 1000).write('x');
        response.destroy();
      },
    },
    /EOF|connection/i,
  ],
  'a layer that is not there': [{ layer: says('', 404) }, /404/],
  'a layer without end': [{ layer: goesOn('x') }, /a blob has more than 4194304 bytes/],
  'a layer that never comes': [{ layer: () => undefined }, /the registry sent nothing for 2 s/],
  'a layer that stops half-way': [
    { layer: (_, response) => void response.writeHead(200).write(layer.subarray(0, 20)) },
    /the registry sent nothing for 2 s/,
  ],
  'no word at all': [{ ping: () => undefined }, /the registry sent nothing for 2 s/],
  'a page in place of a manifest': [{ manifest: says('<html>hello</html>') }, /./],
  'a manifest without end': [
    { manifest: goesOn(' ', 'application/vnd.oci.image.manifest.v1+json') },
    /exceeded maximum allowed size/,
  ],
  'a config without end': [{ config: goesOn(' ') }, /exceeded maximum/],
  'a list of nothing': [{ manifest: says(toIndex([])) }, /the list holds no image$/],
  'a list that refers to itself': [
    { manifest: says(toIndex([{ ...describe('index.v1+json', 'x'), platform: PLATFORM }])) },
    /digest/,
  ],
  'another image than its digest': [
    { manifest: says(toIndex([{ ...describe('manifest.v1+json', 'x'), platform: PLATFORM }])) },
    /digest|manifest/i,
  ],
  'a layer that leads inside': [{ layer: leads('/') }, /digest/i],
  'a manifest that leads inside': [{ manifest: leads('/') }, /not JSON$/],
  'a manifest that leads to what is forbidden': [{ manifest: leads('/forbidden') }, /StatusCode: 403$/],
  'a password to be asked for inside': [
    {
      ping: (_, response) =>
        response
          .writeHead(401, { 'www-authenticate': `Bearer realm="http://${inside}/forbidden",service="x"` })
          .end(),
    },
    /not JSON$/,
  ],
  'a layer by an address of its own': [
    {
      layer: says('', 404),
      manifest: says(
        toManifest([describe('layer.nondistributable.v1.tar+gzip', layer, { urls: [`http://${inside}/`] })]),
      ),
    },
    /layer 1 is not in it but at an address of its own/,
  ],
  'errors that are pages': [{ manifest: says(`<html>${SECRET}</html>`, 500) }, /500|manifest/i],
};

for (const [name, [lies, message]] of Object.entries(LIES)) {
  t.test(name, async (t) => {
    const dataDir = world.path('data');
    const images = await world.openImages(dataDir, {
      maxBlobBytes: 4 << 20,
      pullIdleMs: 2000,
      pullPauseMs: 10,
    });
    const registry = await liar(lies);
    const error = await images.pull(`${registry}/app`, 'always').then(
      () => undefined,
      (error: Error) => error,
    );
    t.match(error, { code: 'upstream', message });
    t.match(error?.message, /^(?:cannot pull|image) 127\.0\.0\.1:\d+\/app:latest: [^\n]+$/);
    t.notMatch(error?.message, new RegExp(SECRET), 'what only this host reaches is not shown');
    t.comment(error?.message ?? '');
    t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
    await images.close();
  });
}

t.test('a layer at ten bytes a second continues while a client waits for it, and no longer', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir, { pullIdleMs: 1000 });
  let sent = 0;
  const left = Promise.withResolvers<void>();
  const slow: RequestListener = (_, response) => {
    response.writeHead(200, { 'content-length': layer.length });
    const timer = setInterval(() => response.write(layer.subarray(sent, ++sent)), 100);
    response.on('close', () => {
      clearInterval(timer);
      left.resolve();
    });
  };
  const leave = new AbortController();
  const pull = images.pull(`${await liar({ layer: slow })}/app`, 'always', { signal: leave.signal });
  await until(() => sent > 25, 'more came than a silent registry has time for');
  leave.abort(new AppError('cancelled', 'nobody waits'));
  await t.rejects(pull, { code: 'cancelled', message: 'nobody waits' });
  await left.promise;
  await until(() => stored(dataDir).work === 0, 'the end of the work');
  await images.close();
  t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
});

t.test('the same without a lie is pulled', async (t) => {
  const images = await world.openImages(world.path('data'), { maxBlobBytes: 4 << 20 });
  t.equal((await images.pull(`${await liar({})}/app`, 'always')).entries, 1);
  await images.close();
});

t.test('a disk that is about to be full ends what fills it', async (t) => {
  using room = watchFreeDisk(world.dir, undefined, Number.MAX_SAFE_INTEGER);
  await new Promise((resolve) => room.signal.addEventListener('abort', resolve));
  t.match(room.signal.reason, { code: 'exhausted', message: /no room for the image/ });
});
