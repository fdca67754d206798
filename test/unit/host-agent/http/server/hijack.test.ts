// Connections that are taken from HTTP: which requests do that, what is read of them first, and how those are refused that may not.
import { EventEmitter } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import { MAX_JSON_BYTES } from '@sandboxd/api';
import { type Context, Hono } from 'hono';
import { pino } from 'pino';
import t from 'tap';
import type { AuditEntry } from '../../../../../host-agent/src/audit/index.ts';
import {
  connectionOf,
  type HttpApp,
  type HttpEnv,
  type Takeover,
} from '../../../../../host-agent/src/http/context.ts';
import { HttpError } from '../../../../../host-agent/src/http/errors.ts';
import {
  type HijackOptions,
  installHijack,
  isWebSocketRequest,
} from '../../../../../host-agent/src/http/server/hijack.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import { FakeClock, settle } from '../../../../support/fake-clock.ts';
import { FakeSocket } from '../../../../support/fake-socket.ts';

const EXEC = '/sandboxes/sbx_0123456789abc/exec';

type RequestParts = { method?: string; url?: string; headers?: Record<string, string> };

function request({
  method = 'POST',
  url = `${EXEC}?stdin=1`,
  headers = {},
}: RequestParts = {}): IncomingMessage {
  return {
    method,
    url,
    headers,
    rawHeaders: Object.entries(headers).flat(),
    socket: { remoteAddress: '192.0.2.7' },
  } as unknown as IncomingMessage;
}

/** A server whose app does as a test says. */
function setUp(
  changes: Partial<HijackOptions> = {},
  answer?: (c: Context<HttpEnv>) => Response | Promise<Response>,
) {
  const lines: object[] = [];
  const audited: AuditEntry[] = [];
  const opened: unknown[] = [];
  const seen: { request: Request; takeover: Takeover }[] = [];
  const app: HttpApp = new Hono<HttpEnv>();
  app.all('*', async (c) => {
    seen.push({ request: c.req.raw, takeover: connectionOf(c).takeover! });
    return answer?.(c) ?? c.text('answer', 404);
  });
  const server = new EventEmitter();
  const order: string[] = [];
  installHijack(server as Server, 'connection', {
    app,
    log: pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    admit: async () => void order.push('admit'),
    audit: { write: (entry) => void audited.push(entry) },
    ending: new AbortController().signal,
    lingerMs: 7,
    bodyIdleMs: 1000,
    settled: async () => void order.push('settled'),
    onOpen: (socket) => opened.push(socket),
    ...changes,
  });
  const take = async (wanted: RequestParts, head = '') => {
    const socket = new FakeSocket();
    server.emit('upgrade', request(wanted), socket, Buffer.from(head));
    await settle();
    return socket;
  };
  return { server, take, lines, audited, opened, seen, order };
}

t.test('which requests want the connection', (t) => {
  const upgrade = { upgrade: 'WebSocket' };
  t.ok(isWebSocketRequest(request({ method: 'GET', url: `${EXEC}?x`, headers: upgrade })));
  for (const wanted of [
    { method: 'GET', url: EXEC },
    { method: 'GET', url: EXEC, headers: { upgrade: 'h2c' } },
    { method: 'POST', url: EXEC, headers: upgrade },
    { method: 'GET', url: '/sandboxes', headers: upgrade },
  ])
    t.notOk(isWebSocketRequest(request(wanted)));
  const { server } = setUp();
  const passed: unknown[][] = [];
  const parser = { onIncoming: (...args: unknown[]): number => passed.push(args) };
  const timeouts: number[] = [];
  const socket = { parser, setTimeout: (ms: number) => timeouts.push(ms) } as unknown as Socket;
  server.emit('connection', socket);
  const ask = (wanted: RequestParts): unknown[] => {
    const incoming = request(wanted);
    const result = parser.onIncoming(incoming, true);
    return [result, Reflect.get(incoming, 'upgrade')];
  };
  t.same(ask({}), [2, true]);
  t.same(ask({ url: `http://x${EXEC}?a&stdin=1#b` }), [2, true]);
  t.same(timeouts, [0, 0]);
  t.same(passed, []);
  for (const wanted of [
    { url: EXEC },
    { url: `${EXEC}?stdin=0` },
    { url: `${EXEC}?stdin=11` },
    { url: `${EXEC}?#stdin=1` },
    { url: `${EXEC}?stdin=0&stdin=1` },
    { method: 'GET' },
    { url: '/sandboxes?stdin=1' },
  ]) {
    const before = passed.length;
    t.same(ask(wanted), [before + 1, undefined], JSON.stringify(wanted));
    t.equal(passed.at(-1)?.[1], true);
  }
  for (const bad of [undefined, null, 7, {}, { onIncoming: 1 }])
    t.throws(() => server.emit('connection', { parser: bad }), /this Node has no parser/);
  t.end();
});

t.test('the app gets the whole request, with its connection and what came behind', async (t) => {
  const runs: string[] = [];
  const { take, seen, order, opened } = setUp({}, async (c) => {
    const { takeover } = connectionOf(c);
    runs.push(await c.req.text());
    if (takeover !== undefined) takeover.run = () => runs.push('run');
    return c.body(null);
  });
  const headers = { 'X-A': 'b', 'content-length': '4' };
  const socket = await take({ headers }, 'bodyframes');
  t.same(runs, ['body', 'run']);
  t.same(order, ['settled', 'admit']);
  t.equal(opened[0], socket);
  t.equal(socket.said, '');
  const [{ request: asked, takeover }] = seen as [(typeof seen)[0]];
  t.match(
    [asked.method, asked.url, asked.headers.get('x-a')],
    ['POST', `http://localhost${EXEC}?stdin=1`, 'b'],
  );
  t.match([String(takeover.head), takeover.lingerMs], ['frames', 7]);
  t.equal(takeover.socket, socket);
  t.notOk(asked.signal.aborted);
  socket.destroy();
  await settle();
  t.match(asked.signal.reason, { code: 'cancelled', message: 'the client left' });
  const other = await take(
    { method: 'GET', url: `http://localhost${EXEC}`, headers: { upgrade: 'websocket' } },
    'ws',
  );
  t.match(seen[1]?.request, { method: 'GET', url: `http://localhost${EXEC}` });
  t.equal(String(seen[1]?.takeover.head), 'ws');
  other.destroy();
});

