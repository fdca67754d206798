// The contract of the snapshot store with an S3 server: the one of this process, or a real one that S3 names
// (http://key:secret@host:port/bucket).
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newId } from '../../../../host-agent/src/lib/ids.ts';
import type { StoreSettings } from '../../../../host-agent/src/snapshot-store/index.ts';
import { Bucket } from '../../../../host-agent/src/snapshot-store/s3/bucket.ts';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';
import { scaled } from '../../../support/time-scale.ts';

const MIB = 2 ** 20;
const REAL = process.env.S3;
const SIGNAL = new AbortController().signal;
t.setTimeout(scaled(300_000));

async function prepare(t: Test) {
  const url = REAL ?? (await startS3(t)).url;
  const settings = makeStoreSettings(t, url);
  return { settings, ...openTestStore(t, settings), bucket: openBucket(t, settings), ...makeFiles(t) };
}

/** The objects themselves, beside the store. */
function openBucket(t: Test, settings: StoreSettings): Bucket {
  const text = readFileSync(settings.credentialsFile ?? '', 'utf8');
  const [, accessKeyId = '', secretAccessKey = ''] = /id = (.*)\n.*key = (.*)\n/.exec(text) ?? [];
  const bucket = new Bucket({ ...settings, credentials: () => ({ accessKeyId, secretAccessKey }) });
  t.teardown(() => bucket.close());
  return bucket;
}

function makeFiles(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'store-files-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const make = (name: string, bytes: Buffer, sizeBytes = bytes.length) => {
    const path = join(dir, name);
    writeFileSync(path, bytes);
    truncateSync(path, sizeBytes);
    return path;
  };
  return { dir, make };
}

const keysOf = async (bucket: Bucket, path: string) => {
  const keys: string[] = [];
  for await (const page of bucket.list(path)) keys.push(...page.map(({ key }) => key));
  return keys;
};

t.test('files come back as they were, and what is there is not sent again', async (t) => {
  const { store, bucket, make, dir } = await prepare(t);
  const memory = Buffer.concat([randomBytes(3 * MIB), Buffer.alloc(2 * MIB), Buffer.alloc(MIB + 5, 'text')]);
  const files = [
    { part: 'memory', path: make('memory', memory, 40 * MIB + 3) },
    { part: 'disk', path: make('disk', Buffer.alloc(0), 64 * MIB) },
  ];
  const id = newId('snap');
  const upload = { id, tenant: 'acme', description: { any: 'thing' }, files };
  const first = await store.upload(upload, SIGNAL);
  t.match(first, { chunks: 5, sentChunks: 5 }, 'holes and zeros are not stored');
  t.ok(first.sentBytes < 3.2 * MIB, 'text is compressed');
  t.match(await store.upload({ ...upload, id: newId('snap') }, SIGNAL), { chunks: 5, sentChunks: 0 });
  const other = await store.upload({ ...upload, id: newId('snap'), tenant: 'other' }, SIGNAL);
  t.equal(other.sentChunks, 5, 'tenants share nothing');
  t.equal(new Set((await keysOf(bucket, 'chunks/')).map((key) => key.split('/')[3])).size, 10);

  const manifest = (await store.read(id))!;
  t.same(manifest.description, { any: 'thing' });
  const paths = { memory: join(dir, 'memory-copy'), disk: join(dir, 'disk-copy') };
  await store.download(manifest, paths, SIGNAL);
  for (const { part, path } of files)
    t.ok(readFileSync(paths[part as 'disk']).equals(readFileSync(path)), part);
  t.ok(statSync(paths.disk).blocks * 512 < MIB, 'it stays sparse');

  const listed: string[] = [];
  for await (const page of store.list()) listed.push(...page.map((each) => each.id));
  t.equal(listed.length, 3);
  t.ok(listed.includes(id));
  await store.remove(id);
  t.equal(await store.read(id), undefined);
  t.ok(await store.isDeleted(id));
  await t.rejects(store.putManifest(manifest, SIGNAL), { code: 'not_found' }, 'it does not come back');
  t.equal(await store.read('snap_../../x'), undefined, 'no path of another object');
});

t.test('a store opened again sends nothing either, and another key reads nothing', async (t) => {
  const { settings, store, make } = await prepare(t);
  const files = [{ part: 'memory', path: make('memory', randomBytes(2 * MIB)) }];
  const id = newId('snap');
  await store.upload({ id, tenant: undefined, description: {}, files }, SIGNAL);
  const again = openTestStore(t, settings).store;
  const result = await again.upload({ id: newId('snap'), tenant: undefined, description: {}, files }, SIGNAL);
  t.equal(result.sentChunks, 0);
  const stranger = openTestStore(t, {
    ...settings,
    keyFile: makeStoreSettings(t, 'http://x').keyFile!,
  }).store;
  await t.rejects(stranger.read(id), /sealed with another key/);
});

