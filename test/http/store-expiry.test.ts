// Snapshots of the store that expire on one host, while another gives them a later time.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { scaled } from '../support/time-scale.ts';
import { eventually, fork, prepareHosts as prepare } from './store-hosts.ts';

t.setTimeout(scaled(300_000));

/** A snapshot that is on A and, as a copy, on C; the time of the copy has come when C starts again. */
async function prepareExpiring(t: Test) {
  const { s3, start } = await prepare(t);
  const [a, c] = [await start(), await start()];
  const { id } = await a.take();
  t.equal((await a.ask('PATCH', `/snapshots/${id}`, { expires_s: 3600 })).status, 200);
  await a.reached(id, 'stored');
  t.equal((await c.ask('POST', `/snapshots/${id}/fork`, fork)).status, 201);
  const expireOnC = async () => {
    const table = c.store.table<{ expiresAtMs: number }>('snapshots');
    await table.put(id, { ...table.get(id)!, expiresAtMs: Date.now() - 1 });
    await c.crash();
    return await start({ home: c.home });
  };
  const objects = (path: string) => [...s3.objects.keys()].filter((key) => key.includes(`/${path}/${id}`));
  return { s3, start, a, c, id, expireOnC, objects };
}

const expiryOf = async (
  host: { ask: (method: string, path: string) => Promise<{ body: object }> },
  id: string,
) => ((await host.ask('GET', `/snapshots/${id}`)).body as { expires_at?: string }).expires_at;

t.test('a copy takes over the later time that another host gave it', async (t) => {
  const { a, id, expireOnC, objects } = await prepareExpiring(t);
  t.equal((await a.ask('PATCH', `/snapshots/${id}`, { expires_s: 0 })).status, 200);
  await a.reached(id, 'stored');
  const c = await expireOnC();
  await eventually(async () => (await expiryOf(c, id)) === undefined);
  t.equal(await c.storageOf(id), 'stored');
  t.same(objects('deleted'), []);
  t.equal(objects('snapshots').length, 1);
  t.equal(await a.storageOf(id), 'stored');
});

t.test('a copy that expires while the later time waits for its upload is all that goes', async (t) => {
  const { s3, a, id, expireOnC, objects } = await prepareExpiring(t);
  s3.fault = (method) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : undefined);
  t.equal((await a.ask('PATCH', `/snapshots/${id}`, { expires_s: 0 })).status, 200);
  s3.fault = (_method, key) =>
    key.includes('snapshots') ? { status: 403, code: 'AccessDenied' } : undefined;
  const c = await expireOnC();
  await eventually(async () => (await readdir(join(c.home.dataDir, 'snapshots'))).length === 0);
  s3.fault = () => undefined;
  t.same(objects('deleted'), []);
  await a.reached(id, 'stored');
  t.equal(objects('snapshots').length, 1);
});

t.test('an expired manifest goes after a day, and comes back from a host with a later time', async (t) => {
  const { start, a, id, objects } = await prepareExpiring(t);
  const signal = new AbortController().signal;
  const b = await start();
  const manifest = (await b.bucketStore.read(id))!;
  const put = (agoMs: number) => {
    const description = { ...(manifest.description as object), expiresAtMs: Date.now() - agoMs };
    return b.bucketStore.putManifest({ ...manifest, description }, signal);
  };
  await put(3_600_000);
  await eventually(async () => (await b.list()).snapshots.length === 0);
  t.equal((await b.ask('POST', `/snapshots/${id}/fork`, fork)).status, 404);
  t.equal(objects('snapshots').length, 1, 'for a day');
  await put(25 * 3_600_000);
  await eventually(async () => {
    await b.list();
    return b.happened.some(({ kind }) => kind === 'snapshot-deleted');
  });
  t.match(b.happened.at(-1), { snapshot: id, reason: 'expires_s' });
  await eventually(async () => {
    await a.list();
    return objects('snapshots').length === 1;
  });
  await a.reached(id, 'stored');
  t.same(objects('deleted'), []);
});

t.test('a time that was never uploaded reaches the bucket when the snapshot is gone here', async (t) => {
  const { s3, start } = await prepare(t);
  const a = await start();
  const { id } = await a.take();
  await a.reached(id, 'stored');
  s3.fault = (method) => (method === 'PUT' ? { status: 403, code: 'AccessDenied' } : undefined);
  t.equal((await a.ask('PATCH', `/snapshots/${id}`, { expires_s: 1 })).status, 200);
  await eventually(async () => (await readdir(join(a.home.dataDir, 'snapshots'))).length === 0);
  await eventually(async () => (await a.list()).snapshots.length === 0);
  s3.fault = () => undefined;
  await eventually(() => a.store.table('stored_snapshots').get(id) === undefined);
  t.same((await a.list()).snapshots, []);
  const b = await start();
  t.same((await b.list()).snapshots, []);
  t.notOk(await b.bucketStore.isDeleted(id));
});
