// Snapshots that hosts share: two and three daemons with own data directories over one bucket.
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { MemoryEngine, MemoryHost } from '../support/memory-host/engine.ts';
import { oneEngine } from '../support/one-engine.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { fork, prepareHosts as prepare, type Snapshot } from './store-hosts.ts';

const LIMIT_MS = 60_000;
t.setTimeout(scaled(300_000));

t.test('taken on one host, forked on two others, when the first is gone', async (t) => {
  const { s3, start } = await prepare(t);
  const a = await start();
  const { id } = await a.take();
  await a.reached(id, 'stored');
  const stored = () => a.happened.filter(({ kind }) => kind === 'snapshot-stored');
  await until(() => stored().length > 0, 'its event');
  t.equal(stored().length, 1);
  await a.crash();
  await rm(a.home.dataDir, { recursive: true });
  await mkdir(a.home.dataDir);
  for (const host of [await start(), await start()]) {
    t.match(await host.list(), { snapshots: [{ id, storage: 'remote' }] });
    t.match((await host.ask('GET', `/snapshots/${id}`)).body, { id, storage: 'remote', disk_bytes: 0 });
    const before = s3.count('GET', /chunks/);
    const { status, body } = await host.ask<{ sandboxes: Snapshot[] }>('POST', `/snapshots/${id}/fork`, fork);
    t.equal(status, 201);
    t.equal(host.notesOf(body.sandboxes[0]!.id).where, 'there');
    const fetched = s3.count('GET', /chunks/);
    t.ok(fetched > before);
    t.equal((await host.ask('POST', `/snapshots/${id}/fork`, { count: 3 })).status, 201);
    t.equal(s3.count('GET', /chunks/), fetched, 'a second fork fetches nothing');
    t.equal(await host.storageOf(id), 'stored');
    t.match(
      host.happened.filter(({ kind }) => kind === 'snapshot-fetched'),
      [{ snapshot: id }],
    );
  }
});

t.test('many forks at once fetch it once', async (t) => {
  const { s3, start } = await prepare(t);
  const a = await start();
  const { id } = await a.take();
  await a.reached(id, 'stored');
  const b = await start();
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => b.ask('POST', `/snapshots/${id}/fork`, fork)),
  );
  t.ok(answers.every(({ status }) => status === 201));
  t.equal(b.happened.filter(({ kind }) => kind === 'snapshot-fetched').length, 1);
  const chunks = [...s3.objects.keys()].filter((key) => key.includes('/chunks/'));
  t.equal(s3.count('GET', /chunks/), chunks.length);
});

t.test('a snapshot that does not fit this host is refused before anything is fetched', async (t) => {
  const { s3, start } = await prepare(t);
  const a = await start();
  const { id } = await a.take();
  await a.reached(id, 'stored');
  const engine = new MemoryEngine(new MemoryHost());
  engine.compatibility = () => ({ engine: 'memory', version: 'another' });
  const b = await start({ engines: oneEngine(engine) });
  const { status, body } = await b.ask('POST', `/snapshots/${id}/fork`, fork);
  t.equal(status, 409);
  t.match(body.error, /does not fit the engine of this host: .*is another/);
  const small = await start({
    limits: { vcpus: 1, memoryMib: 64, diskBytes: 2 ** 30, sandboxes: 10, fork: 8 },
  });
  t.match(await small.ask('POST', `/snapshots/${id}/fork`, fork), {
    status: 400,
    body: { error: /memory_mib is 128, and at most 64 here/ },
  });
  t.equal(s3.count('GET', /chunks/), 0);
  t.match(await b.list(), { snapshots: [{ id, storage: 'remote' }] });
});