t.test('turned bits, missing chunks and cut manifests are refused, and named', async (t) => {
  const { store, collector, bucket, make, dir } = await prepare(t);
  const id = newId('snap');
  const files = [{ part: 'memory', path: make('memory', randomBytes(2 * MIB + 1000)) }];
  await store.upload({ id, tenant: 'acme', description: {}, files }, SIGNAL);
  const manifest = (await store.read(id))!;
  const path = `snapshots/${id}`;
  const whole = (await bucket.get(path, MIB))!;
  for (let turn = 0; turn < 15; turn++) {
    const changed = Buffer.from(whole);
    changed[Math.floor((turn * whole.length) / 15)]! ^= 1 << (turn % 8);
    await bucket.put(path, changed);
    await t.rejects(store.read(id), { code: 'internal', message: /damaged: (the manifest of )?.*snap_/ });
  }
  for (const length of [0, 1, 20, 40, whole.length - 1]) {
    await bucket.put(path, whole.subarray(0, length));
    await t.rejects(store.read(id), { code: 'internal', message: new RegExp(id) });
  }
  await t.rejects(collector.collect(SIGNAL, 0), /nothing was collected/);
  t.match(await collector.verify(false, SIGNAL), { problems: [{ snapshot: id }] });
  const other = newId('snap');
  await bucket.put(`snapshots/${other}`, whole);
  await t.rejects(store.read(other), /changed/, 'one manifest does not stand for another');
  await bucket.remove(`snapshots/${other}`);
  await bucket.put(path, whole);

  const keys = await keysOf(bucket, 'chunks/');
  let copies = 0;
  const fails = async (what: RegExp) => {
    const copy = join(dir, `copy-${copies++}`);
    await t.rejects(store.download(manifest, { memory: copy }, SIGNAL), { code: 'internal', message: what });
  };
  const chunk = (await bucket.get(keys[0]!, 2 * MIB))!;
  const name = keys[0]!.split('/').at(-1)!;
  for (let turn = 0; turn < 15; turn++) {
    const changed = Buffer.from(chunk);
    changed[Math.floor((turn * chunk.length) / 15)]! ^= 1 << (turn % 8);
    await bucket.put(keys[0]!, changed);
    await fails(new RegExp(`${name}.*memory of ${id} at \\d+`));
  }
  t.match(await collector.verify(false, SIGNAL), { problems: [] }, 'only a thorough one sees it');
  t.match(await collector.verify(true, SIGNAL), { problems: [{ snapshot: id, problem: /was changed/ }] });
  await bucket.put(keys[0]!, (await bucket.get(keys[1]!, 2 * MIB))!);
  await fails(/was changed/);
  await bucket.put(keys[0]!, randomBytes(4 * MIB));
  await fails(/sent more than/);
  await bucket.remove(keys[0]!);
  await fails(/is missing/);
  t.match(await collector.verify(false, SIGNAL), { problems: [{ snapshot: id, problem: /missing/ }] });
});

t.test('collection under load deletes nothing that is named', async (t) => {
  const { settings, store, collector, bucket, make } = await prepare(t);
  const shared = randomBytes(2 * MIB);
  const kept: string[] = [];
  const signal = SIGNAL;
  // The bounds of age are those of the server's clock, with seconds as its unit.
  const write = async (writer: number) => {
    const own = openTestStore(t, settings).store;
    for (let turn = 0; turn < 6; turn++) {
      const id = newId('snap');
      const path = make(`file-${writer}-${turn}`, Buffer.concat([shared, randomBytes(MIB)]));
      await own.upload({ id, tenant: 'acme', description: {}, files: [{ part: 'memory', path }] }, signal);
      if (turn % 2 === 0) await store.remove(id);
      else kept.push(id);
    }
  };
  let isOver = false;
  const collecting = (async () => {
    while (!isOver) await collector.collect(signal);
  })();
  await Promise.all([0, 1, 2, 3].map(write));
  isOver = true;
  await collecting;
  t.match(await collector.verify(true, signal), { snapshots: kept.length, problems: [] });
  t.equal((await keysOf(bucket, 'chunks/')).length, 2 + 24, 'they are younger than a day');
  const { removed, snapshots } = await collector.collect(signal, -3_600_000);
  t.same({ removed, snapshots }, { removed: 12, snapshots: 12 });
  t.match(await collector.verify(true, signal), { snapshots: 12, problems: [] });
  t.match(await collector.stats(signal), {
    snapshots: 12,
    chunks: 14,
    byTenant: [{ tenant: 'acme', snapshots: 12, chunks: 14 }],
  });
});

t.test('rates of an upload, of a second one, and of a fetch', async (t) => {
  const { settings, store, make, dir } = await prepare(t);
  // Half of it cannot be compressed, a quarter is text, a quarter is zeros.
  const parts = [randomBytes(32 * MIB), Buffer.alloc(16 * MIB, 'some text '), Buffer.alloc(16 * MIB)];
  const path = make('memory', Buffer.concat(parts));
  const files = [{ part: 'memory', path }];
  const measure = async (what: string, work: () => Promise<unknown>) => {
    const startedAt = performance.now();
    await work();
    const s = (performance.now() - startedAt) / 1000;
    t.comment(`${what}: ${s.toFixed(2)} s, ${Math.round(64 / s)} MiB/s of memory`);
  };
  const upload = { tenant: 'acme', description: {}, files };
  const id = newId('snap');
  await measure('upload', () => store.upload({ ...upload, id }, SIGNAL));
  await measure('again', () => store.upload({ ...upload, id: newId('snap') }, SIGNAL));
  const other = openTestStore(t, settings).store;
  await measure('again, of another host', () => other.upload({ ...upload, id: newId('snap') }, SIGNAL));
  const manifest = (await store.read(id))!;
  const copy = join(dir, 'copy');
  await measure('fetch', () => store.download(manifest, { memory: copy }, SIGNAL));
  t.ok(readFileSync(copy).equals(readFileSync(path)));
});

t.test('an object larger than is asked for, and a sparse file of a terabyte', async (t) => {
  const { store, bucket, dir } = await prepare(t);
  await bucket.put('x', randomBytes(100));
  await t.rejects(bucket.get('x', 10), /sent more than 10 bytes/);
  const path = join(dir, 'large');
  await using file = await open(path, 'w');
  await file.truncate(2 ** 40);
  await file.write(Buffer.from('end'), 0, 3, 2 ** 40 - 3);
  const id = newId('snap');
  const files = [{ part: 'disk', path }];
  t.match(await store.upload({ id, tenant: undefined, description: {}, files }, SIGNAL), { chunks: 1 });
});
