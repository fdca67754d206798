// Clients in masses, and clients that mean harm: each has its own connection to lose, and the daemon goes on.
import { MAX_HEADERS, MAX_PIPELINED_REQUESTS } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { RawClient, type Served, serve } from './support.ts';

const HOST = 'Host: x\r\n';
const EXEC = '{"cmd":["true"]}';
const UPGRADE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

/** That everything still works. */
async function checkUse(t: Test, { url, sandboxes }: Served): Promise<void> {
  const created = await fetch(`${url}/sandboxes`, { method: 'POST', body: '{}' });
  t.equal(created.status, 201);
  sandboxes.script = (exec) => exec.exit({ exitCode: 0 });
  const { id } = sandboxes.add();
  const exec = await fetch(`${url}/sandboxes/${id}/exec`, { method: 'POST', body: EXEC });
  t.equal(exec.status, 200);
  t.match(await exec.text(), /"exit_code":0/);
}

const open = (t: Test, { port }: Served, count: number, bytes: string): RawClient[] =>
  Array.from({ length: count }, () => {
    const client = new RawClient(t, port);
    client.write(bytes);
    return client;
  });

t.test('requests that are never sent whole', async (t) => {
  const served = await serve(t, { maxConnections: 20 });
  for (const bytes of ['', 'GET /heal', `GET /healthz HTTP/1.1\r\n${HOST}A: `]) {
    const clients = open(t, served, 200, bytes);
    await until(() => clients.filter(({ isEnded }) => isEnded).length >= 180, 'room for the last ones');
    await checkUse(t, served);
    for (const { socket } of clients) socket.destroy();
  }
  const kept = open(t, served, 40, `GET /healthz HTTP/1.1\r\n${HOST}\r\n`);
  await until(
    () => kept.filter(({ text, isEnded }) => isEnded || text.includes('ok')).length === 40,
    'answers',
  );
  await checkUse(t, served);
});

t.test('a client above the limit gets 503 while all others are being served', async (t) => {
  const served = await serve(t, { maxConnections: 5 });
  served.sandboxes.onCreate = () => new Promise(() => undefined);
  const busy = open(t, served, 5, `POST /sandboxes HTTP/1.1\r\n${HOST}\r\n`);
  await until(() => served.sandboxes.created.length === 5, 'five clients that are served');
  const [late] = open(t, served, 1, `GET /healthz HTTP/1.1\r\n${HOST}\r\n`) as [RawClient];
  await late.ended();
  t.match(late.text, /^HTTP\/1.1 503 .*Retry-After: 5\r\n.*5 clients are connected, which is all/s);
  for (const { isEnded } of busy) t.notOk(isEnded, 'they are not harmed');
  const [maker] = open(t, served, 1, `POST /sandboxes HTTP/1.1\r\n${HOST}\r\n`) as [RawClient];
  await maker.ended();
  t.match(maker.text, /^HTTP\/1.1 503 /);
  t.equal(served.sandboxes.created.length, 5, 'what it asked for is not done');
  const many = open(t, served, 200, '');
  await until(() => many.every(({ isEnded }) => isEnded), 'the end of those that are too many');
  for (const { socket } of busy) socket.destroy();
  await until(() => served.server.connectionCount === 0, 'room');
  served.sandboxes.onCreate = async () => undefined;
  await checkUse(t, served);
});