t.test('deleted on one host, it is gone in the bucket and on all others', async (t) => {
  const { s3, start } = await prepare(t);
  const [a, b, c] = [await start(), await start(), await start()];
  const { id } = await a.take();
  await a.reached(id, 'stored');
  t.equal((await b.ask('POST', `/snapshots/${id}/fork`, fork)).status, 201);
  t.equal((await c.ask('DELETE', `/snapshots/${id}`)).status, 204);
  t.equal([...s3.objects.keys()].filter((key) => key.includes(`/snapshots/${id}`)).length, 0);
  t.same((await c.list()).snapshots, []);
  t.match(c.happened, [{ kind: 'snapshot-deleted', snapshot: id }], 'one event');
  for (const host of [a, b]) {
    const endMs = performance.now() + scaled(LIMIT_MS);
    while ((await host.list()).snapshots.length > 0 && performance.now() < endMs) await sleep(200);
    t.same((await host.list()).snapshots, []);
    t.same(await readdir(join(host.home.dataDir, 'snapshots')), []);
    t.match(host.happened.at(-1), { kind: 'snapshot-deleted', snapshot: id, reason: 'store' });
    t.equal((await host.ask('POST', `/snapshots/${id}/fork`, fork)).status, 404);
  }
});

t.test('a bucket that lost a snapshot gets it again', async (t) => {
  const { s3, start } = await prepare(t);
  const a = await start();
  const { id } = await a.take();
  await a.reached(id, 'stored');
  s3.objects.clear();
  const endMs = performance.now() + scaled(LIMIT_MS);
  const isThere = () => [...s3.objects.keys()].some((key) => key.includes('/snapshots/'));
  while (!isThere() && performance.now() < endMs) {
    await a.list();
    await sleep(200);
  }
  t.ok(isThere());
  await a.reached(id, 'stored');
  t.match(await a.collector.verify(true, new AbortController().signal), { snapshots: 1, problems: [] });
});

t.test(
  'without the bucket a daemon goes on, and sends what waits when it is back, also after a restart',
  async (t) => {
    const { s3, start } = await prepare(t);
    s3.fault = () => ({ status: 403, code: 'AccessDenied' });
    const a = await start();
    const { id } = await a.take();
    const forked = await a.ask('POST', `/snapshots/${id}/fork`, fork);
    t.equal(forked.status, 201);
    await until(() => a.lines.some(({ msg }) => /cannot upload a snapshot/.test(msg ?? '')));
    t.match((await a.ask('GET', `/snapshots/${id}`)).body, {
      storage: 'local',
      storage_error: /refuses the credentials/,
    });
    t.match(await a.list(), { store_error: /refuses the credentials/, snapshots: [{ id }] });
    t.match(await a.ask('GET', '/snapshots/snap_0000000000000'), {
      status: 502,
      body: { error: /not on this host, and .*refuses/ },
    });
    const gone = await a.take();
    t.equal((await a.ask('DELETE', `/snapshots/${gone.id}`)).status, 204, 'a delete does not need it');
    await a.crash();
    s3.fault = () => undefined;
    const again = await start({ home: a.home });
    await again.reached(id, 'stored');
    await until(() => again.store.table('stored_snapshots').get(gone.id) === undefined);
    t.ok(await again.bucketStore.isDeleted(gone.id));
    t.same(
      (await again.list()).snapshots.map((each) => each.id),
      [id],
    );
  },
);

t.test('a changed name is seen by other hosts, and is unique for them, too', async (t) => {
  const { start } = await prepare(t);
  const [a, b] = [await start(), await start()];
  const { id } = await a.take();
  await a.reached(id, 'stored');
  t.equal((await a.ask('PATCH', `/snapshots/${id}`, { name: 'first' })).status, 200);
  await a.reached(id, 'stored');
  const seen = async () => (await b.list()).snapshots[0]?.name;
  const endMs = performance.now() + scaled(LIMIT_MS);
  while ((await seen()) !== 'first' && performance.now() < endMs) await sleep(200);
  t.equal(await seen(), 'first');
  const other = await b.take();
  t.match(await b.ask('PATCH', `/snapshots/${other.id}`, { name: 'first' }), { status: 409 });
  t.equal((await b.ask('PATCH', `/snapshots/${id}`, { name: 'second' })).status, 200, 'it is fetched');
  await b.reached(id, 'stored');
});

