// Many clients, of which none may have all connections: users of this host and addresses elsewhere have a share each.
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { nameClients } from '../../host-agent/src/http/server/accept-gate.ts';
import { HttpServer } from '../../host-agent/src/http/server/server.ts';
import { HELPERS } from '../support/helper-programs.ts';
import { openAsStranger, STRANGER, untilEnded } from '../support/stranger.ts';
import { until } from '../support/until.ts';
import { makeApp, RawClient, type Served, SHORT_NAME, serve, UNGUARDED } from './support.ts';

const CREATE = 'POST /sandboxes HTTP/1.1\r\nHost: x\r\n\r\n';
const HEALTH = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
const REFUSAL =
  /^HTTP\/1.1 503 .*Retry-After: 5\r\n.*this client has 4 connections, which is all that one client may have; close some/s;

const share = (connections: number) => ({ connections, peersProgram: HELPERS.peers });

async function makeSocketDir(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'shares-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

const hang = ({ sandboxes }: Pick<Served, 'sandboxes'>): void => {
  sandboxes.onCreate = () => new Promise(() => undefined);
};

t.test('a user of this host gets a share and no more, and others theirs', async (t) => {
  const served = await serve(t, { maxConnections: 10, clientShare: share(4) });
  hang(served);
  const to = { host: '127.0.0.1', port: served.port };
  const greedy = await openAsStranger(t, to, 6, CREATE);
  await untilEnded(greedy, 2);
  for (const text of greedy.ended) t.match(text, REFUSAL);
  t.equal(served.sandboxes.created.length, 4);
  // Every address of loopback is this host, and so the same client.
  const again = await openAsStranger(t, { ...to, localAddress: '127.5.6.7' }, 3, CREATE);
  await untilEnded(again, 3);
  t.match(again.ended.join(), REFUSAL);
  const other = await openAsStranger(t, to, 4, CREATE, STRANGER - 1);
  await until(() => served.sandboxes.created.length === 8, 'what another user wants');
  t.same(other.ended, []);
  t.equal((await fetch(`${served.url}/healthz`)).status, 200, 'and a third one');
  await greedy.leave();
  await until(() => served.server.connectionCount <= 5, 'room');
  const later = await openAsStranger(t, to, 4, CREATE);
  await until(() => served.sandboxes.created.length === 12, 'its share once more');
  t.same(later.ended, []);
});

t.test('on a socket in the file system the same', async (t) => {
  const path = join(await makeSocketDir(t), 'api.sock');
  const { app, log, sandboxes } = makeApp();
  const server = new HttpServer({
    ...UNGUARDED,
    app,
    log,
    allowedHosts: [SHORT_NAME],
    maxConnections: 10,
    clientShare: share(4),
  });
  hang({ sandboxes });
  await server.listen({ path, mode: 0o666 });
  t.teardown(() => server.close());
  const dir = join(path, '..');
  await chmod(dir, 0o755);
  const greedy = await openAsStranger(t, { path }, 7, CREATE);
  await untilEnded(greedy, 3);
  for (const text of greedy.ended) t.match(text, REFUSAL);
  t.equal(sandboxes.created.length, 4);
  const other = await openAsStranger(
    t,
    { path },
    1,
    HEALTH.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
    0,
  );
  await untilEnded(other, 1);
  t.match(other.ended, [/^HTTP\/1.1 200 /]);
});

t.test('a client at its share replaces its own connections, not those of others that wait', async (t) => {
  const served = await serve(t, { maxConnections: 10, clientShare: share(4) });
  const [own] = [new RawClient(t, served.port)];
  await until(() => served.server.connectionCount === 1, 'one that waits');
  const to = { host: '127.0.0.1', port: served.port };
  const idle = await openAsStranger(t, to, 40, HEALTH);
  await untilEnded(idle, 36);
  for (const text of idle.ended) t.match(text, /^(?:HTTP\/1.1 200 .*)?$/s, 'none is refused');
  t.notOk(own.isEnded, 'the oldest that waits was another’s');
  own.write(HEALTH);
  await until(() => own.text.includes('200 OK'), 'its answer');
});

t.test('with all connections in use, the client with the most gives one up', async (t) => {
  const served = await serve(t, { maxConnections: 10, clientShare: share(7) });
  const to = { host: '127.0.0.1', port: served.port };
  const few = await openAsStranger(t, to, 3, HEALTH);
  await until(() => served.server.connectionCount === 3, 'three');
  const most = await openAsStranger(t, to, 7, HEALTH, STRANGER - 1);
  await until(() => served.server.connectionCount === 10, 'ten');
  await openAsStranger(t, to, 2, HEALTH, STRANGER - 2);
  await untilEnded(most, 2);
  t.same(few.ended, []);
  t.equal(served.server.connectionCount, 10);
});

t.test(
  'data that a client sends while its identity is looked up arrives complete and in order',
  async (t) => {
    const served = await serve(t, { maxConnections: 10, clientShare: share(1) });
    const { id } = served.sandboxes.add();
    let pushed = 0;
    served.sandboxes.onPush = async (_path, read) => {
      for (let piece = await read(); piece !== undefined; piece = await read()) pushed += piece.length;
      return { files: 1, bytes: pushed };
    };
    const [first] = [new RawClient(t, served.port)];
    await until(() => served.server.connectionCount === 1, 'its share');
    const client = new RawClient(t, served.port);
    const size = 3 * 2 ** 20;
    client.write(
      `${HEALTH}POST /sandboxes/${id}/files?path=/x HTTP/1.1\r\nHost: x\r\nContent-Length: ${size}\r\n\r\n`,
    );
    client.write('a'.repeat(size));
    client.write(HEALTH);
    await until(() => client.text.match(/HTTP\/1.1 200/g)?.length === 3, 'three answers');
    t.equal(pushed, size);
    t.ok(first.isEnded, 'it made room');
  },
);

t.test('a client that leaves while its identity is looked up, and a stop meanwhile', async (t) => {
  const served = await serve(t, {
    maxConnections: 10,
    clientShare: { ...share(1), peersProgram: '/bin/cat' },
  });
  new RawClient(t, served.port);
  await until(() => served.server.connectionCount === 1, 'its share');
  for (let round = 0; round < 20; round++) {
    const client = new RawClient(t, served.port);
    client.write(CREATE);
    client.socket.resetAndDestroy();
  }
  const late = new RawClient(t, served.port);
  late.write(HEALTH);
  await served.server.close();
  await late.ended();
});

t.test('where the kernel does not tell users apart, each address is a client', async (t) => {
  const clientShare = { connections: 2, peersProgram: '/nonexistent' };
  const served = await serve(t, { maxConnections: 10, clientShare });
  hang(served);
  const open = () => {
    const client = new RawClient(t, served.port);
    client.write(CREATE);
    return client;
  };
  const busy = [open(), open()];
  await until(() => served.sandboxes.created.length === 2, 'two that are served');
  const late = open();
  await late.ended();
  t.same(
    busy.filter(({ isEnded }) => isEnded),
    [],
  );
  t.match(late.text, /^HTTP\/1.1 503 .*this client has 2 connections/s);
  t.match(
    served.lines.filter(({ level }) => level === 40),
    [{ msg: /cannot identify the users of local connections/ }],
  );
});

t.test('names of clients', async (t) => {
  const name = nameClients(HELPERS.peers);
  const at = (remoteAddress: string) =>
    ({ remoteAddress, remotePort: 4, localAddress: '2001:db8::1', localPort: 5, destroyed: false }) as Socket;
  t.same(
    await name([
      at('192.0.2.7'),
      at('::ffff:192.0.2.7'),
      at('2001:db8:1:2:3:4:5:6'),
      at('2001:db8:1:2::9'),
      at('fe80::1%lo'),
      at('::2'),
    ]),
    ['192.0.2.7', '192.0.2.7', '2001:db8:1:2::/64', '2001:db8:1:2::/64', 'fe80:0:0:0::/64', '0:0:0:0::/64'],
  );

  const path = join(await makeSocketDir(t), 's');
  for (const listen of [{ host: '127.0.0.1', port: 0 }, { host: '::', port: 0 }, { path }]) {
    const sockets: Socket[] = [];
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      sockets.push(socket.on('error', () => undefined));
    });
    await new Promise<void>((resolve) => server.listen(listen, resolve));
    t.teardown(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const address = server.address();
    const to = typeof address === 'string' ? { path } : { host: '127.0.0.1', port: address?.port ?? 0 };
    await chmod(join(path, '..'), 0o755);
    if ('path' in listen) await chmod(path, 0o666);
    const stranger = await openAsStranger(t, to, 2, '');
    await until(() => sockets.length === 2, 'two connections');
    t.same(await name(sockets), [`user ${STRANGER}`, `user ${STRANGER}`]);
    await stranger.leave();
    // To the kernel a socket that nobody holds is root's: it must not count as that.
    while ((await name(sockets)).some((who) => who !== undefined)) await sleep(10);
  }
});
