// Guests that answer gRPC with what no server would send.
import { createHash, type Hash, randomBytes } from 'node:crypto';
import { type ClientHttp2Session, connect, createServer, type ServerHttp2Stream } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import type { FakeSandbox, Served } from './ingress-host.ts';
import { serveIngress, serveRaw } from './ingress-host.ts';
import { END_HEADERS, END_STREAM, FRAME, serveFrames, toBlock, toFrame } from './raw-http2.ts';

type Answer = { readonly status: number | undefined; readonly code: number | undefined };

function connectTo(t: Test, { port }: Served): ClientHttp2Session {
  const client = connect(`http://127.0.0.1:${port}`);
  client.on('error', () => undefined);
  t.teardown(() => client.destroy());
  return client;
}

function call(
  client: ClientHttp2Session,
  served: Served,
  sandbox: FakeSandbox,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const stream = client.request({
    ':method': 'POST',
    ':path': '/call',
    ':authority': served.hostOf(sandbox),
    'content-type': 'application/grpc',
    ...headers,
  });
  let status: number | undefined;
  stream.on('response', (given) => {
    status = given[':status'];
  });
  stream.on('error', () => undefined);
  stream.resume().end();
  return new Promise((resolve) => stream.on('close', () => resolve({ status, code: stream.rstCode })));
}

t.test('an answer that cannot be passed on is 502, and ends no more than its request', async (t) => {
  const served = await serveIngress(t, { idleMs: 2000 });
  let frames: (stream: number) => readonly Buffer[] = () => [];
  const port = await serveFrames(t, (stream, socket) => void socket.write(Buffer.concat(frames(stream))));
  const sandbox = served.add(port, 'public');
  const client = connectTo(t, served);
  const head = (stream: number, flags: number, headers: Record<string, string>): Buffer =>
    toFrame(FRAME.headers, END_HEADERS | flags, stream, toBlock(headers));
  for (const status of ['600', '999', '000', '099'])
    for (const flags of [0, END_STREAM]) {
      frames = (stream) => [head(stream, flags, { ':status': status })];
      t.match(await call(client, served, sandbox), { status: 502, code: 0 }, `${status}, flags ${flags}`);
    }
  const data = (stream: number): Buffer => toFrame(FRAME.data, END_STREAM, stream, 'data');
  const odd: Record<string, (stream: number) => readonly Buffer[]> = {
    'a body behind 204': (stream) => [head(stream, 0, { ':status': '204' }), data(stream)],
    'a body behind 304': (stream) => [head(stream, 0, { ':status': '304' }), data(stream)],
    'a length that is wrong': (stream) => [
      head(stream, 0, { ':status': '200', 'content-length': '5' }),
      data(stream),
    ],
    'names of the prototype': (stream) => [
      head(stream, 0, { ':status': '200', __proto__x: 'y', constructor: 'z', 'x y': 'z' }),
      data(stream),
    ],
    'a reset with the largest code': (stream) => [
      head(stream, 0, { ':status': '200' }),
      toFrame(FRAME.reset, 0, stream, Buffer.alloc(4, 0xff)),
    ],
    'a reset before the answer': (stream) => [toFrame(FRAME.reset, 0, stream, Buffer.alloc(4, 0xff))],
    'trailers of every kind': (stream) => [
      head(stream, 0, { ':status': '200' }),
      head(stream, END_STREAM, { te: 'x', etag: '\xff', 'grpc-status': '0', 'set-cookie': 'a=b', date: 'x' }),
    ],
    'trailers that are too large': (stream) => [
      head(stream, 0, { ':status': '200' }),
      head(
        stream,
        END_STREAM,
        Object.fromEntries(Array.from({ length: 110 }, (_, at) => [`x${at}`, 'v'.repeat(120)])),
      ),
    ],
    'pseudo headers as trailers': (stream) => [
      head(stream, 0, { ':status': '200' }),
      head(stream, END_STREAM, { ':status': '200' }),
    ],
    'the connection is lost': () => [toFrame(FRAME.goaway, 0, 0, Buffer.alloc(8, 0xff))],
  };
  for (const [what, given] of Object.entries(odd)) {
    frames = given;
    const answer = await call(client, served, sandbox);
    t.ok(answer.status !== 500 && answer.status !== undefined, `${what}: ${JSON.stringify(answer)}`);
  }
  frames = (stream) => [head(stream, 0, { ':status': '200' }), data(stream)];
  for (const method of ['HEAD', 'GET', 'POST']) {
    const { status } = await call(client, served, sandbox, { ':method': method }).catch(() => ({
      status: 0,
    }));
    t.not(status, 500, method);
  }
  t.match(await call(client, served, sandbox), { status: 200, code: 0 });
  t.notOk(served.lines.some(({ msg }) => msg === 'ingress request failed'));
});

