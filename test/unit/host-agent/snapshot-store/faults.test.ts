// Faults of the bucket: what is tried again, and what an operator reads.
import { randomBytes } from 'node:crypto';
import dns from 'node:dns';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newId } from '../../../../host-agent/src/lib/ids.ts';
import { openSnapshotStore } from '../../../../host-agent/src/snapshot-store/index.ts';
import { parseCredentials } from '../../../../host-agent/src/snapshot-store/open-store.ts';
import { makeAuthority } from '../../../http/certificates.ts';
import { type Fault, startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';
import { scaled } from '../../../support/time-scale.ts';

const MIB = 2 ** 20;
const SIGNAL = new AbortController().signal;
t.setTimeout(scaled(120_000));

async function prepare(t: Test) {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const { store, collector } = openTestStore(t, settings);
  const dir = mkdtempSync(join(tmpdir(), 'store-faults-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'memory');
  writeFileSync(path, randomBytes(4 * MIB));
  const upload = (id = newId('snap')) => ({
    ...{ id, tenant: 'acme', description: {}, files: [{ part: 'memory', path }] },
  });
  return { s3, settings, store, collector, upload, dir };
}

t.test('what passes is tried again', async (t) => {
  const { s3, store, upload, dir } = await prepare(t);
  const seen = new Map<string, number>();
  const faults: Fault[] = [{ status: 503, code: 'SlowDown' }, 'cut', { status: 500, code: 'InternalError' }];
  s3.fault = (method, key) => {
    const count = seen.get(method + key) ?? 0;
    seen.set(method + key, count + 1);
    return faults[count];
  };
  const { manifest } = await store.upload(upload(), SIGNAL);
  await store.download(manifest, { memory: join(dir, 'copy') }, SIGNAL);
  s3.fault = () => undefined;
  s3.pageSize = 1;
  const listed: string[] = [];
  await store.upload(upload(), SIGNAL);
  for await (const page of store.list()) listed.push(...page.map(({ id }) => id));
  t.equal(new Set(listed).size, 2, 'pages');
});

for (const [what, fault, message] of [
  ['no permission', { status: 403, code: 'AccessDenied' }, /refuses the credentials \(403 AccessDenied/],
  ['no bucket', { status: 404, code: 'NoSuchBucket' }, /does not exist.*create the bucket/],
  ['another region', { status: 301, code: 'PermanentRedirect' }, /set snapshot_store_region/],
  ['a full bucket', { status: 507, code: 'XMinioStorageFull' }, /is full \(507/],
  ['a full bucket that says 503', { status: 503, code: 'QuotaExceeded' }, /is full/],
] as const)
  t.test(`${what} is named, and nothing is listed`, async (t) => {
    const { s3, store, upload } = await prepare(t);
    s3.fault = (method) => (method === 'PUT' ? fault : undefined);
    await t.rejects(store.upload(upload(), SIGNAL), { code: 'upstream', message });
    s3.fault = () => undefined;
    for await (const page of store.list()) t.same(page, []);
  });

t.test('wrong credentials, a wrong clock, a wrong bucket, nobody there', async (t) => {
  const { s3, settings, store } = await prepare(t);
  s3.skewMs = 3_600_000;
  await t.rejects(store.read(newId('snap')), /clock of this host differs .* by 3[56]\d\d s; set it/);
  s3.skewMs = 0;
  const wrong = join(settings.keyFile!, '../wrong');
  writeFileSync(wrong, 'aws_access_key_id=AKIATEST\naws_secret_access_key=other\n', { mode: 0o600 });
  const other = (change: object) => openTestStore(t, { ...settings, ...change }).store;
  await t.rejects(other({ credentialsFile: wrong }).read(newId('snap')), /SignatureDoesNotMatch/);
  await t.rejects(other({ bucket: 'another' }).read(newId('snap')), /does not exist/);
  const nobody = other({ endpoint: new URL('http://127.0.0.1:9') });
  await t.rejects(nobody.read(newId('snap')), /cannot reach the snapshot store .* ECONNREFUSED/);
  chmodSync(settings.keyFile!, 0o644);
  t.throws(() => openSnapshotStore(settings), /other users can read it/);
  t.throws(() => openSnapshotStore({ ...settings, keyFile: undefined! }), /needs snapshot_store_key_file/);
});

t.test('credentials are read as from ~/.aws/credentials', async (t) => {
  const text =
    '# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b/+=\n\n[other]\naws_access_key_id = c\n';
  t.same(parseCredentials('f', text), { accessKeyId: 'a', secretAccessKey: 'b/+=' });
  for (const bad of ['', 'aws_access_key_id = a', 'aws_access_key_id = a b\naws_secret_access_key = c'])
    t.throws(() => parseCredentials('f', bad), /lines such as aws_access_key_id/);
});

t.test('an aborted upload ends at once, and leaves nothing that is listed', async (t) => {
  const { s3, store, upload } = await prepare(t);
  const stop = new AbortController();
  s3.fault = (method) => {
    if (method !== 'PUT') return undefined;
    setTimeout(() => stop.abort(new Error('enough')), 20);
    return 'hang';
  };
  await t.rejects(store.upload(upload(), stop.signal), /enough/);
  s3.fault = () => undefined;
  for await (const page of store.list()) t.same(page, []);
});

t.test('a chunk that may soon be collected gets a new age without being sent', async (t) => {
  const { s3, settings, store, collector, upload } = await prepare(t);
  const first = upload();
  await store.upload(first, SIGNAL);
  s3.age(13 * 3_600_000);
  const later = openTestStore(t, settings).store;
  const puts = s3.count('PUT', /chunks/);
  t.match(await later.upload(upload(), SIGNAL), { sentChunks: 0 });
  t.equal(s3.count('PUT', /chunks/) - puts, 4, 'copies onto themselves');
  await store.remove(first.id);
  s3.age(13 * 3_600_000);
  t.match(await collector.collect(SIGNAL), { removed: 0 }, 'the second names them');
  const copied = openTestStore(t, settings).store;
  s3.fault = (method, key) =>
    method === 'PUT' && key.includes('chunks') && s3.count('PUT', new RegExp(key)) % 2 === 1
      ? { status: 501, code: 'NotImplemented' }
      : undefined;
  s3.requests.length = 0;
  t.match(
    await copied.upload(upload(), SIGNAL),
    { sentChunks: 4 },
    'a server without copies gets them again',
  );
});

t.test(
  'chunks that are sent ahead: the upload names them, and sends those that were collected meanwhile',
  async (t) => {
    const { s3, settings, store, collector, upload } = await prepare(t);
    t.match(await store.sendChunks(upload(), SIGNAL), { chunks: 4, sentChunks: 4 });
    t.same(
      [...s3.objects.keys()].filter((key) => !key.includes('chunks')),
      [],
      'nothing names them',
    );
    t.match(await store.upload(upload(), SIGNAL), { sentChunks: 0 });
    s3.age(13 * 3_600_000);
    const later = openTestStore(t, settings).store;
    t.match(await later.sendChunks(upload(), SIGNAL), { sentChunks: 0 });
    // A collection that had seen their old age deletes them after that.
    for (const key of s3.objects.keys()) if (key.includes('chunks')) s3.objects.delete(key);
    t.match(await later.upload(upload(), SIGNAL), { sentChunks: 4 });
    await later.sendChunks({ tenant: 'another', files: upload().files }, SIGNAL);
    s3.age(25 * 3_600_000);
    t.match(await collector.collect(SIGNAL), { removed: 4 }, 'those that no upload names');
  },
);

t.test('unnamed chunks go after a day, named ones stay', async (t) => {
  const { s3, store, collector, upload } = await prepare(t);
  const { id } = upload();
  await store.upload({ ...upload(), id }, SIGNAL);
  s3.age(25 * 3_600_000);
  t.match(await collector.collect(SIGNAL), { chunks: 4, removed: 0 });
  await store.remove(id);
  t.match(await collector.collect(SIGNAL), { removed: 4 });
  t.equal([...s3.objects.keys()].filter((key) => key.includes('chunks')).length, 0);
  s3.age(31 * 86_400_000);
  await collector.collect(SIGNAL);
  t.equal(s3.objects.size, 0, 'marks of deleted ones are forgotten after a month');
});

t.test('TLS by an authority of its own; another one is refused, and the setting named', async (t) => {
  const authority = makeAuthority(t);
  const { certPath, keyPath } = authority.issue('s3');
  const s3 = await startS3(t, { tls: { cert: readFileSync(certPath), key: readFileSync(keyPath) } });
  const settings = makeStoreSettings(t, s3.url);
  const trusting = openTestStore(t, { ...settings, caFile: authority.caPath }).store;
  t.equal(await trusting.read(newId('snap')), undefined);
  const strict = openTestStore(t, settings).store;
  await t.rejects(strict.read(newId('snap')), /name its authority with snapshot_store_ca_file/);
  t.throws(
    () => openSnapshotStore({ ...settings, caFile: '/nowhere' }),
    /snapshot_store_ca_file .* cannot be read/,
  );
});

t.test('the bucket in the host name', async (t) => {
  const s3 = await startS3(t, { bucket: 'bucket' });
  const settings = makeStoreSettings(t, s3.url);
  const { port } = settings.endpoint;
  // No name server of a test host knows the name.
  const { lookup } = dns;
  t.teardown(() => Object.assign(dns, { lookup }));
  const names: string[] = [];
  const toLoopback = (name: string, _options: unknown, done: (...found: unknown[]) => void) => {
    names.push(name);
    done(null, [{ address: '127.0.0.1', family: 4 }]);
  };
  Object.assign(dns, { lookup: toLoopback });
  const endpoint = new URL(`http://localhost:${port}`);
  const { store } = openTestStore(t, { ...settings, endpoint, addressing: 'virtual' });
  t.equal(await store.read(newId('snap')), undefined);
  for await (const page of store.list()) t.same(page, []);
  t.same([...new Set(names)], ['bucket.localhost']);
});

t.test('a list that is no list as S3 sends it costs little', async (t) => {
  let page = '';
  const server = createServer((_, response) => response.end(`<ListBucketResult>${page}`));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const { store } = openTestStore(t, makeStoreSettings(t, `http://127.0.0.1:${port}`));
  const list = async () => {
    const startedMs = process.cpuUsage().user / 1000;
    const listed: string[] = [];
    for await (const found of store.list()) listed.push(...found.map(({ id }) => id));
    return { listed, cpuMs: process.cpuUsage().user / 1000 - startedMs };
  };
  // Eight times as much would take 64 times as long if every missing end were searched for again.
  for (const unclosed of ['<Contents>', '<Contents><Key>', '<NextContinuationToken>']) {
    page = unclosed.repeat(Math.floor(2 ** 20 / unclosed.length));
    const small = await list();
    page = page.repeat(7);
    const large = await list();
    t.same(large.listed, []);
    t.ok(large.cpuMs < 30 * Math.max(small.cpuMs, 50), `${unclosed}: ${small.cpuMs} and ${large.cpuMs} ms`);
  }
  page = '<Contents><Key>x</Key></Contents>'.repeat(1001);
  await t.rejects(list(), /more than 1000 objects in a page/);
});
