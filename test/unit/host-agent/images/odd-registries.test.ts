// Registries as others' trackers report them, asked by us and by podman: what both take, and what is said of the rest.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archive } from '../../guest-agent/support/tar-blocks.ts';
import { World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const STORE = ['--root', world.path('store'), '--runroot', world.path('run'), '--storage-driver', 'vfs'];
const DOCKER = 'application/vnd.docker';
const MANIFEST = `${DOCKER}.distribution.manifest`;
const OCI = 'application/vnd.oci.image';
const JSON_TYPE = { 'content-type': 'application/json' };

/** By digest. */
const blobs = new Map<string, Buffer>();
const put = (mediaType: string, bytes: Buffer, algorithm = 'sha256') => {
  const digest = `${algorithm}:${createHash(algorithm).update(bytes).digest('hex')}`;
  blobs.set(digest, bytes);
  return { mediaType, digest, size: bytes.length };
};
const tar = archive([{ name: 'hello', content: 'hello' }]);
const packed = gzipSync(tar);
const about = Buffer.from(
  JSON.stringify({
    ...{ os: 'linux', architecture: 'amd64', config: {} },
    rootfs: { type: 'layers', diff_ids: [put('', tar).digest] },
  }),
);
const CONFIG = put(`${OCI}.config.v1+json`, about);
const LAYER = put(`${OCI}.layer.v1.tar+gzip`, packed);
const image = (more: object = {}) => ({
  ...{ schemaVersion: 2, mediaType: `${OCI}.manifest.v1+json`, config: CONFIG, layers: [LAYER] },
  ...more,
});
const dockers = (more: object = {}) =>
  image({
    mediaType: `${MANIFEST}.v2+json`,
    config: put(`${DOCKER}.container.image.v1+json`, about),
    layers: [put(`${DOCKER}.image.rootfs.diff.tar.gzip`, packed)],
    ...more,
  });
const layered = (type: string, bytes = Buffer.from('no archive '.repeat(99))) =>
  image({ layers: [put(type, bytes)] });
/** The first kind of manifest: the upper one of its layers is of no file. */
const first = () => {
  const empty = put('', gzipSync(Buffer.alloc(1024)));
  const [upper, lower] = ['b'.repeat(64), 'a'.repeat(64)];
  const made = { created: '2015-01-01T00:00:00Z', os: 'linux', architecture: 'amd64' };
  return {
    ...{ schemaVersion: 1, name: 'app', tag: 'latest', architecture: 'amd64' },
    fsLayers: [{ blobSum: empty.digest }, { blobSum: LAYER.digest }],
    history: [
      { v1Compatibility: JSON.stringify({ ...made, id: upper, parent: lower, throwaway: true, config: {} }) },
      { v1Compatibility: JSON.stringify({ ...made, id: lower, container_config: { Cmd: ['x'] } }) },
    ],
  };
};

type Asked = {
  readonly what: 'token' | 'ping' | 'manifest' | 'blob';
  readonly url: string;
  readonly bytes: Buffer;
  readonly port: number;
  readonly response: ServerResponse;
};
type Registry = {
  readonly manifest?: object;
  /** Of the manifest; false: none. */
  readonly type?: string | false;
  /** Answers, or not. */
  readonly habit?: (asked: Asked) => boolean;
  /** What we say when we do not take it. */
  readonly problem?: RegExp;
  readonly onlyBy?: 'podman';
};
const answer = (
  { response }: Asked,
  status: number,
  headers: Record<string, string> = {},
  body = '',
): true => {
  response.writeHead(status, headers).end(body);
  return true;
};
const refusal = (code: string, message: string) => JSON.stringify({ errors: [{ code, message }] });
/** Wants a token, which is this. */
const tokens = (body: string) => (asked: Asked) => {
  if (asked.what === 'token') return answer(asked, 200, JSON_TYPE, body);
  const realm = `http://127.0.0.1:${asked.port}/token`;
  return answer(asked, 401, { 'www-authenticate': `Bearer realm="${realm}",service="x"` });
};
const OTHER_TYPE =
  /unsupported schema version 2: the server sent the manifest with a Content-Type that is of no manifest$/;

const REGISTRIES: Readonly<Record<string, Registry>> = {
  'containerd/containerd#3238: no digest of the manifest in a header': {},
  'containerd/containerd#2840: a manifest of the first kind': {
    manifest: first(),
    type: `${MANIFEST}.v1+json`,
  },
  'the same, said to be signed': { manifest: first(), type: `${MANIFEST}.v1+prettyjws` },
  'google/go-containerregistry#617: the same, said to be text': { manifest: first(), type: 'text/plain' },
  'containerd/cri#787: a manifest that is said to be JSON': { type: 'application/json', problem: OTHER_TYPE },
  'goharbor/harbor#7853: one that is said to be bytes': {
    type: 'application/octet-stream',
    problem: OTHER_TYPE,
  },
  'one of no type': { type: false, problem: OTHER_TYPE },
  'one of a type with a parameter': { manifest: dockers(), type: `${MANIFEST}.v2+json; charset=utf-8` },
  'moby/moby#30083: a config that is said to be a page': {
    manifest: dockers({ config: put('text/html', about) }),
    type: `${MANIFEST}.v2+json`,
  },
  'moby/moby#48361: a config that is said to be bytes': {
    manifest: dockers({ config: put('application/octet-stream', about) }),
    type: `${MANIFEST}.v2+json`,
  },
  'moby/moby#19526: a page in place of a manifest': {
    habit: (asked) =>
      asked.what === 'manifest' && answer(asked, 200, { 'content-type': 'text/html' }, '<html>'),
    problem: /what it sent is not JSON$/,
  },
  'moby/moby#17595: a layer with x-gzip as its encoding': {
    habit: (asked) =>
      asked.what === 'blob' && answer(asked, 200, { 'content-encoding': 'x-gzip' }, asked.bytes as never),
  },
  'a manifest that is packed on its way': {
    habit: (asked) =>
      asked.what === 'manifest' &&
      answer(
        asked,
        200,
        { 'content-type': `${OCI}.manifest.v1+json`, 'content-encoding': 'gzip' },
        gzipSync(asked.bytes) as never,
      ),
  },
  'blobs elsewhere': {
    habit: (asked) =>
      asked.what === 'blob' &&
      !asked.url.includes('elsewhere') &&
      answer(asked, 307, {
        location: `http://localhost:${asked.port}/elsewhere/${asked.url.split('/').at(-1)}`,
      }),
  },
  'blobs in a circle': {
    habit: (asked) => asked.what === 'blob' && answer(asked, 307, { location: asked.url }),
    problem: /stopped after 10 redirects$/,
  },
  'blobs that lead nowhere': {
    habit: (asked) => asked.what === 'blob' && answer(asked, 307),
    problem: /307 \(Temporary Redirect\)$/,
  },
  'a challenge without a realm': {
    habit: (asked) => answer(asked, 401, { 'www-authenticate': 'Bearer service="x"' }),
    problem: /missing realm in bearer auth challenge$/,
  },
  'challenges of other kinds': {
    habit: (asked) => answer(asked, 401, { 'www-authenticate': 'NTLM, Negotiate' }),
    problem: /unauthorized: authentication required$/,
  },
  'no challenge': {
    habit: (asked) => answer(asked, 401, JSON_TYPE, refusal('DENIED', 'no')),
    problem: /denied: no$/,
  },
  'an empty token': { habit: tokens('{}'), problem: /unauthorized: authentication required$/ },
  'a page for a token': { habit: tokens('<html>'), problem: /what it sent is not JSON$/ },
  'a manifest of 5 MiB': {
    manifest: image({ annotations: { a: 'x'.repeat(5 << 20) } }),
    problem: /exceeded maximum allowed size of 4194304 bytes$/,
  },
  'distribution/distribution#4420: a layer named by SHA-512': {
    manifest: image({ layers: [put(LAYER.mediaType, packed, 'sha512')] }),
    problem: /: its blobs are named by sha512; only those named by sha256 are taken$/,
    onlyBy: 'podman',
  },
  'moby/moby#43778: an encrypted layer': {
    manifest: layered(`${OCI}.layer.v1.tar+gzip+encrypted`),
    problem: /: layer 1 is encrypted \("application\/vnd.oci.image.layer.v1.tar\+gzip\+encrypted"\), and /,
  },
  'anchore/stereoscope#140: a layer that is a file system': {
    manifest: layered('application/vnd.sylabs.sif.layer.v1.squashfs'),
    problem: /: layer 1 is of the type "application\/vnd.sylabs.sif.layer.v1.squashfs"; only archives /,
  },
  'a layer that is said to be bytes': { manifest: layered('application/octet-stream', packed) },
  'a layer not to be passed on': { manifest: layered(`${OCI}.layer.nondistributable.v1.tar+gzip`, packed) },
  'moby/moby#44367: a chart': {
    manifest: {
      ...layered('application/vnd.cncf.helm.chart.content.v1.tar+gzip'),
      config: put('a/chart', about),
    },
    problem: / is not an image but an artifact of the type "a\/chart"$/,
  },
  'an artifact without a config': {
    manifest: image({ config: put('application/vnd.oci.empty.v1+json', Buffer.from('{}')) }),
    problem: / is not an image but an artifact of the type "application\/vnd.oci.empty.v1\+json"$/,
  },
  'a layer of another size': { manifest: image({ layers: [{ ...LAYER, size: 20 }] }) },
  'a list of nothing': {
    manifest: { schemaVersion: 2, mediaType: `${OCI}.index.v1+json`, manifests: null },
    type: `${OCI}.index.v1+json`,
    problem: /the list holds no image$/,
  },
};

/** Gives its reference of the image. */
async function serve(t: Test, { manifest = image(), type, habit }: Registry): Promise<string> {
  const text = Buffer.from(JSON.stringify(manifest));
  const server = createServer(({ url = '' }, response) => {
    const [digest] = /sha\d+:[\da-f]+$/.exec(decodeURIComponent(url)) ?? [];
    const isManifest = url.includes('/manifests/');
    const what =
      digest && !isManifest ? 'blob' : url.startsWith('/token') ? 'token' : isManifest ? 'manifest' : 'ping';
    const bytes = what === 'manifest' ? text : (blobs.get(digest ?? '') ?? Buffer.from('{}'));
    const { port } = server.address() as AddressInfo;
    if (habit?.({ what, url, bytes, port, response })) return;
    if (what === 'manifest' && type !== false)
      response.setHeader('content-type', type ?? `${OCI}.manifest.v1+json`);
    response.end(bytes);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => void server.close().closeAllConnections());
  return `127.0.0.1:${(server.address() as AddressInfo).port}/app:latest`;
}

async function isTakenByPodman(name: string): Promise<boolean> {
  const child = spawn('podman', [...STORE, 'pull', '--quiet', '--tls-verify=false', name], {
    stdio: 'ignore',
  });
  const [code] = await once(child, 'close');
  return code === 0;
}

for (const [name, registry] of Object.entries(REGISTRIES)) {
  t.test(name, async (t) => {
    const { problem, onlyBy } = registry;
    const reference = await serve(t, registry);
    const images = await world.openImages(world.path('data'), { pullPauseMs: 20 });
    t.teardown(() => images.close());
    const pull = images.pull(reference, 'missing');
    if (problem === undefined) t.match(await pull, { entries: 1 });
    else await t.rejects(pull, { code: 'upstream', message: problem });
    t.equal(
      await isTakenByPodman(reference),
      problem === undefined || onlyBy === 'podman',
      'podman takes it, or not',
    );
  });
}

t.test('containers/image#618: a registry that wants to be asked later, again and again', async (t) => {
  let times = 0;
  const reference = await serve(t, {
    habit: (asked) => {
      if (asked.what !== 'manifest') return false;
      times += 1;
      return answer(
        asked,
        429,
        { ...JSON_TYPE, 'retry-after': '3' },
        refusal('TOOMANYREQUESTS', 'no more today'),
      );
    },
  });
  // Less than it says: to wait as told is not to get nothing.
  const images = await world.openImages(world.path('data'), { pullIdleMs: 2000 });
  t.teardown(() => images.close());
  const lines: string[] = [];
  await t.rejects(images.pull(reference, 'missing', { onProgress: (line) => lines.push(line) }), {
    code: 'upstream',
    message: /toomanyrequests: no more today$/,
  });
  t.equal(times, 5);
  t.equal(lines.filter((line) => /too many requests; it is asked again in 3 s$/.test(line)).length, 4);
});