t.test('turned bits, missing chunks and cut manifests: refused, named, and nothing stays', async (t) => {
  const { s3, start } = await prepare(t);
  const a = await start();
  const { id } = await a.take();
  await a.reached(id, 'stored');
  const b = await start();
  t.match(await b.list(), { snapshots: [{ id }] });
  const chunk = [...s3.objects.keys()].find((key) => key.includes('/chunks/'))!;
  const { body } = s3.objects.get(chunk)!;
  const refused = async (what: RegExp) => {
    const { status, body } = await b.ask('POST', `/snapshots/${id}/fork`, fork);
    t.equal(status, 500);
    t.match(body.error, what);
    t.same(await readdir(join(b.home.dataDir, 'snapshots')).catch(() => []), []);
    t.same(b.store.table('snapshots').all(), []);
  };
  for (let turn = 0; turn < 30; turn++) {
    const changed = Buffer.from(body);
    changed[Math.floor((turn * body.length) / 30)]! ^= 1 << (turn % 8);
    s3.objects.set(chunk, { body: changed, writtenMs: Date.now() });
    await refused(new RegExp(`snapshot store is damaged: .*${id}`));
  }
  s3.objects.delete(chunk);
  await refused(/is missing/);
  s3.objects.set(chunk, { body, writtenMs: Date.now() });
  t.equal((await b.ask('POST', `/snapshots/${id}/fork`, fork)).status, 201);
  const manifest = [...s3.objects.keys()].find((key) => key.includes(`/snapshots/${id}`))!;
  const whole = s3.objects.get(manifest)!.body;
  s3.objects.set(manifest, { body: whole.subarray(0, whole.length / 2), writtenMs: Date.now() });
  const c = await start();
  await c.list();
  t.match(await c.ask('POST', `/snapshots/${id}/fork`, fork), { status: 404 });
  t.ok(
    c.lines.some(({ msg, snapshot }) => msg === 'a snapshot of the store is not listed' && snapshot === id),
  );
});

t.test('tenants see their own, as on one host', async (t) => {
  const { start } = await prepare(t);
  const a = await start();
  const { id } = await a.take({ key: 'k', tenant: 'acme' });
  const other = await a.take({ key: 'k2', tenant: 'other' });
  await a.reached(id, 'stored');
  await a.reached(other.id, 'stored');
  const b = await start();
  await b.list();
  const as = (tenant: string) =>
    b.manager.as({ kind: 'key', id: tenant, key: 'any', tenant, policy: {} } as never);
  t.same(
    as('acme')
      .listSnapshots()
      .map((each) => each.id),
    [id],
  );
  t.throws(() => as('acme').getSnapshot(other.id), { code: 'not_found' });
  await t.rejects(as('acme').fork(other.id, 1), { code: 'not_found' });
  await t.rejects(as('acme').deleteSnapshot(other.id), { code: 'not_found' });
  await t.rejects(as('acme').fetchSnapshot(other.id), { code: 'not_found' });
  t.equal(
    b.manager.snapshots.owners.filter((owner) => owner?.tenant === 'acme').length,
    1,
    'quotas count it',
  );
});

t.test('ids of clients cost little, and lead nowhere else', async (t) => {
  const { s3, start } = await prepare(t);
  const a = await start();
  const { id } = await a.take();
  await a.reached(id, 'stored');
  const b = await start();
  await b.list();
  for (const bad of ['snap_..%2F..%2Fx', 'snap_', `${id}x`, 'SNAP_0000000000000', '..%2fdeleted%2fx']) {
    const { status } = await b.ask('GET', `/snapshots/${bad}`);
    t.ok(status === 400 || status === 404, `${bad}: ${status}`);
  }
  s3.requests.length = 0;
  const unknown = Array.from({ length: 100 }, (_, at) => `snap_${String(at).padStart(13, '0')}`);
  const answers = await Promise.all(unknown.map((each) => b.ask('POST', `/snapshots/${each}/fork`, fork)));
  t.ok(answers.every(({ status }) => status === 404));
  t.ok(s3.requests.length <= 101, 'one small request each');
});
