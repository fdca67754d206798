// The contract with Node: each test fails on a Node whose HTTP server no longer behaves as node-internals.ts expects.
import { once } from 'node:events';
import { fstatSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { createServer as createHttp2Server, type ServerHttp2Stream, connect as startHttp2 } from 'node:http2';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import {
  allowHalfOpen,
  coalesceChunks,
  deferConnections,
  descriptorOf,
  takeChunks,
  upgradeRequests,
} from '../../../../../host-agent/src/http/server/node-internals.ts';

/** A client of a server that listens on loopback. */
async function connectTo(t: Test, server: Server): Promise<Socket> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.teardown(() => {
    client.destroy();
    server.closeAllConnections();
    server.close();
  });
  client.on('error', () => undefined);
  return client;
}

/** Everything that the server sends until it closes the connection. */
async function readAll(client: Socket): Promise<string> {
  let text = '';
  for await (const bytes of client) text += String(bytes);
  return text;
}

for (const isAllowed of [false, true]) {
  t.test(`a half-closed client ${isAllowed ? 'gets its response' : 'is closed by default'}`, async (t) => {
    const server = createServer((request, response) => {
      request.socket.once('end', () => setTimeout(() => response.end('late'), 50));
    });
    if (isAllowed) allowHalfOpen(server);
    const client = await connectTo(t, server);
    client.end('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    t.equal((await readAll(client)).includes('late'), isAllowed);
  });
}

t.test('a deferred connection is parsed only after its admission', async (t) => {
  let requests = 0;
  const server = createServer((_, response) => {
    requests += 1;
    response.end('served');
  });
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<() => void>();
  deferConnections(server, 'connection', (_, accept) => arrive(accept));
  const client = await connectTo(t, server);
  client.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  const accept = await arrived;
  await sleep(50);
  t.equal(requests, 0);
  accept();
  t.match(await readAll(client), /served$/);
});

t.test('an upgraded request keeps the bytes after its headers away from the parser', async (t) => {
  const server = createServer((_, response) => response.end('plain'));
  server.on('connection', (socket) => upgradeRequests(socket, ({ url }) => url === '/hijack'));
  const upgraded = once(server, 'upgrade') as Promise<[IncomingMessage, Duplex, Buffer]>;
  const client = await connectTo(t, server);
  client.write('GET /plain HTTP/1.1\r\nHost: x\r\n\r\n');
  const [first] = (await once(client, 'data')) as [Buffer];
  t.match(String(first), /plain$/, 'other requests are served as usual');
  client.write('POST /hijack HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}\0\x01no http');
  const [request, socket, head] = await upgraded;
  t.equal(request.url, '/hijack');
  t.equal(String(head), '{}\0\x01no http');
  client.write('more');
  const [more] = (await once(socket, 'data')) as [Buffer];
  t.equal(String(more), 'more');
  socket.end('raw');
  t.equal(await readAll(client), 'raw');
});

t.test('an open socket has a descriptor, a closed one has none', async (t) => {
  const server = createServer();
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = await connectTo(t, server);
  const [socket] = await accepted;
  const descriptor = descriptorOf(socket);
  t.ok(descriptor !== undefined && fstatSync(descriptor).isSocket());
  const closed = once(socket, 'close');
  socket.destroy();
  await closed;
  t.equal(descriptorOf(socket), undefined);
  client.destroy();
});

/** The request that a server gets from a client that sends `body` after the head. The connection stays open. */
async function receive(t: Test, body: string, isCoalesced: boolean): Promise<IncomingMessage> {
  const server = createServer();
  const received = once(server, 'request');
  if (isCoalesced) server.prependListener('request', coalesceChunks);
  const client = await connectTo(t, server);
  client.write(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n${body}`);
  const [request] = (await received) as [IncomingMessage];
  return request;
}

const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const LETTERS = Array.from({ length: 30_000 }, (_, at) => String.fromCharCode(97 + (at % 26)));

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Waits without reading until the buffer stops growing. Returns its number of chunks and bytes. */
async function buffer(request: IncomingMessage): Promise<{ chunkCount: number; bytes: number }> {
  for (let before = -1; before !== request.readableLength; await sleep(200)) before = request.readableLength;
  const { buffer: chunks } = Reflect.get(request, '_readableState') as { buffer: unknown[] };
  return { chunkCount: chunks.length, bytes: request.readableLength };
}

t.test('one-byte chunks of a body are merged', async (t) => {
  const body = LETTERS.map(chunk).join('');
  const plain = await buffer(await receive(t, body, false));
  t.ok(plain.chunkCount >= 10_000, `${plain.chunkCount} chunkCount, or this test could not fail`);
  const request = await receive(t, body, true);
  const { chunkCount, bytes } = await buffer(request);
  t.ok(bytes >= 10_000 && chunkCount <= 100, `${chunkCount} chunkCount of ${bytes} bytes`);
});

t.test('chunks of one byte that come one by one are merged while nothing reads them', async (t) => {
  const request = await receive(t, '', true);
  const TURNS = 3000;
  for (let at = 0; at < TURNS; at++) {
    request.push(Buffer.from([97 + (at % 26)]));
    await turn();
  }
  const { chunkCount, bytes } = await buffer(request);
  t.ok(chunkCount <= 2, `${chunkCount} chunks of ${bytes} bytes`);
  let text = '';
  request.on('data', (piece: Buffer) => {
    text += String(piece);
  });
  await turn();
  await turn();
  t.equal(text, LETTERS.slice(0, TURNS).join(''), 'all of them come when they are read');
  request.push(Buffer.from('!'));
  await turn();
  t.ok(text.endsWith('!'), 'and a later one at once');
});

t.test('a reader that asks for more than there is gets it', async (t) => {
  const request = await receive(t, '', true);
  const pieces: string[] = [];
  request.on('readable', () => {
    for (let piece = request.read(2); piece !== null; piece = request.read(2)) pieces.push(String(piece));
  });
  for (const letter of 'abcdef') {
    request.push(Buffer.from(letter));
    await turn();
    await turn();
  }
  t.same(pieces, ['ab', 'cd', 'ef']);
});

t.test('a merged body is complete and in order', async (t) => {
  const mixed = LETTERS.map((letter, at) => (at % 1000 === 999 ? letter.repeat(300) : letter));
  const request = await receive(t, `${mixed.map(chunk).join('')}0\r\n\r\n`, true);
  let text = '';
  for await (const bytes of request) text += String(bytes);
  t.equal(text, mixed.join(''));
});

t.test('a single byte is not delayed, and a disconnect is reported', async (t) => {
  const request = await receive(t, chunk('x'), true);
  const [bytes] = (await once(request, 'data')) as [Buffer];
  t.equal(String(bytes), 'x');
  const failed = once(request, 'error');
  request.socket.destroy();
  t.match(await failed, [{ code: 'ECONNRESET' }]);
});

/** A fake request that records what is pushed into its buffer. */
function buffered() {
  const pushed: (string | null)[] = [];
  const request = {
    push: (bytes: Buffer | null) => {
      pushed.push(bytes === null ? null : String(bytes));
      return 'result of push';
    },
    destroyed: false,
    read: () => null,
    readableLength: 0,
    readableHighWaterMark: 65_536,
  };
  coalesceChunks(request as unknown as IncomingMessage);
  const push = (bytes: string | null): unknown => request.push(bytes === null ? null : Buffer.from(bytes));
  return { request, pushed, push };
}

t.test('small chunks are merged until a large one, the end, a full block or the next turn', async (t) => {
  const { pushed, push } = buffered();
  push('a');
  push('b'.repeat(255));
  t.same(pushed, []);
  t.equal(push('c'.repeat(256)), 'result of push');
  t.same(pushed.splice(0), [`a${'b'.repeat(255)}`, 'c'.repeat(256)]);
  push('d');
  await turn();
  t.same(pushed.splice(0), ['d']);
  push('e');
  t.equal(push(null), 'result of push');
  await turn();
  t.same(pushed.splice(0), ['e', null], 'no empty chunk');
  const other = buffered();
  for (let count = 0; count < 65; count++) other.push(String.fromCharCode(65 + (count % 26)).repeat(255));
  t.equal(other.pushed.length, 1);
  await turn();
  t.same(
    other.pushed.map((text) => text?.length),
    [64 * 255, 255],
  );
  t.match(other.pushed[0], /^A{255}B{255}/, 'pushed bytes never change');
});

t.test('pushed bytes never change, and a destroyed request gets nothing', async (t) => {
  const views: Buffer[] = [];
  const request = { push: (bytes: Buffer) => views.push(bytes), destroyed: false, readableLength: 0 };
  Object.assign(request, { read: () => null, readableHighWaterMark: 65_536 });
  coalesceChunks(request as unknown as IncomingMessage);
  for (const text of ['first', 'second']) {
    request.push(Buffer.from(text));
    await turn();
  }
  t.same(views.map(String), ['first', 'second']);
  request.push(Buffer.from('late'));
  request.destroyed = true;
  await turn();
  t.equal(views.length, 2);
});

t.test('a request pauses after 64 chunks in a turn, or when its buffer is full', async (t) => {
  const { request, push } = buffered();
  const answers = Array.from({ length: 65 }, () => push('x'));
  t.same([answers[0], answers[62], answers[63], answers[64]], [true, true, false, false]);
  await turn();
  t.equal(push('x'), true);
  request.readableLength = 65_536 - 3;
  t.equal(push('x'), true);
  t.equal(push('x'), false, 'merged bytes count');
});

t.test(
  'the body of a stream of HTTP/2 is taken before it is queued, and reading stops and goes on',
  async (t) => {
    const server = createHttp2Server();
    server.on('stream', (stream: ServerHttp2Stream) => {
      stream.respond({ ':status': 200 });
      stream.end(Buffer.alloc(300_000, 'x'));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const session = startHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    t.teardown(() => {
      session.destroy();
      server.close();
    });
    const stream = session.request({ ':path': '/' });
    let [takenBytes, queuedBytes, isEnded] = [0, 0, false];
    const resume = takeChunks(stream, {
      take: (chunk) => {
        takenBytes += chunk.length;
        return false;
      },
      end: (emitEnd) => {
        isEnded = true;
        emitEnd();
      },
    });
    stream.on('data', (chunk: Buffer) => {
      queuedBytes += chunk.length;
    });
    await once(stream, 'response');
    await sleep(300);
    t.ok(takenBytes > 0 && takenBytes < 150_000, `${takenBytes} bytes were taken before the pause`);
    const timer = setInterval(resume, 1);
    await once(stream, 'end');
    clearInterval(timer);
    t.same([takenBytes, queuedBytes, isEnded], [300_000, 0, true]);
  },
);
