// Files that are sent as changes of a copy that was sent before.
import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newId } from '../../../../host-agent/src/lib/ids.ts';
import { RightOfWay } from '../../../../host-agent/src/sandboxes/moves/right-of-way.ts';
import {
  BLOCK_BYTES,
  MAX_BLOCKS,
  type Piece,
  readChanges,
  readPiece,
} from '../../../../host-agent/src/snapshot-store/changes.ts';
import {
  CHUNK_BYTES,
  diskBytesOf,
  type FileContent,
  type StoredFile,
  type StoreManifest,
} from '../../../../host-agent/src/snapshot-store/index.ts';
import { WrittenWindows } from '../../../../host-agent/src/snapshot-store/written.ts';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';

const SIGNAL = new AbortController().signal;
const SIZE = 6 * CHUNK_BYTES + 1000;

function makeFiles(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'changes-files-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const [path, copy, arrived] = ['memory', 'copy', 'arrived'].map((name) => join(dir, name));
  if (path === undefined || copy === undefined || arrived === undefined) throw new Error('no files');
  // Two chunks of content, and a hole up to an end within a block.
  writeFileSync(path, randomBytes(2 * CHUNK_BYTES));
  truncateSync(path, SIZE);
  copyFileSync(path, copy);
  const write = async (offset: number, bytes: Buffer): Promise<void> => {
    await using file = await open(path, 'r+');
    await file.write(bytes, 0, bytes.length, offset);
  };
  return { path, copy, arrived, write };
}

/** As a guest changes its memory: a page here and there, one that becomes zeros, the end of the file. */
async function changePages(write: (offset: number, bytes: Buffer) => Promise<void>): Promise<void> {
  await write(5 * BLOCK_BYTES + 7, Buffer.from('changed'));
  await write(CHUNK_BYTES, Buffer.alloc(BLOCK_BYTES));
  await write(3 * CHUNK_BYTES, Buffer.alloc(2 * BLOCK_BYTES, 'new'));
  await write(SIZE - 3, Buffer.from('end'));
}

t.test('pieces have the blocks that differ, and no others', async (t) => {
  const { path, copy, write } = makeFiles(t);
  const changes = async () => {
    const found: Piece[] = [];
    for await (const piece of readChanges(path, { path: copy, chunks: [0, 1] }, SIZE)) found.push(piece);
    return found;
  };
  t.same(await changes(), [], 'nothing differs');
  await changePages(write);
  const [piece, ...more] = await changes();
  if (piece === undefined) throw new Error('no piece');
  t.same(more, []);
  t.equal(piece.blocks, 5);
  const parts = [...readPiece(piece.bytes, piece.blocks, SIZE)];
  t.same(
    parts.map(({ offset, bytes }) => [offset, bytes.length]),
    [
      [5 * BLOCK_BYTES, BLOCK_BYTES],
      [CHUNK_BYTES, BLOCK_BYTES],
      [3 * CHUNK_BYTES, 2 * BLOCK_BYTES],
      [6 * CHUNK_BYTES, 1000],
    ],
  );
  const now = readFileSync(path);
  for (const { offset, bytes } of parts)
    t.ok(now.subarray(offset, offset + bytes.length).equals(bytes), `the content at ${offset}`);

  await write(0, Buffer.alloc(2 * CHUNK_BYTES, 'all'));
  const all = await changes();
  t.ok(all.every(({ bytes }) => bytes.length <= CHUNK_BYTES));
  t.equal(all[0]?.blocks, MAX_BLOCKS);
  t.equal(
    all.reduce((sum, { blocks }) => sum + blocks, 0),
    (2 * CHUNK_BYTES) / BLOCK_BYTES + 3,
  );
});

t.test('what is no piece of the file is refused', async (t) => {
  const { path, copy, write } = makeFiles(t);
  await write(SIZE - 1, Buffer.from('.'));
  for await (const { bytes, blocks } of readChanges(path, { path: copy, chunks: [0, 1] }, SIZE)) {
    const read = (piece: Buffer, count: number, size: number) => () => [...readPiece(piece, count, size)];
    t.throws(read(bytes, blocks + 1, SIZE), /length/);
    t.throws(read(bytes.subarray(1), blocks, SIZE), /length/);
    t.throws(read(bytes, blocks, 6 * CHUNK_BYTES), /behind the end/);
    const far = Buffer.from(bytes).fill(0xff, 0, 6);
    t.throws(read(far, blocks, SIZE), /behind the end/);
  }
});