t.test('a body is read as far as it goes, in whatever pieces', async (t) => {
  const bodies: string[] = [];
  const { take, seen } = setUp({}, async (c) => {
    bodies.push(await c.req.text());
    return c.text('no');
  });
  const chunked = { 'transfer-encoding': 'chunked', expect: '100-Continue' };
  const socket = await take({ headers: chunked }, '2\r\n');
  t.equal(socket.said, 'HTTP/1.1 100 Continue\r\n\r\n');
  t.equal(seen.length, 0);
  for (const piece of ['ab\r\n0', '\r\n\r\nbehind']) {
    socket.emit('data', Buffer.from(piece));
    await settle();
  }
  t.same(bodies, ['ab']);
  t.equal(String(seen[0]?.takeover.head), 'behind');
  t.equal(socket.listenerCount('data'), 0, 'whoever takes it over listens');
  t.match(socket.said, /\r\n\r\nno$/);
  const whole = await take({ headers: { ...chunked, expect: '100-continue' } }, '0\r\n\r\n');
  t.notMatch(whole.said, /100 Continue/, 'it has come');
  const silent = await take({ headers: { 'content-length': '2' } }, 'a');
  t.equal(silent.said, '', 'nobody asked for that');
  for (const each of [socket, whole, silent]) each.destroy();
});

t.test('a body that stalls, breaks off, is malformed or too large is refused', async (t) => {
  const timers = new FakeClock(t);
  const { take, audited, lines, seen } = setUp();
  const length = { 'content-length': '5', 'x-request-id': 'mine' };
  const silent = await take({ headers: length }, 'a');
  await timers.pass(600);
  silent.emit('data', Buffer.from('b'));
  await timers.pass(999);
  t.match(silent.said, /^HTTP\/1.1 408 .*X-Request-Id: mine\r\n/s);
  const left = await take({ headers: length }, 'a');
  left.emit('end');
  await settle();
  t.match(left.said, /^HTTP\/1.1 503 .*the client left within its request/s);
  const gone = await take({ headers: length }, 'a');
  gone.destroy();
  await settle();
  t.equal(gone.said, '');
  const malformed = await take({ headers: { 'transfer-encoding': 'chunked' } });
  malformed.emit('data', Buffer.from('x\r\n'));
  await settle();
  t.match(malformed.said, /^HTTP\/1.1 400 /);
  const large = await take({ headers: { 'content-length': String(MAX_JSON_BYTES + 1) } });
  t.match(large.said, /^HTTP\/1.1 413 /);
  t.equal(seen.length, 0);
  t.same(
    audited.map((entry) => [entry.event, Reflect.get(entry, 'status'), Reflect.get(entry, 'route')]),
    [408, 503, 503, 400, 413].map((status) => ['refused', status, 'exec']),
  );
  t.same(lines, []);
  for (const socket of [silent, left, malformed, large]) socket.destroy();
  await settle();
  t.equal(timers.count, 0);
  timers.restore();
});

t.test(
  'a request without permission is refused before its body is read, and a fault of the daemon is logged',
  async (t) => {
    let error: Error = new AppError('unauthenticated', 'no key came');
    const { take, lines, seen } = setUp({ admit: () => Promise.reject(error) });
    const stranger = await take({ headers: { 'content-length': '5' } });
    t.match(stranger.said, /^HTTP\/1.1 401 .*WWW-Authenticate: Bearer\r\n/s);
    error = new HttpError('malformed', 'no');
    const bad = await take({});
    t.match(bad.said, /^HTTP\/1.1 400 /);
    t.same(lines, []);
    error = new Error('a fault');
    const broken = await take({ headers: { 'x-request-id': 'mine' } });
    t.match(broken.said, /^HTTP\/1.1 500 .*request id mine"/s);
    t.match(lines, [{ level: 50, requestId: 'mine', err: { message: 'a fault' } }]);
    t.equal(seen.length, 0);
    for (const socket of [stranger, bad, broken]) socket.destroy();
  },
);

t.test('a WebSocket request has no body, and a target is a URL', async (t) => {
  const { take, seen } = setUp();
  const get = { method: 'GET', url: EXEC };
  for (const headers of [{ 'content-length': '1' }, { 'transfer-encoding': 'chunked' }] as Record<
    string,
    string
  >[]) {
    const socket = await take({ ...get, headers });
    t.match(socket.said, /^HTTP\/1.1 400 .*a websocket request has no body/s);
    socket.destroy();
  }
  const odd = await take({ method: 'GET', url: 'http://[/' });
  t.match(odd.said, /^HTTP\/1.1 400 .*the target is not a valid URL/s);
  t.equal(seen.length, 0);
  const empty = await take({ ...get, headers: { 'content-length': '0' } });
  t.match(empty.said, /^HTTP\/1.1 404 .*\r\n\r\nanswer$/s);
  for (const socket of [odd, empty]) socket.destroy();
});

t.test('an error of the connection ends it', async (t) => {
  const { take } = setUp({ settled: () => new Promise(() => undefined) });
  const socket = await take({});
  socket.emit('error', new Error('reset'));
  t.ok(socket.destroyed);
});
