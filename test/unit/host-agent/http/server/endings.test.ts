// The ends of connections: who is refused, who has left without a word, and what still comes behind an answer.
import { EventEmitter } from 'node:events';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { RequestError } from '@hono/node-server';
import { pino } from 'pino';
import t from 'tap';
import { HttpError } from '../../../../../host-agent/src/http/errors.ts';
import {
  DisconnectDetector,
  type PeerLookup,
  readPeers,
} from '../../../../../host-agent/src/http/server/disconnect-detector.ts';
import {
  linger,
  lingerAfter,
  refuse,
  respond,
  sendLast,
  toHttpError,
  toResponse,
} from '../../../../../host-agent/src/http/server/responses.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';
import { FakeSocket } from '../../../../support/fake-socket.ts';
import { until } from '../../../../support/until.ts';

t.test('what the parser says as a failure of HTTP, where anybody is there to hear it', async (t) => {
  const told = (code: string, more: object = {}) =>
    toHttpError(Object.assign(new Error('Parse Error: Bad'), { code }, more));
  for (const code of ['ECONNRESET', 'EPIPE']) t.equal(told(code), undefined);
  t.match(told('HPE_HEADER_OVERFLOW'), { code: 'headers_too_large', message: /are over 16384 bytes/ });
  t.match(told('ERR_HTTP_REQUEST_TIMEOUT'), { code: 'timeout' });
  t.match(told('HPE_X', { reason: 'Invalid METHOD' }), {
    code: 'malformed',
    message: 'malformed http request: invalid METHOD',
  });
  t.match(told('HPE_X', { reason: 7 }), { message: 'malformed http request: parse Error: Bad' });
  t.match(told('HPE_X'), { message: 'malformed http request: parse Error: Bad' });
});

t.test('a refusal is the last that a connection says', async (t) => {
  const timers = new FakeClock(t);
  const socket = new FakeSocket();
  refuse(socket, new HttpError('method_not_allowed', 'nö', { Allow: 'GET' }), 'req_1');
  await settle();
  const text = '{"error":"nö","code":"method_not_allowed"}';
  const head = [
    `HTTP/1.1 405 ${STATUS_CODES[405]}`,
    'Allow: GET',
    'X-Request-Id: req_1',
    'Cache-Control: no-store',
    'Content-Type: application/json',
    'Content-Length: 43',
    'Connection: close',
  ];
  t.equal(Buffer.from(socket.said, 'latin1').toString(), `${head.join('\r\n')}\r\n\r\n${text}`);
  t.ok(socket.isEnded);
  t.notOk(socket.isPaused(), 'or the client would be reset');
  await timers.pass(999);
  t.notOk(socket.destroyed);
  await timers.pass(1);
  t.ok(socket.destroyed, 'it reads nothing');
  const left = new FakeSocket();
  refuse(left, new AppError('exhausted', 'full'));
  await settle();
  t.match(left.said, /X-Request-Id: req_\w+\r\n/);
  t.equal(timers.count, 1);
  left.destroy();
  await settle();
  t.equal(timers.count, 0);
  const ended = new FakeSocket();
  ended.end();
  refuse(ended, new AppError('exhausted', 'full'));
  t.ok(ended.destroyed, 'where nothing can be said any more');
  t.equal(ended.said, '');
  timers.restore();
});

t.test('a route’s answer as the last, with the length that it has', async (t) => {
  const socket = new FakeSocket();
  const headers = { Connection: 'keep-alive', 'Content-Length': '99', 'X-Content-Length': '3', A: 'b' };
  await sendLast(socket, new Response('hello', { status: 201, headers }));
  await settle();
  t.match(socket.said, /^HTTP\/1.1 201 Created\r\n/);
  t.match(socket.said, /\r\na: b\r\n/);
  t.match(socket.said, /\r\nx-content-length: 3\r\n/);
  t.match(socket.said, /\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello$/);
  t.notMatch(socket.said, /keep-alive|99/);
  socket.destroy();
  const odd = new FakeSocket();
  await sendLast(odd, new Response('', { status: 299 }));
  await settle();
  t.match(odd.said, /^HTTP\/1.1 299 \r\n/);
  odd.destroy();
});

