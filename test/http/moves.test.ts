// Sandboxes that change their host with their id: daemons with own data directories over one bucket.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { startKeyed } from './keyed-daemon.ts';
import { create, drain, parkedIn, progressOf, resume } from './moves-hosts.ts';
import { eventually, prepareHosts } from './store-hosts.ts';

t.setTimeout(scaled(300_000));

t.test('a drained host offers its sandboxes, and another goes on with them under their ids', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a, { env: { GREETING: 'hello' } });
  await drain(a);
  t.match(progressOf(a), { state: 'drained', sandboxes: [{ id, state: 'offered' }] });
  const refused = await a.ask('POST', '/sandboxes', {});
  t.match(refused, { status: 503, body: { error: /being drained/ } });
  t.match(await resume(a, id), { status: 503, body: { error: /moves to another host/ } });
  t.equal((await a.ask('PATCH', `/sandboxes/${id}`, { labels: { team: 'b' } })).status, 503);

  t.match(await resume(b, id), {
    status: 200,
    body: { id, state: 'running', name: 'worker', labels: { team: 'a' } },
  });
  t.same(b.manager.get(id).info.envNames, ['GREETING']);
  t.equal(b.notesOf(id).where, 'there');
  await eventually(() => a.manager.find(id) === undefined);
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/pause'],
  ] as const)
    t.match(await a.ask(method, `/sandboxes/${id}${path}`), {
      status: 503,
      body: { error: /moves to another host/ },
    });
  t.throws(() => a.manager.as({ kind: 'key', key: 'other', tenant: 'acme' } as never).get(id), {
    code: 'not_found',
  });
  t.match(a.happened.at(-1), { kind: 'moved', sandbox: id });
  t.notMatch(a.happened, [{ kind: 'deleted' }]);
  t.match(progressOf(a), { state: 'drained', moved: 1, sandboxes: [] });
  t.same(parkedIn(hosts), [], 'its files leave the bucket');

  t.equal((await b.ask('POST', `/sandboxes/${id}/pause`, {})).status, 200);
  await b.crash();
  const again = await hosts.start({ home: b.home });
  t.match(await resume(again, id), { status: 200, body: { id, state: 'running' } });
  t.equal(again.notesOf(id).where, 'there');
  await drain(again);
  await a.manager.moves.drain.cancel();
  t.match(await resume(a, id), { status: 200, body: { id, state: 'running' } }, 'and back');
  t.equal(a.notesOf(id).where, 'there');
  t.equal((await a.ask('DELETE', `/sandboxes/${id}`)).status, 204);
  t.equal((await a.ask('GET', `/sandboxes/${id}`)).status, 404, 'it did not leave again');
});

t.test('many hosts that ask for one sandbox: one has it', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const others = [await hosts.start(), await hosts.start(), await hosts.start()];
  const id = await create(a);
  await drain(a);
  const answers = await Promise.all([...others, ...others].map((host) => resume(host, id)));
  const statuses = answers.map(({ status }) => status);
  t.equal(others.filter(({ manager }) => manager.find(id) !== undefined).length, 1, `${statuses}`);
  t.ok(
    statuses.every((status) => [200, 404, 409].includes(status)),
    `${statuses}`,
  );
  await eventually(() => a.manager.find(id) === undefined);
});

t.test('a cancelled drain: what no other host has is as before', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const running = await create(a);
  const paused = await create(a, { name: 'paused' });
  await a.ask('POST', `/sandboxes/${paused}/pause`, {});
  const moved = await create(a, { name: 'moved' });
  await drain(a);
  t.equal((await resume(b, moved)).status, 200);
  await a.manager.moves.drain.cancel();
  await eventually(() => a.manager.find(moved) === undefined && a.manager.get(running).state === 'running');
  t.equal(a.notesOf(running).where, 'there');
  t.equal(a.manager.get(paused).state, 'paused');
  for (const id of [running, paused]) t.equal((await resume(b, id)).status, 404);
  t.match(progressOf(a), { state: 'off', sandboxes: [] });
  t.equal((await a.ask('POST', '/sandboxes', {})).status, 201);
});

t.test('a sandbox is sent while it runs, and only its changes once it is paused', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  a.host.savedMemory = Buffer.concat([1, 2, 3, 4].map((byte) => Buffer.alloc(2 ** 20, byte)));
  const id = await create(a);
  const isChunk = /chunks\//;
  const gate = Promise.withResolvers<void>();
  hosts.s3.fault = async (method, key) => {
    if (method === 'PUT' && isChunk.test(key)) await gate.promise;
    return undefined;
  };
  await a.manager.moves.drain.begin();
  await eventually(() => progressOf(a).sandboxes[0]?.state === 'copying');
  await eventually(() => hosts.s3.count('PUT', isChunk) >= 4);
  t.match(await a.ask('GET', `/sandboxes/${id}`), { status: 200, body: { state: 'running' } });
  t.equal((await a.ask('PATCH', `/sandboxes/${id}`, { labels: { team: 'b' } })).status, 200);
  a.host.savedMemory = Buffer.concat([1, 2, 3, 5].map((byte) => Buffer.alloc(2 ** 20, byte)));
  gate.resolve();
  await eventually(() => progressOf(a).state === 'drained');
  const sent = a.lines.flatMap(({ sentBytes }) => (typeof sentBytes === 'number' ? [sentBytes] : []));
  t.equal(sent.length, 2, 'two uploads');
  t.ok((sent[1] ?? 0) < (sent[0] ?? 0), `${sent}`);
  t.match(await resume(b, id), { status: 200, body: { labels: { team: 'b' } } });
  t.equal(b.notesOf(id).where, 'there');
});