t.test(
  'a guest that ends its connection after each answer leaves nothing at that of the client',
  async (t) => {
    const served = await serveIngress(t);
    const warnings: string[] = [];
    const onWarning = ({ name }: Error): void => void warnings.push(name);
    process.on('warning', onWarning);
    t.teardown(() => process.off('warning', onWarning));
    const port = await serveFrames(t, (stream, socket) => {
      const last = Buffer.alloc(8);
      last.writeUInt32BE(stream);
      socket.write(toFrame(FRAME.headers, END_HEADERS | END_STREAM, stream, toBlock({ ':status': '200' })));
      socket.write(toFrame(FRAME.goaway, 0, 0, last));
    });
    const sandbox = served.add(port, 'public');
    const client = connectTo(t, served);
    for (let at = 0; at < 50; at++)
      t.match(await call(client, served, sandbox), { status: 200, code: 0 }, `request ${at}`);
    t.notOk(warnings.includes('MaxListenersExceededWarning'));
    await until(() => sandbox.streams.size === 0, 'the end of all connections to the guest');
    const together = await Promise.all(Array.from({ length: 20 }, () => call(client, served, sandbox)));
    t.ok(together.every(({ status }) => status === 200 || status === 502));
    t.match(await call(client, served, sandbox), { status: 200, code: 0 });
  },
);

t.test('no connection to a guest outlives its use, or what allowed it', async (t) => {
  const served = await serveIngress(t);
  let isSilent = false;
  // It never closes its side.
  const port = await serveFrames(t, (stream, socket) => {
    if (isSilent) return;
    socket.removeAllListeners('end');
    socket.write(toFrame(FRAME.headers, END_HEADERS | END_STREAM, stream, toBlock({ ':status': '200' })));
  });
  const sandbox = served.add(port);
  const makeLink = () =>
    served.links.create({ sandbox: sandbox.id, port: 3000, maker: undefined, expiresS: 60 });
  const first = await makeLink();
  const clients = Array.from({ length: 5 }, () => connectTo(t, served));
  for (const client of clients)
    t.match(await call(client, served, sandbox, { 'x-access-token': first.token }), { status: 200 });
  t.equal(sandbox.streams.size, 5);
  await served.links.delete(sandbox.id, 3000, first.link.id);
  await until(() => sandbox.streams.size === 0, 'the end of connections without requests');
  t.notOk(clients.some((client) => client.closed));

  const [second, third] = [await makeLink(), await makeLink()];
  isSilent = true;
  const [client] = clients;
  if (client === undefined) throw new Error('no client');
  const lost = call(client, served, sandbox, { 'x-access-token': second.token });
  await until(() => sandbox.streams.size === 1, 'the request');
  const beside = call(client, served, sandbox, { 'x-access-token': third.token });
  await sleep(200);
  await served.links.delete(sandbox.id, 3000, second.link.id);
  await lost;
  t.equal(sandbox.streams.size, 1, 'another request is not ended');
  isSilent = false;
  const next = call(client, served, sandbox, { 'x-access-token': third.token });
  t.match(await next, { status: 200 });
  t.equal(sandbox.streams.size, 2, 'but gets no further ones beside it');
  await served.links.delete(sandbox.id, 3000, third.link.id);
  await beside;
  await until(() => sandbox.streams.size === 0, 'the end of both');
});

