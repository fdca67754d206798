// Requests with an Idempotency-Key: what their retries get, and what is made.
import { IDEMPOTENCY_KEPT_S, ROUTES, type Route, takesIdempotencyKey } from '@sandboxd/api';
import t from 'tap';
import type { Images } from '../../host-agent/src/images/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { FakeImages } from './fake-images.ts';
import { startKeyed } from './keyed-daemon.ts';
import { makeApp, RawClient, serve } from './support.ts';

const key = (text: string) => ({ 'idempotency-key': text });

t.test('every route that makes something takes a key, and no other', (t) => {
  const names = Object.entries<Route>(ROUTES).flatMap(([name, route]) =>
    takesIdempotencyKey(route) ? [name] : [],
  );
  t.same(names.sort(), [
    'createSandbox',
    'forkSandbox',
    'forkSnapshot',
    'importSnapshot',
    'pullImage',
    'takeSnapshot',
  ]);
  t.end();
});

t.test('a retry of a create, snapshot, fork or import gets the same answer and makes nothing', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const twice = async (path: string, body: unknown, name: string) => {
    const first = await root('POST', path, body, key(name));
    const second = await root('POST', path, body, key(name));
    t.match(first, { status: 201, replayed: null });
    t.same(second, { ...first, replayed: 'true' }, path);
    return first;
  };
  const { id } = await twice('/sandboxes', { memory_mib: 256, surplus: 1 }, 'create');
  const snapshot = await twice(`/sandboxes/${id}/snapshot`, undefined, 'snapshot');
  const forks = await twice(`/snapshots/${snapshot.id}/fork?count=2`, {}, 'fork');
  t.equal(forks.sandboxes.length, 2);
  await twice(`/sandboxes/${id}/fork`, {}, 'fork-of-a-sandbox');
  t.equal(daemon.manager.list().length, 4);
  t.equal(daemon.manager.listSnapshots().length, 1);
  t.equal(daemon.happened.filter(({ kind }) => kind === 'created').length, 1);
});

t.test('without a key, each request makes something', async (t) => {
  const { root, daemon } = await startKeyed(t);
  await root('POST', '/sandboxes');
  await root('POST', '/sandboxes');
  t.equal(daemon.manager.list().length, 2);
});

t.test('a hundred at once with one key make one sandbox', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => root('POST', '/sandboxes', {}, key('same'))),
  );
  t.same(new Set(answers.map(({ text }) => text)).size, 1);
  t.equal(answers.filter(({ replayed }) => replayed === null).length, 1);
  t.equal(daemon.manager.list().length, 1);
});

t.test('another request with the key is 422, whatever differs', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes', { vcpus: 2, memory_mib: 256 }, key('k'));
  for (const same of ['{"memory_mib":256,"vcpus":2}', ' {"vcpus" : 2.0,\n"memory_mib":256} '])
    t.match(await root('POST', '/sandboxes', same, key('k')), { status: 201, id, replayed: 'true' });
  t.equal((await root('POST', '/sandboxes', '{"vcpus":2,"memory_mib":256}', key('"k"'))).id, id);
  for (const [path, body] of [
    ['/sandboxes', { vcpus: 2 }],
    ['/sandboxes', { vcpus: 2, memory_mib: 257 }],
    ['/sandboxes', {}],
    ['/sandboxes', undefined],
    ['/sandboxes?x=1', { vcpus: 2, memory_mib: 256 }],
    [`/sandboxes/${id}/snapshot`, undefined],
    ['/snapshots/snap_0123456789abc/fork', {}],
  ] as const)
    t.match(await root('POST', path, body, key('k')), { status: 422, code: 'idempotency_mismatch' }, path);
  t.equal(daemon.manager.list().length, 1);
  t.equal(daemon.manager.listSnapshots().length, 0);
  t.equal((await root('POST', '/sandboxes', undefined, key('empty'))).status, 201);
  for (const same of ['', 'null', '{}'])
    t.match(await root('POST', '/sandboxes', same, key('empty')), { status: 201, replayed: 'true' });
});