t.test('what never reaches the app is answered, and logged when it is a fault of the daemon', async (t) => {
  const lines: object[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const bad = toResponse(new RequestError('Invalid URL'), log);
  t.equal(bad.status, 400);
  t.same(await bad.json(), { error: 'malformed http request: invalid url', code: 'malformed' });
  t.match(bad.headers.get('x-request-id'), /^req_/);
  t.same(lines, []);
  const broken = toResponse(new Error('secret'), log);
  t.equal(broken.status, 500);
  const id = broken.headers.get('x-request-id');
  t.match(await broken.json(), { error: new RegExp(`request id ${id}$`) });
  t.match(lines, [{ level: 50, requestId: id, err: { message: 'secret' } }]);
});

t.test('a request that the app is not to see has its answer, and then its connection ends', async (t) => {
  const said: unknown[] = [];
  const response = {
    shouldKeepAlive: true,
    writeHead: (...args: unknown[]) => said.push(...args),
    end: (text: string) => said.push(text),
  };
  respond(response as unknown as ServerResponse, new AppError('unauthenticated', 'nö'), 'req_2');
  t.equal(response.shouldKeepAlive, false);
  t.same(said, [
    401,
    {
      'WWW-Authenticate': 'Bearer',
      'X-Request-Id': 'req_2',
      'Cache-Control': 'no-store',
      'Content-Type': 'application/json',
      'Content-Length': 40,
    },
    '{"error":"nö","code":"unauthenticated"}',
  ]);
});

t.test('what still comes is taken for a while, as long as something comes', async (t) => {
  const timers = new FakeClock(t);
  const open = () => {
    const [socket, source] = [new PassThrough(), new PassThrough()];
    return { socket, source, stop: linger(socket, source, 12_000) };
  };
  const silent = open();
  await timers.pass(4999);
  t.notOk(silent.socket.destroyed);
  await timers.pass(1);
  t.ok(silent.socket.destroyed);
  await settle();
  t.equal(timers.count, 0);
  const steady = open();
  for (let passed = 0; passed < 11_000; passed += 1000) {
    steady.source.write('x');
    await timers.pass(1000);
  }
  t.equal(steady.source.readableLength, 0, 'it is thrown away');
  t.notOk(steady.socket.destroyed);
  steady.source.write('x');
  await timers.pass(1000);
  t.ok(steady.socket.destroyed, 'all in all it was too long');
  const stopped = open();
  stopped.stop();
  t.equal(timers.count, 0);
  t.equal(stopped.socket.listenerCount('close'), open().socket.listenerCount('close') - 1);
  timers.restore();
});

t.test('only a request whose body is incomplete lingers', async (t) => {
  const timers = new FakeClock(t);
  const answer = (more: object) => {
    const socket = new PassThrough();
    const request = Object.assign(new PassThrough(), { complete: false, socket }, more);
    const response = new EventEmitter();
    lingerAfter(request as unknown as IncomingMessage, response as ServerResponse, 100);
    t.equal(timers.count, 0, 'not before its answer is sent');
    response.emit('finish');
    return { request, socket };
  };
  answer({ complete: true });
  t.equal(timers.count, 0);
  answer({ destroyed: true });
  t.equal(timers.count, 0);
  const late = answer({});
  t.equal(timers.count, 2);
  await timers.pass(99);
  t.notOk(late.socket.destroyed);
  await timers.pass(1);
  t.ok(late.socket.destroyed);
  const whole = answer({});
  whole.request.end('rest');
  await settle();
  t.equal(timers.count, 0);
  t.notOk(whole.socket.destroyed);
  timers.restore();
});

t.test('a client that ended its side is asked after until its connection is closed', async (t) => {
  const timers = new FakeClock(t);
  const clients = { here: new FakeSocket(), gone: new FakeSocket(), far: new FakeSocket() };
  const answers = new Map<Socket, boolean>([
    [clients.here, true],
    [clients.gone, true],
  ]);
  let reads = 0;
  const departures = new DisconnectDetector(async () => {
    reads += 1;
    return ((socket) => answers.get(socket)) satisfies PeerLookup;
  });
  const probes: string[] = [];
  for (const [name, socket] of Object.entries(clients)) departures.watch(socket, () => probes.push(name));
  t.equal(timers.count, 1, 'one reading for all');
  await timers.pass(49);
  t.equal(reads, 0);
  await timers.pass(1);
  t.equal(reads, 1);
  await timers.pass(199);
  t.equal(reads, 1);
  answers.set(clients.gone, false);
  await timers.pass(1);
  t.equal(reads, 2);
  t.same([clients.here.destroyed, clients.gone.destroyed], [false, true]);
  await timers.pass(200);
  t.same(probes, [], 'a table may lack a line for once');
  const at: number[] = [];
  for (let ticks = 4; ticks <= 150; ticks++) {
    await timers.pass(200);
    if (probes.length > 0) at.push(ticks);
    t.ok(probes.splice(0).every((name) => name === 'far'));
  }
  t.same(at, [4, 8, 16, 32, 50, 64, 100, 128, 150]);
  answers.set(clients.far, true);
  await timers.pass(200);
  answers.delete(clients.far);
  for (let ticks = 0; ticks < 3; ticks++) await timers.pass(200);
  t.same(probes, []);
  await timers.pass(200);
  t.same(probes, ['far'], 'four times again after it was seen');
  for (const socket of Object.values(clients)) socket.destroy();
  await settle();
  const before = reads;
  await timers.pass(1000);
  t.equal(reads, before, 'nobody is asked after');
  t.equal(timers.count, 0);
  departures.watch(new FakeSocket(), () => undefined);
  t.equal(timers.count, 1, 'until there is one again');
  timers.restore();
});

t.test('a longer table is read less often', async (t) => {
  for (const [tookMs, pauseMs] of [
    [10, 200],
    [20, 400],
    [100, 1000],
  ] as const) {
    const timers = new FakeClock(t);
    let reads = 0;
    const departures = new DisconnectDetector(async () => {
      reads += 1;
      await new Promise((resolve) => setTimeout(resolve, tookMs));
      return () => true;
    });
    departures.watch(new FakeSocket(), () => undefined);
    await timers.pass(50 + tookMs + pauseMs - 1);
    t.equal(reads, 1);
    await timers.pass(1);
    t.equal(reads, 2);
    timers.restore();
  }
});

t.test('the kernel’s table says of each client of this host whether it is there', async (t) => {
  for (const [host, to] of [
    ['127.0.0.1', '127.0.0.1'],
    ['::1', '::1'],
    ['::', '127.0.0.1'],
  ] as const) {
    const sockets: Socket[] = [];
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      sockets.push(socket.on('error', () => undefined));
    });
    await new Promise<void>((resolve) => server.listen(0, host, resolve));
    const client = connect({ host: to, port: (server.address() as AddressInfo).port, allowHalfOpen: true });
    await until(() => sockets.length === 1, 'the connection');
    const [socket] = sockets as [Socket];
    t.equal((await readPeers())(socket), true, `${to} at ${host}`);
    client.end();
    t.equal((await readPeers())(socket), true, 'which only ended its side');
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    const known = { remoteAddress, remotePort, localAddress, localPort };
    client.destroy();
    // Without an inode, until the kernel forgets it: it is no client that this host knows nothing of.
    let isThere: ReturnType<PeerLookup> = true;
    while (isThere !== false) isThere = (await readPeers())(known as Socket);
    const isOpen = await readPeers();
    for (const [wrong, answer] of [
      [{ remotePort: 1 }, 'unlisted'],
      [{ localPort: 1 }, 'unlisted'],
      [{ remoteAddress: '127.0.0.2' }, 'unlisted'],
      [{ remoteAddress: 'fe80::1' }, undefined],
      [{ remoteAddress: undefined, remotePort: undefined }, undefined],
    ] as const)
      t.equal(isOpen({ ...known, ...wrong } as Socket), answer);
    socket.destroy();
    server.close();
  }
});