t.test('an answer in frames of one byte to a client that reads nothing costs its bytes', async (t) => {
  const served = await serveIngress(t);
  const sentBytes = new Map<number, number>();
  const port = await serveFrames(t, (stream, socket, windows) => {
    socket.write(toFrame(FRAME.headers, END_HEADERS, stream, toBlock({ ':status': '200' })));
    const send = (): void => {
      const count = windows.take(stream, 2000);
      socket.write(Buffer.concat(Array(count).fill(toFrame(FRAME.data, 0, stream, 'x'))));
      sentBytes.set(stream, (sentBytes.get(stream) ?? 0) + count);
    };
    const timer = setInterval(send, 5);
    socket.once('close', () => clearInterval(timer));
  });
  const sandbox = served.add(port, 'public');
  const client = connect(`http://127.0.0.1:${served.port}`, { settings: { initialWindowSize: 0 } });
  client.on('error', () => undefined);
  t.teardown(() => client.destroy());
  const before = usedBytes();
  const calls = Array.from({ length: 4 }, () => call(client, served, sandbox));
  let last = -1;
  const total = (): number => [...sentBytes.values()].reduce((sum, bytes) => sum + bytes, 0);
  while (total() !== last || total() === 0) {
    last = total();
    await sleep(500);
  }
  t.equal(sentBytes.size, 4);
  t.ok(total() <= 4 * 128 * 1024, `${total()} bytes were taken`);
  const grown = usedBytes() - before;
  t.ok(grown < 80 * 2 ** 20, `${Math.round(grown / 2 ** 20)} MiB more are used`);
  client.settings({ initialWindowSize: 2 ** 20 });
  await until(() => total() > 4 * 150_000, 'the rest, when the client reads');
  client.destroy();
  await Promise.all(calls);
});

t.test('large bodies both ways arrive whole, also beside streams that nobody reads', async (t) => {
  const served = await serveIngress(t);
  const guest = createServer();
  guest.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
    if (headers[':path'] === '/endless') Readable.from(blocks(1000)).pipe(stream);
    else stream.pipe(stream);
  });
  const port = await serveRaw(t, (socket) => void guest.emit('connection', socket));
  const sandbox = served.add(port, 'public');
  const client = connectTo(t, served);
  const open = (path: string) =>
    client.request({
      ':method': 'POST',
      ':path': path,
      ':authority': served.hostOf(sandbox),
      'content-type': 'application/grpc',
    });
  const unread = Array.from({ length: 40 }, () => open('/endless').on('error', () => undefined));
  for (const stream of unread) stream.pause().end();
  await sleep(500);
  const results = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const stream = open('/echo');
      let grpcStatus: unknown;
      stream.on('trailers', (trailers) => {
        grpcStatus = trailers['grpc-status'];
      });
      const [sent, received] = [createHash('sha256'), createHash('sha256')];
      Readable.from(hashed(blocks(80), sent)).pipe(stream);
      for await (const chunk of stream) {
        received.update(chunk);
        await nextTurn();
      }
      return [grpcStatus, sent.digest('hex') === received.digest('hex')];
    }),
  );
  t.same(results, Array(4).fill(['0', true]));
});

for (const type of ['application/grpc', 'application/octet-stream'])
  t.test(`a request of ${type} in frames of one byte to a guest that reads nothing`, async (t) => {
    const served = await serveIngress(t);
    const sandbox = served.add(await serveRaw(t, (socket) => void socket.pause()), 'public');
    const before = usedBytes();
    const frames = Buffer.concat(Array(1000).fill(toFrame(FRAME.data, 0, 1, 'x')));
    const head = {
      ':method': 'POST',
      ':path': '/',
      ':scheme': 'http',
      ':authority': served.hostOf(sandbox),
      'content-type': type,
    };
    const flood = async (): Promise<void> => {
      const client = connectTcp(served.port, '127.0.0.1').resume();
      client.on('error', () => undefined);
      t.teardown(() => client.destroy());
      client.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
      client.write(toFrame(FRAME.settings, 0, 0));
      client.write(toFrame(FRAME.headers, END_HEADERS, 1, toBlock(head)));
      for (let at = 0; at < 250; at++) {
        client.write(frames);
        await sleep(5);
      }
    };
    await Promise.all(Array.from({ length: 4 }, flood));
    await sleep(500);
    const grown = usedBytes() - before;
    t.ok(grown < 80 * 2 ** 20, `${Math.round(grown / 2 ** 20)} MiB more are used`);
    t.equal(sandbox.connects, 4);
  });

function usedBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function* blocks(count: number): Generator<Buffer> {
  for (let at = 0; at < count; at++) yield randomBytes(at % 2 === 0 ? 100_000 : 7);
}

function* hashed(chunks: Iterable<Buffer>, hash: Hash): Generator<Buffer> {
  for (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
}