t.test('a sandbox that cannot be sent while it runs is sent when it is paused', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  let refused = 0;
  hosts.s3.fault = (method, key) =>
    method === 'PUT' && /chunks\//.test(key) && refused++ === 0
      ? { status: 403, code: 'AccessDenied' }
      : undefined;
  await drain(a);
  t.equal(refused > 0, true);
  t.match(
    a.lines.filter(({ msg }) => msg?.startsWith('a sandbox is sent only')),
    { length: 1 },
  );
  t.equal((await resume(b, id)).status, 200);
  t.equal(b.notesOf(id).where, 'there');
});

t.test('a drain that is cancelled, and a delete, while a sandbox is sent for the first time', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const [id, other] = [await create(a), await create(a, { name: 'other' })];
  const gate = Promise.withResolvers<void>();
  hosts.s3.fault = async (method, key) => {
    if (method === 'PUT' && /chunks\//.test(key)) await gate.promise;
    return undefined;
  };
  await a.manager.moves.drain.begin();
  await eventually(() => progressOf(a).sandboxes.every(({ state }) => state === 'copying'));
  t.equal((await a.ask('DELETE', `/sandboxes/${other}`)).status, 204);
  await a.manager.moves.drain.cancel();
  gate.resolve();
  await eventually(() => a.manager.moves.departures?.ids().length === 0);
  t.equal(a.manager.get(id).state, 'running');
  t.notMatch(a.happened, [{ kind: 'paused' }]);
  t.same(parkedIn(hosts), []);
  const isHidden = (name: string) => name.startsWith('.');
  await eventually(() => !readdirSync(join(a.home.dataDir, 'snapshots')).some(isHidden));
});

t.test('a drain that is cancelled while a sandbox is paused', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const id = await create(a);
  const sandbox = a.manager.find(id);
  const [copied, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  hosts.s3.fault = async (method, key) => {
    if (method === 'PUT' && /chunks\//.test(key)) await copied.promise;
    return undefined;
  };
  await a.manager.moves.drain.begin();
  await eventually(() => hosts.s3.count('PUT', /chunks\//) > 0);
  // The pause waits for another client's snapshot.
  const held = sandbox?.snapshotQueue.add(() => gate.promise);
  copied.resolve();
  await eventually(() => sandbox?.isDeparting === true);
  await a.manager.moves.drain.cancel();
  gate.resolve();
  await held;
  await eventually(() => sandbox?.isDeparting === false && sandbox.state === 'running');
  t.match(progressOf(a), { state: 'off', sandboxes: [] });
  t.same(parkedIn(hosts), []);
  t.match(await resume(a, id), { status: 200 });
});

t.test('a drain that is cancelled while the bucket refuses', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const id = await create(a);
  await drain(a);
  hosts.s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  await a.manager.moves.drain.cancel();
  await sleep(500);
  t.match(await resume(a, id), { status: 503 });
  hosts.s3.fault = () => undefined;
  await eventually(() => a.manager.get(id).state === 'running');
  t.equal(a.notesOf(id).where, 'there');
  t.match(progressOf(a), { state: 'off', sandboxes: [] });
});

t.test('a client that may not see a sandbox keeps it from no other', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  await drain(a);
  const stranger = () => b.manager.moves.takeOver(id, () => false).catch(({ code }) => code);
  const many = Array.from({ length: 8 }, stranger);
  const owner = () => b.manager.moves.takeOver(id, () => true).catch(({ code }) => code);
  t.equal(await owner(), 'exhausted', 'it is not said to be missing');
  t.same(new Set(await Promise.all(many)), new Set(['not_found', 'exhausted']));
  const one = stranger();
  t.equal((await owner()).sandbox.id, id);
  t.equal(await one, 'not_found');
});

t.test('a sandbox that is deleted while it is offered arrives nowhere', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  await drain(a);
  t.equal((await a.ask('DELETE', `/sandboxes/${id}`)).status, 204);
  t.equal((await resume(b, id)).status, 404);
  const second = await create(b);
  await drain(b);
  hosts.s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  t.equal((await b.ask('DELETE', `/sandboxes/${second}`)).status, 502, 'who has it is not known');
  hosts.s3.fault = () => undefined;
  t.equal((await b.ask('DELETE', `/sandboxes/${second}`)).status, 204);
});

t.test('one that was paused without its memory boots where it arrives', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  await a.ask('POST', `/sandboxes/${id}/pause`, { memory: false });
  await drain(a);
  t.match(await resume(b, id), { status: 200, body: { id, state: 'running', name: 'worker' } });
});

