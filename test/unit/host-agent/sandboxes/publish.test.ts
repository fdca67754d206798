// Ports that are published and freed while a sandbox exists; open ports over restarts.
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';

const NETWORK = { network: { allowlist: ['a.example'] } };
const port = { hostPort: 8080, guestPort: 80 };
const local = { hostIp: '127.0.0.1', hostPort: 8080, guestPort: 80 };

async function start(t: Test) {
  const daemon = await startMemoryDaemon(t);
  const { id } = await daemon.manager.create(NETWORK);
  const handle = () => daemon.manager.as(OPERATOR).get(id);
  const calls = () => daemon.network.calls.filter((call) => /publish|ports/.test(call) && !/\[\]/.test(call));
  return { ...daemon, id, handle, calls };
}

t.test('a sandbox gets a port, has it over a pause, a rollback and a restart, and loses it', async (t) => {
  const { manager, network, happened, id, handle, calls, crash, home } = await start(t);
  await handle().publishPort(port);
  await handle().publishPort(port);
  t.same(calls(), ['publish [8080] tap1'], 'once');
  t.same(handle().info.published, [port]);
  t.match(happened.at(-1), { kind: 'port-published', sandbox: id, port: 80, hostPort: 8080 });
  const { id: snapshot } = await manager.get(id).snapshot();
  await handle().pause(true);
  network.calls.length = 0;
  await handle().publishPort({ hostPort: 8081, guestPort: 80 });
  t.same(calls(), ['publish [8081] asleep tap1', 'ports hold tap1']);
  await handle().rollback(snapshot);
  t.equal(handle().info.published?.length, 2, 'a rollback is of the guest');
  const [fork] = await manager.fork(snapshot, 1);
  t.equal(fork?.published, undefined, 'forks have ports of their own');
  await manager
    .as(OPERATOR)
    .get(fork?.id ?? '')
    .publishPort({ hostPort: 8082, guestPort: 80 });
  t.match(manager.get(fork?.id ?? '').info.published, [{ hostPort: 8082 }]);
  await crash();
  const next = await startMemoryDaemon(t, { home });
  const found = next.manager.as(OPERATOR).get(id);
  t.equal(found.info.published?.length, 2);
  t.ok(next.network.calls.includes('adopt ports [8080,8081] tap1'));
  await found.unpublishPort(port);
  await found.unpublishPort(port);
  t.same(
    next.network.calls.filter((call) => call.startsWith('unpublish')),
    ['unpublish 8080 tap1'],
  );
  t.match(next.happened.at(-1), { kind: 'port-unpublished', sandbox: id, port: 80, hostPort: 8080 });
  await next.manager.as(OPERATOR).get(id).unpublishPort({ hostPort: 8081, guestPort: 80 });
  t.equal(next.manager.get(id).info.published, undefined);
});

t.test('a port is freed on all its addresses', async (t) => {
  const { handle, happened } = await start(t);
  await handle().publishPort(local);
  await handle().publishPort({ ...local, hostIp: '127.0.0.2' });
  await handle().publishPort({ ...local, guestPort: 81, hostIp: '127.0.0.3' });
  await handle().unpublishPort(port);
  t.same(handle().info.published, [{ ...local, guestPort: 81, hostIp: '127.0.0.3' }]);
  t.match(happened.slice(-2), [
    { kind: 'port-unpublished', hostIp: '127.0.0.1' },
    { kind: 'port-unpublished', hostIp: '127.0.0.2' },
  ]);
});

t.test('it is refused as a create refuses it, and changes nothing', async (t) => {
  const { manager, network, handle, store, id } = await start(t);
  const bare = await manager.create({});
  await t.rejects(manager.as(OPERATOR).get(bare.id).publishPort(port), {
    code: 'invalid_argument',
    message: 'publish needs a sandbox that has a network, and this one has none',
  });
  network.fails = 'publish';
  await t.rejects(handle().publishPort(port), { message: 'cannot publish' });
  t.equal(handle().info.published, undefined);
  network.fails = '';
  const table = store.table('sandboxes');
  const put = t.capture(table.constructor.prototype, 'put', () => Promise.reject(new Error('no disk')));
  await t.rejects(handle().publishPort(port), { message: 'no disk' });
  t.ok(put().length > 0);
  t.equal(network.calls.at(-1), 'unpublish 8080 tap1');
  t.match(store.table<{ options: object }>('sandboxes').get(id)?.options, { publish: undefined });
});

t.test('at most 256, and none for a sandbox that is gone', async (t) => {
  const { manager, handle, id } = await start(t);
  for (let at = 0; at < 256; at++) await handle().publishPort({ hostPort: 10_000 + at, guestPort: 80 });
  await t.rejects(handle().publishPort(port), {
    code: 'invalid_argument',
    message: /at most 256 ports, got 257/,
  });
  const held = handle();
  await manager.delete(id);
  await t.rejects(held.publishPort(port), { code: 'not_found' });
  await t.rejects(held.unpublishPort(port), { code: 'not_found' });
});

t.test('open ports outlast a restart, and one that is open is not changed', async (t) => {
  const { handle, id, happened, crash, home } = await start(t);
  await handle().changePort(3000, 'private');
  const [{ openedAtMs } = { openedAtMs: 0 }] = await handle().changePort(3000, 'private');
  await handle().changePort(80, 'private', 'localhost');
  t.match(await handle().changePort(80, 'public'), [{ port: 80, host: undefined }, {}]);
  const kinds = () => happened.filter(({ kind }) => kind.startsWith('port-')).map(({ kind }) => kind);
  t.same(kinds(), ['port-opened', 'port-opened', 'port-opened']);
  await crash();
  const next = await startMemoryDaemon(t, { home });
  const found = next.manager.as(OPERATOR).get(id);
  t.match(found.info.ports, [
    { port: 80, access: 'public' },
    { port: 3000, access: 'private', openedAtMs },
  ]);
  t.match(await found.changePort(80, undefined), [{ port: 3000 }]);
  await found.changePort(80, undefined);
  t.same(
    next.happened.filter(({ kind }) => kind === 'port-closed'),
    [{ kind: 'port-closed', sandbox: id, port: 80 }],
  );
  for (let at = 0; at < 255; at++) await found.changePort(10_000 + at, 'private');
  await t.rejects(found.changePort(1, 'private'), { code: 'exhausted', message: /256 open ports already/ });
  await found.changePort(3000, 'public');
  await next.manager.delete(id);
  await t.rejects(found.changePort(1, 'private'), { code: 'not_found' });
});