async function prepare(t: Test) {
  const s3 = await startS3(t);
  const { store, collector } = openTestStore(t, makeStoreSettings(t, s3.url));
  const files = makeFiles(t);
  const { path, copy } = files;
  const { described } = await store.sendChunks(
    { tenant: 'acme', files: [{ part: 'memory', path: copy }] },
    SIGNAL,
  );
  const [stored] = described;
  if (stored === undefined) throw new Error('nothing was sent');
  const id = `${newId('sbx')}/${'0'.repeat(32)}`;
  const upload = (base = { path: copy, stored }) =>
    store.upload({ id, tenant: 'acme', description: {}, files: [{ part: 'memory', path, base }] }, SIGNAL);
  const base: StoreManifest = { formatVersion: 1, id, tenant: 'acme', description: {}, files: described };
  const sentChunks = () => s3.count('PUT', /chunks\//);
  return { ...files, s3, store, collector, stored, id, upload, base, sentChunks };
}

t.test('a host that has the copy fetches pages alone', async (t) => {
  const { store, path, arrived, write, s3, upload, base, id, sentChunks } = await prepare(t);
  const content = new Map<string, FileContent>();
  const fetch = (manifest: StoreManifest) =>
    store.download(manifest, { memory: arrived }, SIGNAL, { content });
  await fetch(base);
  await changePages(write);
  const before = sentChunks();
  const { manifest, sentBytes } = await upload();
  t.equal(sentChunks() - before, 1, 'one piece is sent');
  t.ok(sentBytes < 6 * BLOCK_BYTES);
  t.match(manifest, { formatVersion: 2, files: [{ changes: [[5]] }] });
  t.same(await store.read(id), manifest);
  const asked = s3.count('GET', /chunks\//);
  const { written } = await fetch(manifest);
  t.equal(s3.count('GET', /chunks\//) - asked, 1);
  t.equal(written.get('memory')?.length, 4);
  t.ok(readFileSync(arrived).equals(readFileSync(path)));

  // What was changed is of no chunk any more.
  await fetch(base);
  t.notOk(readFileSync(arrived).equals(readFileSync(path)));
  await fetch(manifest);
  t.ok(readFileSync(arrived).equals(readFileSync(path)), 'there and back');
  // A host that has nothing.
  await store.download(manifest, { memory: `${arrived}-2` }, SIGNAL);
  t.ok(readFileSync(`${arrived}-2`).equals(readFileSync(path)));
});

t.test('without changes, or with another size, it is a manifest as earlier versions write it', async (t) => {
  const { path, arrived, store, upload } = await prepare(t);
  const { manifest } = await upload();
  t.equal(manifest.formatVersion, 1);
  t.notOk(manifest.files.some((file) => 'changes' in file));
  truncateSync(path, SIZE + 5);
  const longer = await upload();
  t.match(longer.manifest, { formatVersion: 1, files: [{ sizeBytes: SIZE + 5 }] });
  await store.download(longer.manifest, { memory: arrived }, SIGNAL);
  t.ok(readFileSync(arrived).equals(readFileSync(path)));
});

t.test('what the bucket has lost of the copy is sent again', async (t) => {
  const { s3, store, path, arrived, write, upload } = await prepare(t);
  for (const key of s3.objects.keys()) if (/chunks\//.test(key)) s3.objects.delete(key);
  store.forgetSeen();
  await changePages(write);
  const { manifest } = await upload();
  await store.download(manifest, { memory: arrived }, SIGNAL);
  t.ok(readFileSync(arrived).equals(readFileSync(path)));
});

t.test('a collection keeps pieces, and a verification misses them', async (t) => {
  const { s3, collector, write, upload, store, arrived } = await prepare(t);
  await changePages(write);
  const { manifest } = await upload();
  s3.age(25 * 3_600_000);
  t.match(await collector.collect(SIGNAL), { removed: 0 });
  for (const isThorough of [false, true])
    t.match(await collector.verify(isThorough, SIGNAL), { problems: [] });
  t.match((await collector.stats(SIGNAL)).byTenant, [{ tenant: 'acme', chunks: 3 }]);
  const [[, name] = []] = manifest.files[0]?.changes ?? [];
  const key = [...s3.objects.keys()].find((each) => each.endsWith(`/${name}`)) ?? '';
  s3.objects.delete(key);
  const { problems } = await collector.verify(false, SIGNAL);
  t.match(problems, [{ problem: /^changes 0 of memory: the chunk [0-9a-f]+ is missing$/ }]);
  await t.rejects(store.download(manifest, { memory: arrived }, SIGNAL), {
    code: 'internal',
    message: /changes of memory/,
  });
});

t.test('a manifest that names another number of blocks is refused', async (t) => {
  const { store, arrived, write, upload } = await prepare(t);
  await changePages(write);
  const { manifest } = await upload();
  const files = manifest.files.map((file) => ({
    ...file,
    changes: file.changes?.map(([blocks, name]) => [blocks - 1, name] as [number, string]),
  }));
  await t.rejects(store.download({ ...manifest, files }, { memory: arrived }, SIGNAL), { code: 'internal' });
});

t.test('what is sent and fetched ahead gives way before each chunk', async (t) => {
  const { store, copy, arrived, base } = await prepare(t);
  let asked = 0;
  const giveWay = async () => {
    asked += 1;
  };
  await store.sendChunks({ tenant: 'acme', files: [{ part: 'memory', path: copy }], giveWay }, SIGNAL);
  t.equal(asked, 2, 'also for one that is there');
  await store.download(base, { memory: arrived }, SIGNAL, { giveWay });
  t.equal(asked, 4);
});

t.test('what gives way when it is aborted ends at once', async (t) => {
  const { store, path, arrived, base } = await prepare(t);
  const way = new RightOfWay(3_600_000);
  using _paused = way.begin();
  type Run = (signal: AbortSignal, giveWay: (signal: AbortSignal) => Promise<void>) => Promise<unknown>;
  const send: Run = (signal, giveWay) =>
    store.sendChunks({ tenant: 'acme', files: [{ part: 'memory', path }], giveWay }, signal);
  const fetch: Run = (signal, giveWay) => store.download(base, { memory: arrived }, signal, { giveWay });
  for (const run of [send, fetch]) {
    const stop = new AbortController();
    const giveWay = (signal: AbortSignal) => {
      const given = way.give(signal);
      setImmediate(() => stop.abort(new Error('taken')));
      return given;
    };
    await t.rejects(run(stop.signal, giveWay), { message: 'taken' });
  }
});

t.test('no more blocks are changed than a file has, and none takes more disk space than it', async (t) => {
  const { store, base, stored } = await prepare(t);
  const [[, name] = [0, '']] = stored.chunks;
  const put = async (changes: [number, string][]) => {
    const manifest = { ...base, formatVersion: 2 as const, files: [{ ...stored, changes }] };
    await store.putManifest(manifest, SIGNAL);
    return manifest;
  };
  const blocks = Math.ceil(SIZE / BLOCK_BYTES);
  const whole = Array.from({ length: Math.floor(blocks / MAX_BLOCKS) }, (): [number, string] => [
    MAX_BLOCKS,
    name,
  ]);
  const rest = blocks % MAX_BLOCKS;
  const full = await put([...whole, [rest, name]]);
  t.same(await store.read(base.id), full);
  t.equal(diskBytesOf(full.files[0] as StoredFile), 7 * CHUNK_BYTES);
  t.equal(
    diskBytesOf(full.files[0] as StoredFile, () => true),
    5 * CHUNK_BYTES,
    'with the two of the copy',
  );
  await put([...whole, [rest, name], [1, name]]);
  await t.rejects(store.read(base.id), {
    code: 'internal',
    message: /its memory has more changes than blocks/,
  });
});

t.test('what is known of writes does not grow with their number', (t) => {
  const written = new WrittenWindows();
  for (let block = 0; block < 4096; block += 2) written.add(block * BLOCK_BYTES, BLOCK_BYTES);
  t.same(written.ranges(), [{ offset: 0, length: 4096 * BLOCK_BYTES }]);
  const window = CHUNK_BYTES / 16;
  const few = new WrittenWindows();
  few.add(3 * CHUNK_BYTES - 1, 2);
  few.add(15 * window, 1);
  few.add(CHUNK_BYTES, 1);
  few.add(2 ** 49, 1);
  t.same(few.ranges(), [
    { offset: 15 * window, length: 2 * window },
    { offset: 3 * CHUNK_BYTES - window, length: 2 * window },
    { offset: 2 ** 49, length: window },
  ]);
  t.end();
});

t.test('what a host has taken meanwhile is not made again in another form', async (t) => {
  const { s3, store, path, write, upload, base } = await prepare(t);
  await changePages(write);
  await upload();
  const { id } = base;
  const replace = (beforeManifest: () => Promise<void>) =>
    store.upload(
      {
        ...{ id, tenant: 'acme', description: {}, files: [{ part: 'memory', path }] },
        ...{ replaces: true, beforeManifest },
      },
      SIGNAL,
    );
  t.match(await replace(async () => undefined), { manifest: { formatVersion: 1 } });
  t.match(await store.read(id), { formatVersion: 1 });
  let refused = 0;
  s3.fault = (method, key) =>
    method === 'PUT' && /sandboxes\//.test(key) && refused++ === 0
      ? { status: 501, code: 'NotImplemented' }
      : undefined;
  t.match(await replace(async () => undefined), { manifest: { formatVersion: 1 } }, 'of a plain server');
  t.equal(refused, 2, 'the second one without a condition');
  s3.fault = () => undefined;
  await t.rejects(replace(() => store.removeManifest(id)));
  t.equal(await store.read(id), undefined);
  await t.rejects(
    replace(async () => undefined),
    { code: 'conflict' },
  );
  t.notOk([...s3.objects.keys()].some((key) => /sandboxes\//.test(key)));
});