t.test('a key belongs to the API key and the tenant that sent it', async (t) => {
  const { as, daemon } = await startKeyed(t);
  const clients = await Promise.all([
    as({ name: 'a', tenant: 'x' }),
    as({ name: 'b', tenant: 'x' }),
    as({ name: 'c', tenant: 'y' }),
    as({ name: 'x' }),
    as({ name: 'a,"x' }),
    as({ name: 'd' }),
  ]);
  const ids = await Promise.all(
    clients.map(async (ask) => (await ask('POST', '/sandboxes', {}, key('k'))).id),
  );
  t.equal(new Set(ids).size, clients.length);
  // Not even that the key was used is seen.
  t.match(await clients[2]?.('POST', '/sandboxes', { vcpus: 2 }, key('only-of-y')), { status: 201 });
  t.match(await clients[0]?.('POST', '/sandboxes', {}, key('only-of-y')), { status: 201, replayed: null });
  t.equal(daemon.manager.list().length, clients.length + 2);
});

t.test('a key needs the operation of its route, also for an answer that is recorded', async (t) => {
  const { as } = await startKeyed(t);
  const reader = await as({ name: 'r', policy: { operations: ['read'] } });
  t.match(await reader('POST', '/sandboxes', {}, key('k')), { status: 403 });
});

t.test('keys that are not one are refused before anything is made', async (t) => {
  const { root, daemon } = await startKeyed(t);
  for (const odd of [
    '',
    ' ',
    'a b',
    'a, b',
    '""',
    '"',
    'a"b',
    '\\',
    'ä',
    '\x7f',
    'x'.repeat(256),
    'x'.repeat(2 ** 20),
  ])
    t.match(
      await root('POST', '/sandboxes', {}, key(odd)),
      { status: 400, code: 'invalid_argument', error: /^Idempotency-Key must be one key of 1 to 255 / },
      odd.slice(0, 20),
    );
  t.equal(daemon.manager.list().length, 0);
  for (const good of [
    'x'.repeat(255),
    '8e03978e-40d5-43dd-bc93-6894a57f9324',
    '!#$%&()*+,-./:;<=>?@[]^_`{|}~',
  ])
    t.match(await root('POST', '/sandboxes', {}, key(good)), { status: 201 });
});

t.test('what failed is tried again, also with another body', async (t) => {
  const { root } = await startKeyed(t);
  t.match(await root('POST', '/sandboxes', { vcpus: 99 }, key('k')), { status: 400 });
  t.match(await root('POST', '/sandboxes', { profile: 'none' }, key('k')), { status: 400 });
  t.match(await root('POST', '/sandboxes', {}, key('k')), { status: 201, replayed: null });
  t.match(await root('POST', '/sandboxes', {}, key('k')), { status: 201, replayed: 'true' });
});

t.test('an existing sandbox that is returned by its name is recorded as well', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes', { name: 'n' });
  const ask = () => root('POST', '/sandboxes', { name: 'n', if_exists: 'return' }, key('k'));
  const [first, second] = await Promise.all([ask(), ask()]);
  t.match(first, { status: 200, id, replayed: null });
  t.same(second, { ...first, replayed: 'true' });
  t.same(await ask(), { ...first, replayed: 'true' });
  t.equal(daemon.manager.list().length, 1);
});

t.test('those that wait get the error of the one that failed; a later one is carried out', async (t) => {
  const { app, sandboxes } = makeApp();
  const failing = Promise.withResolvers<void>();
  sandboxes.onCreate = () => failing.promise;
  const ask = () => app.request('/sandboxes', { method: 'POST', headers: key('k') });
  const asked = [ask(), ask(), ask()];
  await until(() => sandboxes.created.length > 0, 'the create');
  failing.reject(new AppError('exhausted', 'no memory'));
  for (const answer of await Promise.all(asked)) t.equal(answer.status, 503);
  t.equal(sandboxes.created.length, 1);
  sandboxes.onCreate = async () => {};
  t.equal((await ask()).status, 201);
});