t.test('a host that it does not fit takes nothing, and it stays offered', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start();
  const limits = { vcpus: 1, memoryMib: 64, diskBytes: 2 ** 30, sandboxes: 10, fork: 8 };
  const [small, b] = [await hosts.start({ limits }), await hosts.start()];
  const id = await create(a);
  await create(b);
  await drain(a);
  t.match(await resume(small, id), {
    status: 400,
    body: { error: /memory_mib is 128, and at most 64 here/ },
  });
  t.match(await resume(b, id), { status: 409, body: { error: /the name worker is that of sandbox/ } });
  t.equal((await a.ask('GET', `/sandboxes/${id}`)).status, 200);
  const [other] = b.manager.list();
  await b.ask('DELETE', `/sandboxes/${other?.id}`);
  t.equal((await resume(b, id)).status, 200);
});

t.test('a server without conditional writes moves nothing', async (t) => {
  const hosts = await prepareHosts(t);
  hosts.s3.isConditional = false;
  const a = await hosts.start();
  const id = await create(a);
  await a.manager.moves.drain.begin();
  await eventually(() => /no conditional writes/.test(progressOf(a).sandboxes[0]?.reason ?? ''));
  t.equal(a.manager.get(id).state, 'running');
  t.same(parkedIn(hosts), []);
});

t.test('a host without a snapshot store is not drained', async (t) => {
  const hosts = await prepareHosts(t);
  const a = await hosts.start({ snapshotStore: undefined });
  await t.rejects(a.manager.moves.drain.begin(), { code: 'unsupported' });
  t.equal((await resume(a, 'sbx_0000000000000')).status, 404);
});

t.test('a claim that is damaged: its sandbox can be deleted, and others come back', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  const other = await create(a, { name: 'other' });
  await drain(a);
  const [parked = ''] = parkedIn(hosts).filter((key) => key.includes(id));
  const claim = parked.replace('/sandboxes/', '/claims/');
  hosts.s3.objects.set(claim, { body: Buffer.from('damaged'), writtenMs: Date.now() });
  t.match(await resume(b, id), { status: 500 });
  t.equal((await a.ask('DELETE', `/sandboxes/${id}`)).status, 204);
  t.equal(a.manager.find(id), undefined);
  t.same(
    [...hosts.s3.objects.keys()].filter((key) => key.includes(id)),
    [],
    'nothing of it is in the bucket',
  );
  await a.manager.moves.drain.cancel();
  await eventually(() => a.manager.get(other).state === 'running');
  await drain(a);
  const [second = ''] = parkedIn(hosts);
  hosts.s3.objects.set(second.replace('/sandboxes/', '/claims/'), {
    body: Buffer.alloc(9000, 'larger than any of ours'),
    writtenMs: Date.now(),
  });
  hosts.s3.objects.delete(second);
  t.match(await a.ask('DELETE', `/sandboxes/${other}`), {
    status: 409,
    body: { error: /the object claims\/\S+ in .* is damaged; .*remove that object/ },
  });
  hosts.s3.objects.delete(second.replace('/sandboxes/', '/claims/'));
  t.equal((await a.ask('DELETE', `/sandboxes/${other}`)).status, 204);
});

t.test('garbage beside a sandbox that is offered keeps it from no host', async (t) => {
  const hosts = await prepareHosts(t);
  const [a, b] = [await hosts.start(), await hosts.start()];
  const id = await create(a);
  await drain(a);
  const [parked = ''] = parkedIn(hosts);
  const beside = (digit: string): string => parked.replace(/[^/]+$/, digit.repeat(32));
  const garbage = { body: Buffer.from('garbage'), writtenMs: Date.now() };
  hosts.s3.objects.set(beside('0'), garbage);
  hosts.s3.objects.set(beside('1'), garbage);
  hosts.s3.objects.set(beside('1').replace('/sandboxes/', '/claims/'), garbage);
  t.match(await resume(b, id), { status: 200, body: { id, state: 'running' } });
});

t.test('one key cannot look for unknown sandboxes without a limit', async (t) => {
  const { s3, settings } = await prepareHosts(t);
  const { as } = await startKeyed(t, { snapshotStore: openTestStore(t, settings).store });
  const [one, two] = [await as(), await as()];
  const gate = Promise.withResolvers<void>();
  s3.fault = async () => {
    await gate.promise;
    return undefined;
  };
  const idOf = (at: number): string => `sbx_00000000000${String(at).padStart(2, '0')}`;
  const resumeAs = async (key: typeof one, at: number) =>
    (await key('POST', `/sandboxes/${idOf(at)}/resume`)).status;
  const asked = Array.from({ length: 8 }, (_, at) => resumeAs(one, at));
  await eventually(() => s3.count('GET', /^$/) >= 8);
  t.equal(await resumeAs(one, 8), 503, 'the ninth of one key');
  const other = resumeAs(two, 9);
  await eventually(() => s3.count('GET', /^$/) >= 9);
  gate.resolve();
  t.equal(await other, 404, 'another key is not refused');
  t.same(new Set(await Promise.all(asked)), new Set([404]));
});