t.test('clients that do not read their responses are disconnected when no connection is free', async (t) => {
  const served = await serve(t, { maxConnections: 3, slowReaderMs: 200 });
  const { sandboxes } = served;
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => exec.output('stdout', Buffer.alloc(8 * 2 ** 20));
  const exec = `POST /sandboxes/${id}/exec HTTP/1.1\r\n${HOST}Content-Type: application/json\r\nContent-Length: ${EXEC.length}\r\n\r\n${EXEC}`;
  const unread = open(t, served, 2, '');
  for (const client of unread) client.socket.pause();
  for (const client of unread) client.write(exec);
  const [reader] = open(t, served, 1, exec) as [RawClient];
  await until(() => sandboxes.execs.length === 3, 'three commands');
  await until(() => reader.received.length > 8 * 2 ** 20, 'what is read');
  const open503 = async (): Promise<boolean> => {
    const [late] = open(t, served, 1, `GET /healthz HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`) as [
      RawClient,
    ];
    await late.ended();
    late.socket.destroy();
    return late.text.startsWith('HTTP/1.1 503');
  };
  t.ok(await open503(), 'not at once');
  for (let tries = 0; await open503(); tries++) {
    if (tries > 1000) throw new Error('there is no room');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  t.notOk(reader.isEnded, 'who reads is not harmed');
  await until(() => served.server.connectionCount === 2, 'only as many go as there must be');
});

t.test('connections that are reset, at whatever they are', async (t) => {
  const served = await serve(t);
  const { id } = served.sandboxes.add();
  const starts = [
    `CONNECT x:1 HTTP/1.1\r\n${HOST}\r\n`,
    'CONNECT x:1 HTTP/1.1\r\nHost: evil.example\r\n\r\n',
    `GET /sandboxes/${id}/exec HTTP/1.1\r\n${HOST}${UPGRADE}\r\n`,
    `GET /sandboxes/${id}/exec HTTP/1.1\r\n${HOST}${UPGRADE.replace('13', '99')}\r\n`,
    `POST /sandboxes/${id}/exec?stdin=1 HTTP/1.1\r\n${HOST}Content-Length: ${EXEC.length}\r\n\r\n${EXEC}`,
    `POST /sandboxes/${id}/exec?stdin=1 HTTP/1.1\r\n${HOST}Content-Length: 100\r\n\r\n`,
    `POST /sandboxes HTTP/1.1\r\n${HOST}Expect: magic\r\n\r\n`,
    'garbage\r\n\r\n',
  ];
  for (const [at, bytes] of [...starts, ...starts].entries()) {
    const clients = open(t, served, 10, bytes);
    // At once, and when there was an answer.
    if (at >= starts.length) await new Promise((resolve) => setTimeout(resolve, 20));
    for (const { socket } of clients) {
      socket.write('more');
      socket.resetAndDestroy();
    }
  }
  await checkUse(t, served);
});

t.test('bodies that come one byte at a time', async (t) => {
  const served = await serve(t, { bodyIdleMs: 300, lingerMs: 100 });
  const { id } = served.sandboxes.add();
  served.sandboxes.onPush = async (_path, read) => {
    while ((await read()) !== undefined);
    return { files: 0, bytes: 0 };
  };
  const paths = ['/sandboxes', `/sandboxes/${id}/exec?stdin=1`, `/sandboxes/${id}/files?path=/x`];
  const heads = paths.flatMap((path) => [
    [path, `POST ${path} HTTP/1.1\r\n${HOST}Content-Length: 100000\r\n\r\n`, ' '],
    [path, `POST ${path} HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n'],
  ]) as [string, string, string][];
  const clients = heads.map(([path, head, piece]) => ({ path, piece, client: open(t, served, 1, head)[0]! }));
  const timer = setInterval(() => {
    for (const { client, piece } of clients) if (!client.isEnded) client.write(piece);
  }, 50);
  t.teardown(() => clearInterval(timer));
  for (const { client, path } of clients) {
    await until(() => client.text.includes('}'), `the refusal of a trickle to ${path}`);
    t.match(client.text, /^HTTP\/1.1 408 .*came at less than 240 bytes a second; send it faster/s, path);
  }
  const slow = open(t, served, 1, `POST /sandboxes HTTP/1.1\r\n${HOST}Content-Length: 1000\r\n\r\n`)[0]!;
  for (let sent = 0; sent < 1000; sent += 100) {
    slow.write(' '.repeat(100));
    await new Promise((resolve) => setTimeout(resolve, 80));
  }
  await until(() => slow.text.includes('201 Created'), 'the answer to one that is slow, but not that slow');
});

t.test('more headers than anybody needs', async (t) => {
  const served = await serve(t);
  const { id } = served.sandboxes.add();
  const many = (count: number) => 'a: b\r\n'.repeat(count);
  for (const start of [
    'GET /healthz HTTP/1.1\r\n',
    `POST /sandboxes/${id}/exec?stdin=1 HTTP/1.1\r\nContent-Length: 0\r\n`,
  ]) {
    for (const count of [MAX_HEADERS, 2600]) {
      const [client] = open(t, served, 1, `${start}${HOST}${many(count)}\r\n`) as [RawClient];
      await until(() => client.text.includes('}'), 'a refusal');
      t.match(client.text, /^HTTP\/1.1 431 .*there are \d+ headers; send at most 128/s, `${count}`);
    }
  }
  const [late] = open(t, served, 1, `GET /healthz HTTP/1.1\r\n${many(2100)}${HOST}Host: y\r\n\r\n`) as [
    RawClient,
  ];
  await until(() => late.text.includes('}'), 'a refusal');
  t.match(late.text, /^HTTP\/1.1 400 .*there are 2 host headers/s, 'none is left out');
  const [most] = open(t, served, 1, `GET /healthz HTTP/1.1\r\n${HOST}${many(MAX_HEADERS - 1)}\r\n`) as [
    RawClient,
  ];
  await until(() => most.text.includes('200 OK'), 'an answer');
});

t.test('pipelined requests whose responses are not read', async (t) => {
  const served = await serve(t);
  served.sandboxes.onCreate = () => new Promise(() => undefined);
  const create = `POST /sandboxes HTTP/1.1\r\n${HOST}\r\n`;
  const [client] = open(t, served, 1, create.repeat(MAX_PIPELINED_REQUESTS)) as [RawClient];
  await until(() => served.sandboxes.created.length === MAX_PIPELINED_REQUESTS, 'all of them');
  t.notOk(client.isEnded);
  client.write(create.repeat(100));
  await client.ended();
  t.equal(served.sandboxes.created.length, MAX_PIPELINED_REQUESTS);
  const other = await serve(t);
  await checkUse(t, other);
});

t.test('large bodies on their way, together', async (t) => {
  const served = await serve(t, { lingerMs: 100 });
  const head = `POST /sandboxes HTTP/1.1\r\n${HOST}Content-Length: 1048576\r\n\r\n`;
  const clients = open(t, served, 80, `${head}${' '.repeat(1_048_000)}`);
  await until(() => clients.some(({ text }) => text.includes('503')), 'one that is too many');
  t.match(clients.find(({ text }) => text !== '')?.text, /too many large requests are on their way/);
  t.ok(clients.filter(({ text }) => text === '').length >= 60, 'most are waited for');
  await checkUse(t, served);
  for (const { socket } of clients) socket.destroy();
  await until(() => served.server.connectionCount < 10, 'their end');
  const large = await fetch(`${served.url}/sandboxes`, { method: 'POST', body: ' '.repeat(1_000_000) });
  t.equal(large.status, 201);
});