t.test(
  'a recorded answer outlives what it made, the daemon and the memory of the daemon, for a day',
  async (t) => {
    const now = Date.now;
    let passedMs = 0;
    t.teardown(() => {
      Date.now = now;
    });
    Date.now = () => now() + passedMs;
    const home = await makeHome(t);
    const first = await startKeyed(t, { home });
    const made = await first.root('POST', '/sandboxes', { vcpus: 2 }, key('k'));
    await first.root('DELETE', `/sandboxes/${made.id}`);
    t.same(await first.root('POST', '/sandboxes', { vcpus: 2 }, key('k')), { ...made, replayed: 'true' });
    await first.answers.close();
    await first.daemon.crash();
    const second = await startKeyed(t, { home });
    // The keys of these daemons have the same names.
    t.same(await second.root('POST', '/sandboxes', { vcpus: 2 }, key('k')), { ...made, replayed: 'true' });
    t.match(await second.root('POST', '/sandboxes', {}, key('k')), { status: 422 });
    passedMs += IDEMPOTENCY_KEPT_S * 1000;
    const later = await second.root('POST', '/sandboxes', {}, key('k'));
    t.match(later, { status: 201, replayed: null });
    t.not(later.id, made.id);
    t.equal(second.answers.total.count, 1);
    passedMs += IDEMPOTENCY_KEPT_S * 1000;
    await second.answers.sweep();
    t.same(second.answers.total, { count: 0, bytes: 0 });
    t.equal(second.daemon.store.table('idempotency_answers').all().length, 0);
    t.equal(second.daemon.store.table('idempotency_order').all().length, 0);
  },
);

t.test('a client that leaves undoes a create without a key, and not one with', async (t) => {
  const { port, sandboxes } = await serve(t);
  const signals: (AbortSignal | undefined)[] = [];
  const going = Promise.withResolvers<void>();
  sandboxes.onCreate = async (_, signal) => {
    signals.push(signal);
    await going.promise;
  };
  const send = (header: string) => {
    const client = new RawClient(t, port);
    client.write(`POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n${header}\r\n`);
    return client;
  };
  const keyless = send('');
  await until(() => signals.length === 1, 'the first create');
  const keyed = send('Idempotency-Key: k\r\n');
  await until(() => signals.length === 2, 'the second create');
  keyless.socket.destroy();
  keyed.socket.destroy();
  await until(() => signals[0]?.aborted === true, 'the end of the first');
  const retry = send('Idempotency-Key: k\r\n');
  going.resolve();
  await until(() => retry.text.includes('\r\n\r\n'), 'the answer of the retry');
  t.match(retry.text, /^HTTP\/1.1 201 .*idempotent-replayed: true/is);
  t.equal(signals[1]?.aborted, false);
  t.equal(signals.length, 2);
});

t.test('an import is compared by its bytes', async (t) => {
  const { root, daemon } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes');
  const { id: snapshot } = await root('POST', `/sandboxes/${id}/snapshot`);
  const archive = daemon.manager.exportSnapshot(snapshot);
  const parts: Uint8Array[] = [];
  for (let part = await archive.next(); part !== undefined; part = await archive.next())
    parts.push(part.bytes);
  const bytes = Buffer.concat(parts);
  const first = await root('POST', '/snapshots/import', bytes, key('k'));
  t.match(first, { status: 201 });
  t.same(await root('POST', '/snapshots/import', bytes, key('k')), { ...first, replayed: 'true' });
  const other = Buffer.concat([bytes, Buffer.from('x')]);
  t.match(await root('POST', '/snapshots/import', other, key('k')), { status: 422 });
  t.match(await root('POST', '/snapshots/import?disk_only=1', bytes, key('k')), { status: 422 });
  t.equal(daemon.manager.listSnapshots().length, 2);
});

t.test('a pull is recorded with its lines or without', async (t) => {
  const { app } = makeApp({ images: new FakeImages().store as Images });
  const pull = async (headers: Record<string, string>, body = '{"ref":"nginx"}') => {
    const answer = await app.request('/images', {
      method: 'POST',
      headers: { ...key('k'), ...headers },
      body,
    });
    return {
      status: answer.status,
      text: await answer.text(),
      replayed: answer.headers.get('idempotent-replayed'),
    };
  };
  const lines = { accept: 'application/x-ndjson' };
  const first = await pull(lines);
  t.match(first, { status: 200, replayed: null });
  const image = first.text.trim().split('\n').at(-1) ?? '';
  t.same(await pull(lines), { status: 200, text: `${image}\n`, replayed: 'true' });
  const plain = await pull({});
  t.match(plain, { status: 201, replayed: 'true' });
  t.equal(`{"image":${plain.text}}`, image);
  t.match(await pull({}, '{"ref":"alpine"}'), { status: 422 });
});
