// Clients of the ingress that leave, stay or pipeline what they should not: what they hold ends, and others are served.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { ask, serveIngress, serveRaw } from './ingress-host.ts';

const UPGRADE = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';

const UPGRADE_TO_NOTHING = `GET /b HTTP/1.1\r\nHost: nothing.localhost\r\n${UPGRADE}\r\n`;
const CONNECT = 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n';

type Client = { readonly socket: Socket; received: string };

/** Sends text, and keeps its side open whatever the server does. */
async function dial(t: Test, port: number, text: string): Promise<Client> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  t.teardown(() => socket.destroy());
  const client: Client = { socket, received: '' };
  socket.on('error', () => undefined);
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    client.received += chunk;
  });
  await new Promise((resolve) => socket.write(text, resolve));
  return client;
}

function watchRejections(t: Test): unknown[] {
  const rejections: unknown[] = [];
  const onRejection = (error: unknown): void => void rejections.push(error);
  process.on('unhandledRejection', onRejection);
  t.teardown(() => process.off('unhandledRejection', onRejection));
  return rejections;
}

for (const [what, second] of [
  ['upgrade', UPGRADE_TO_NOTHING],
  ['CONNECT', CONNECT],
] as const)
  t.test(`a pipelined ${what} holds no connection`, async (t) => {
    const rejections = watchRejections(t);
    const served = await serveIngress(t, { maxConnections: 2 });
    const clients = await Promise.all(
      [1, 2].map(() => dial(t, served.port, `GET /a HTTP/1.1\r\nHost: nothing.localhost\r\n\r\n${second}`)),
    );
    await sleep(100);
    for (const { socket } of clients) socket.destroy();
    await sleep(100);
    t.equal((await ask(served.port, 'nothing.localhost')).status, 404);
    t.same(rejections, []);
  });

t.test('requests that wait behind another end with their client', async (t) => {
  const served = await serveIngress(t);
  const sandbox = served.add(await serveRaw(t, (socket) => void socket.resume()), 'public');
  const request = `GET / HTTP/1.1\r\nHost: ${served.hostOf(sandbox)}\r\n`;
  for (const leave of [
    ({ socket }: Client) => socket.resetAndDestroy(),
    ({ socket }: Client) => socket.write(`${request}${UPGRADE}\r\n`),
  ]) {
    const client = await dial(t, served.port, `${request}\r\n`.repeat(3));
    await until(() => sandbox.streams.size === 3);
    leave(client);
    await until(() => sandbox.streams.size === 0, `the end of requests: ${leave}`);
  }
});

for (const [what, text, status] of [
  ['an upgrade', UPGRADE_TO_NOTHING, 404],
  ['CONNECT', CONNECT, 405],
] as const)
  t.test(`${what} that was refused holds its connection for a moment only`, async (t) => {
    const served = await serveIngress(t, { maxConnections: 2 });
    const clients = await Promise.all([1, 2].map(() => dial(t, served.port, text)));
    await until(() => clients.every(({ received }) => received.endsWith('}')));
    for (const { received } of clients) t.match(received, `HTTP/1.1 ${status} `);
    // A write to a connection that was destroyed is answered with a reset.
    const writing = setInterval(() => clients.forEach(({ socket }) => void socket.write('x')), 50);
    t.teardown(() => clearInterval(writing));
    await until(() => clients.every(({ socket }) => socket.destroyed), 'the end of both', 5000);
    t.equal((await ask(served.port, 'nothing.localhost')).status, 404);
  });

const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n';

t.test('a client that closed its connection is noticed, and its connection to the guest ends', async (t) => {
  const served = await serveIngress(t);
  const silent = served.add(await serveRaw(t, (socket) => void socket.resume()), 'public');
  const streams = served.add(
    await serveRaw(t, (socket) => {
      socket.resume().write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n');
    }),
    'public',
  );
  const sockets = served.add(await serveRaw(t, (socket) => void socket.resume().write(SWITCH)), 'public');
  for (const [what, sandbox, more] of [
    ['waits for an answer', silent, ''],
    ['reads an answer', streams, ''],
    ['waits for an upgrade', silent, UPGRADE],
    ['has a WebSocket', sockets, UPGRADE],
  ] as const) {
    const { socket } = await dial(
      t,
      served.port,
      `GET / HTTP/1.1\r\nHost: ${served.hostOf(sandbox)}\r\n${more}\r\n`,
    );
    await until(() => sandbox.streams.size === 1, what);
    await sleep(50);
    socket.end();
    await sleep(500);
    t.equal(sandbox.streams.size, 1, `a client that ${what} may end its side`);
    socket.destroy();
    await until(() => sandbox.streams.size === 0, `the end of a client that ${what}`);
  }
});

t.test('a half-closed WebSocket leaves nothing behind', async (t) => {
  const served = await serveIngress(t);
  const sandbox = served.add(await serveRaw(t, (socket) => void socket.resume().write(SWITCH)), 'public');
  const text = `GET / HTTP/1.1\r\nHost: ${served.hostOf(sandbox)}\r\n${UPGRADE}\r\n`;
  for (const leave of [({ socket }: Client) => socket.resetAndDestroy(), () => sandbox.ports.delete(3000)]) {
    const client = await dial(t, served.port, text);
    await until(() => client.received.startsWith('HTTP/1.1 101'));
    client.socket.end();
    await sleep(100);
    t.equal(sandbox.streams.size, 1);
    leave(client);
    await until(() => sandbox.streams.size === 0, `the end of the tunnel: ${leave}`);
  }
});

t.test('what a client sends before the answer to its upgrade reaches the guest', async (t) => {
  const served = await serveIngress(t);
  let received = '';
  const guest = await serveRaw(t, (socket) => {
    socket.once('data', async () => {
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1');
      });
      await sleep(200);
      socket.write(SWITCH);
    });
  });
  const sandbox = served.add(guest, 'public');
  const text = `GET / HTTP/1.1\r\nHost: ${served.hostOf(sandbox)}\r\n${UPGRADE}\r\n`;
  const client = await dial(t, served.port, `${text}head;`);
  await until(() => sandbox.streams.size === 1);
  client.socket.write('early;');
  await until(() => client.received.startsWith('HTTP/1.1 101'));
  client.socket.end('late;');
  await until(() => received === 'head;early;late;', 'all of it');
});

t.test('one address cannot take all requests of a public port', async (t) => {
  const served = await serveIngress(t, { maxConnections: 1000 });
  const sandbox = served.add(await serveRaw(t, (socket) => void socket.resume()), 'public');
  const request = `GET / HTTP/1.1\r\nHost: ${served.hostOf(sandbox)}\r\nConnection: close\r\n\r\n`;
  const clients = await Promise.all(Array.from({ length: 192 }, () => dial(t, served.port, request)));
  await until(() => sandbox.streams.size === 192, 'requests at the guest');
  const refused = await dial(t, served.port, request);
  await until(() => refused.received.endsWith('}'), 'an answer');
  t.match(refused.received, /^HTTP\/1\.1 503 .*this address has 192 requests to this sandbox/s);
  const other = connect({ port: served.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
  t.teardown(() => other.destroy());
  other.write(request);
  await until(() => sandbox.streams.size === 193, 'the request of another address');
  for (const { socket } of clients) socket.destroy();
  await until(() => sandbox.streams.size === 1, 'the end of all');
  await dial(t, served.port, request);
  await until(() => sandbox.streams.size === 2, 'the next request of the first address');
});
