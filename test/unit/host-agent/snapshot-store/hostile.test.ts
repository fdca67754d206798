// What the bucket has may be anything, even with the right key: a host of the fleet may be an attacker's.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { readDescription } from '../../../../host-agent/src/sandboxes/stored/description.ts';
import { openChunk, sealChunk } from '../../../../host-agent/src/snapshot-store/chunk.ts';
import { openManifest } from '../../../../host-agent/src/snapshot-store/manifest.ts';
import { StoreKeys } from '../../../../host-agent/src/snapshot-store/store-keys.ts';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';

const MIB = 2 ** 20;
const keys = new StoreKeys(randomBytes(32));
const id = 'snap_0000000000000';
const base = { formatVersion: 1, id, description: {}, files: [] as unknown[] };
const memory = (change: object) => ({
  ...base,
  files: [{ part: 'memory', sizeBytes: 3 * MIB, chunks: [], ...change }],
});
const name = (digit: string) => digit.repeat(64);

t.test('manifests: other ids, paths, sizes, orders, bombs', async (t) => {
  const seal = (text: string) => keys.seal(`snapshots/${id}`, zstdCompressSync(text));
  const refused = async (content: unknown, what: RegExp) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    const message = new RegExp(`${id} cannot be used: .*${what.source}`);
    await t.rejects(openManifest(keys, id, seal(text)), { code: 'internal', message });
  };
  await refused('x', /not valid JSON/);
  await refused('['.repeat(65 * MIB), /larger than 67108864 bytes/);
  await refused('['.repeat(100_000), /JSON/);
  await refused({ ...base, id: 'snap_1111111111111' }, /it is of snap_1/);
  await refused({ ...base, more: 1 }, /unrecognized_keys/);
  await refused(memory({ part: '../x' }), /invalid_format/);
  await refused(memory({ chunks: [[0, '../../../deleted/x']] }), /invalid_format/);
  await refused(memory({ sizeBytes: 2 ** 52 }), /too_big/);
  await refused(
    memory({
      chunks: [
        [1, name('a')],
        [0, name('b')],
      ],
    }),
    /a chunk 0, out of order/,
  );
  await refused(memory({ chunks: [[3, name('a')]] }), /behind its end/);
  await refused({ ...base, files: Array(9).fill(memory({}).files[0]) }, /too_big/);
  const other = new StoreKeys(randomBytes(32)).seal(`snapshots/${id}`, zstdCompressSync('{}'));
  await t.rejects(openManifest(keys, id, other), /sealed with another key/);
  for (const description of [{}, null, 'x', { archive: {} }])
    t.throws(() => readDescription({ ...base, description } as never), { code: 'internal' });
});

t.test('chunks: bombs, those of another tenant, other lengths', async (t) => {
  const [own, other] = [keys.tenant('a'), keys.tenant('b')];
  const plain = Buffer.alloc(MIB, 1);
  const name = own.nameOf(plain);
  t.not(own.nameOf(plain), other.nameOf(plain));
  t.not(own.tag, other.tag);
  t.not(keys.tenant(undefined).tag, keys.tenant('').tag);
  const sealed = await sealChunk(own, name, plain);
  t.ok((await openChunk(own, name, sealed, MIB)).equals(plain));
  t.ok((await sealChunk(own, name, plain)).equals(sealed), 'the same each time');
  const bomb = own.seal(name, Buffer.concat([Buffer.from([1]), zstdCompressSync(Buffer.alloc(256 * MIB))]));
  const refused = (bytes: Buffer, length = MIB, reader = own) =>
    t.rejects(openChunk(reader, name, bytes, length), { code: 'internal' });
  await refused(bomb);
  await refused(sealed, MIB, other);
  await refused(sealed, MIB - 1);
  await refused(await sealChunk(own, name, plain.subarray(1)), MIB - 1);
  await refused(own.seal(name, Buffer.from([7, 1, 2])));
  for (const length of [0, 3, 29, sealed.length - 1]) await refused(sealed.subarray(0, length));
});

t.test('garbage, and objects larger than any of ours, stop nothing', async (t) => {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const { store, collector } = openTestStore(t, settings);
  const signal = new AbortController().signal;
  const put = (key: string, body: Buffer) =>
    s3.objects.set(`${settings.prefix}/${key}`, { body, writtenMs: Date.now() });
  const file = join(t.testdir({ file: 'content' }), 'file');
  const image = name('c');
  await store.images.ensure(
    { id: image, description: {}, path: file },
    { isAnew: false, maxBytes: 0 },
    signal,
  );
  const startMs = Date.now();
  for (const [n, sizeBytes] of [10, 20_000, 9 * MIB].entries()) {
    const atMs = startMs + 2 * n;
    const body = randomBytes(sizeBytes);
    await store.images.name('app:1', { id: image, atMs }, signal);
    const [own = ''] = [...s3.objects.keys()].filter((key) => key.includes('/names/'));
    put(own.slice(settings.prefix.length + 1), body);
    put(`deleted/${id}`, body);
    t.equal(await store.isDeleted(id, signal), false);
    const { problems, images } = await collector.collect(signal);
    t.same([problems.length, images], [1, 1], `${sizeBytes} bytes`);
    await t.rejects(store.images.find('app:1', signal), { code: 'internal' });
    await store.images.name('app:1', { id: image, atMs: atMs + 1 }, signal);
    t.equal((await store.images.find('app:1', signal))?.id, image, 'the next pull mends it');
    put(`claims/sbx_0000000000000/${'a'.repeat(32)}`, body);
    const damaged = { code: 'internal', details: { stage: 'store' } };
    await t.rejects(store.parked.readClaim(`sbx_0000000000000/${'a'.repeat(32)}`), damaged);
    put('names/other', body);
    t.equal((await collector.collect(signal)).problems.length, 1);
    s3.age(31 * 24 * 3_600_000);
    await store.images.name('app:1', { id: image, atMs: atMs + 1.5 }, signal);
    await collector.collect(signal);
    t.notOk(s3.objects.has(`${settings.prefix}/names/other`), 'after a month it is removed');
    t.notOk(s3.objects.has(`${settings.prefix}/deleted/${id}`));
  }
  await store.remove(id, signal);
  t.equal(await store.isDeleted(id, signal), true, 'a mark of a host');
});
