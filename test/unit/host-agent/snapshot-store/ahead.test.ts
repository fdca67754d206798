// What is sent and fetched ahead: files become later ones by what differs, and a copy is found by its departure alone.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { newId } from '../../../../host-agent/src/lib/ids.ts';
import {
  CHUNK_BYTES,
  type FileContent,
  STORE_FORMAT,
  type StoreManifest,
} from '../../../../host-agent/src/snapshot-store/index.ts';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';

const SIGNAL = new AbortController().signal;
const DEPARTURE = '0123456789abcdef0123456789abcdef';

async function prepare(t: Test) {
  const s3 = await startS3(t);
  const { store, collector } = openTestStore(t, makeStoreSettings(t, s3.url));
  const dir = mkdtempSync(join(tmpdir(), 'ahead-files-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const id = `${newId('sbx')}/${DEPARTURE}`;
  const path = join(dir, 'memory');
  const send = async (chunks: readonly Buffer[], sizeBytes: number): Promise<StoreManifest> => {
    writeFileSync(path, Buffer.concat(chunks));
    truncateSync(path, sizeBytes);
    const { described } = await store.sendChunks(
      { tenant: 'acme', files: [{ part: 'memory', path }] },
      SIGNAL,
    );
    return { formatVersion: STORE_FORMAT, id, tenant: 'acme', description: {}, files: described };
  };
  return { s3, store, collector, path, copy: join(dir, 'copy'), id, send };
}

t.test('a file becomes a later one by what differs', async (t) => {
  const { s3, store, path, copy, send } = await prepare(t);
  const [a, b, c, d] = [1, 2, 3, 4].map(() => randomBytes(CHUNK_BYTES));
  if (a === undefined || b === undefined || c === undefined || d === undefined) throw new Error('no chunks');
  const zeros = Buffer.alloc(CHUNK_BYTES);
  const content = new Map<string, FileContent>();
  const fetched = async (chunks: readonly Buffer[], sizeBytes: number) => {
    const manifest = await send(chunks, sizeBytes);
    const { bytes, written } = await store.download(manifest, { memory: copy }, SIGNAL, { content });
    t.ok(readFileSync(copy).equals(readFileSync(path)), 'it has the content of the source');
    return {
      chunks: bytes / CHUNK_BYTES,
      written: written.get('memory')?.flatMap(({ offset, length }) => {
        const first = offset / CHUNK_BYTES;
        return Array.from({ length: Math.ceil(length / CHUNK_BYTES) }, (_, at) => first + at);
      }),
    };
  };
  const size = 6 * CHUNK_BYTES;
  t.match(await fetched([a, b, zeros, c], size), { chunks: 3 });
  t.same(await fetched([a, b, zeros, c], size), { chunks: 0, written: [] }, 'nothing differs');
  t.same(await fetched([a, d, zeros, c], size), { chunks: 1, written: [1] });
  t.same(
    await fetched([a, zeros, d, c], size),
    { chunks: 1, written: [1, 2] },
    'what became zeros is cleared',
  );
  t.same(
    await fetched([a, a, a], 2 * CHUNK_BYTES + 5),
    { chunks: 1 + 5 / CHUNK_BYTES, written: [1, 2] },
    'shorter',
  );
  t.match(await fetched([a, a, a, b], size), { chunks: 2 }, 'and longer again');

  // One that breaks off is gone on with, and what it may have half written is fetched.
  const last = await send([d, c, b, a], size);
  let answers = 0;
  s3.fault = (method, key) =>
    method === 'GET' && /chunks\//.test(key) && answers++ >= 2
      ? { status: 403, code: 'AccessDenied' }
      : undefined;
  await t.rejects(store.download(last, { memory: copy }, SIGNAL, { content }));
  s3.fault = () => undefined;
  content.get('memory')?.set(0, undefined);
  await store.download(last, { memory: copy }, SIGNAL, { content });
  t.ok(readFileSync(copy).equals(Buffer.concat([d, c, b, a, zeros, zeros])));
});

t.test('a disk that takes a part of a chunk fails the download', async (t) => {
  const { store, copy, send } = await prepare(t);
  const small = `${copy}-disk`;
  mkdirSync(small);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1536k,mode=700', 'none', small]);
  } catch {
    t.comment('not tested: no right to mount');
    return;
  }
  t.teardown(() => execFileSync('umount', [small]));
  const size = 2 * CHUNK_BYTES;
  const manifest = await send([randomBytes(size)], size);
  const content = new Map<string, FileContent>();
  await t.rejects(store.download(manifest, { memory: join(small, 'memory') }, SIGNAL, { content }), {
    code: 'ENOSPC',
  });
  t.ok([...(content.get('memory')?.values() ?? [])].includes(undefined), 'it is not taken for whole');
});

t.test('a copy is found by the beginning of its departure, and opens under its own name alone', async (t) => {
  const { s3, store, collector, id, send } = await prepare(t);
  const [sandbox = ''] = id.split('/');
  const copy = await send([randomBytes(5)], 5);
  await store.ahead.put(copy, SIGNAL);
  t.match(await store.ahead.find(sandbox, '01234567', SIGNAL), { id, tenant: 'acme' });
  t.equal(await store.ahead.find(sandbox, 'ffffffff', SIGNAL), undefined);
  t.equal(await store.ahead.find(newId('sbx'), '01234567', SIGNAL), undefined);
  t.equal(await store.read(id), undefined, 'no sandbox is offered by it');
  t.same(await store.parked.find(sandbox), []);
  const [key] = [...s3.objects.keys()].filter((each) => /ahead\//.test(each));
  const object = s3.objects.get(key ?? '');
  if (key === undefined || object === undefined) throw new Error('it is not there');
  // A bucket that gives it for another sandbox, or offers it.
  const other = newId('sbx');
  s3.objects.set(key.replace(sandbox, other), object);
  await t.rejects(store.ahead.find(other, '01234567', SIGNAL), { code: 'internal' });
  s3.objects.set(key.replace('ahead/', 'sandboxes/'), object);
  await t.rejects(store.read(id), { code: 'internal' });
  s3.objects.delete(key.replace('ahead/', 'sandboxes/'));
  await collector.collect(SIGNAL);
  t.ok(s3.objects.has(key), 'a young one stays');
  s3.age(25 * 3_600_000);
  await collector.collect(SIGNAL);
  t.notOk(
    [...s3.objects.keys()].some((each) => /ahead\//.test(each)),
    'one that is left is collected',
  );
});

t.test('what a delete or a return could not remove goes with the next collection', async (t) => {
  const { store, collector, path, id } = await prepare(t);
  const other = `${newId('sbx')}/${DEPARTURE}`;
  const third = `${newId('sbx')}/${DEPARTURE}`;
  writeFileSync(path, randomBytes(5));
  const back = `${newId('sbx')}/${DEPARTURE}`;
  for (const each of [id, other, third, back])
    await store.upload(
      { id: each, tenant: 'acme', description: {}, files: [{ part: 'memory', path }] },
      SIGNAL,
    );
  t.ok(await store.parked.claimDeleted(id));
  t.ok(await store.parked.claim(other, 'a host'));
  t.ok(await store.parked.claimBack(back, 'a token'));
  t.ok(await store.parked.claimBack(back, 'a token'), 'again, after a lost answer');
  t.notOk(await store.parked.claimBack(back, 'another'));
  t.notOk(await store.parked.claimBack(other, 'a token'));
  t.ok(await store.parked.claimBack(other, 'a host'), 'as an earlier version wrote its own');
  await collector.collect(SIGNAL);
  t.equal(await store.read(id), undefined);
  t.equal(await store.read(back), undefined);
  t.match(await store.read(other), { id: other }, 'a host that has claimed one may need it still');
  t.match(await store.read(third), { id: third });
  t.notOk(await store.parked.claim(id, 'a host'), 'and no host takes it');
});
