// The server around a small app: the limits of its connections, what follows bytes that are no HTTP, and how it ends.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Server } from 'node:http';
import { MAX_PIPELINED_REQUESTS } from '@sandboxd/api';
import { Hono } from 'hono';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import type { HttpApp, HttpEnv } from '../../../../../host-agent/src/http/context.ts';
import { HttpServer, type HttpServerOptions } from '../../../../../host-agent/src/http/server/server.ts';
import { RawClient, SHORT_NAME, UNGUARDED } from '../../../../http/support.ts';
import { settle } from '../../../../support/fake-clock.ts';
import { until } from '../../../../support/until.ts';

/** An app that answers `/` at once, `/slow` when the test says so, and `/stream` with a first piece. */
async function serve(t: Test, changes: Partial<HttpServerOptions> = {}) {
  const app: HttpApp = new Hono<HttpEnv>();
  const waiting: (() => void)[] = [];
  const endings: AbortSignal[] = [];
  app.get('/', (c) => c.text('answer'));
  app.get('/slow', async (c) => {
    if (c.env.ending !== undefined) endings.push(c.env.ending);
    await new Promise<void>((resolve) => waiting.push(resolve));
    return c.text('late');
  });
  app.get('/stream', (c) =>
    c.body(new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from('piece')) })),
  );
  const lines: object[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const server = new HttpServer({ ...UNGUARDED, app, log, allowedHosts: [SHORT_NAME], ...changes });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  t.teardown(() => server.close());
  const open = (text = '') => {
    const client = new RawClient(t, port);
    if (text !== '') client.write(text);
    return client;
  };
  return { server, open, waiting, endings, lines };
}
const get = (path: string, version = '1.1', headers = ''): string =>
  `GET ${path} HTTP/${version}\r\nHost: x\r\n${headers}\r\n`;

t.test('how long connections may take, and are kept', async (t) => {
  const servers: Server[] = [];
  const note = (message: unknown): void => void servers.push((message as { server: Server }).server);
  subscribe('http.server.request.start', note);
  t.teardown(() => unsubscribe('http.server.request.start', note));
  const { open } = await serve(t);
  const client = open(get('/'));
  await until(() => client.text.endsWith('answer'), 'the answer');
  t.match(client.text, /\r\nKeep-Alive: timeout=75\r\n/);
  t.match(servers[0], {
    requestTimeout: 0,
    headersTimeout: 20_000,
    keepAliveTimeout: 75_000,
    maxHeadersCount: 0,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 30,
    httpAllowHalfOpen: true,
    connectionsCheckingInterval: 5000,
  });
  const quick = await serve(t, { headersTimeoutMs: 1000 });
  const other = quick.open(get('/'));
  await until(() => other.text.endsWith('answer'), 'the answer');
  t.match(servers[1], { headersTimeout: 1000, connectionsCheckingInterval: 1000 });
});

t.test('bytes that are not HTTP get one 400, and never within a response', async (t) => {
  const { open } = await serve(t);
  const twice = open('garbage\r\n\r\n');
  await until(() => twice.text.endsWith('}'), 'the refusal');
  twice.write('garbage\r\n\r\n');
  await twice.ended();
  t.equal(twice.text.match(/HTTP\/1.1 400/g)?.length, 1);
  const streaming = open(get('/stream'));
  await until(() => streaming.text.includes('piece'), 'the first piece');
  streaming.write('garbage\r\n\r\n');
  await streaming.ended();
  t.notMatch(streaming.text, /400/);
  const behind = open(get('/'));
  await until(() => behind.text.endsWith('answer'), 'the answer');
  behind.write('garbage\r\n\r\n');
  await behind.ended();
  t.match(behind.text, /answer.*HTTP\/1.1 400 /s, 'behind its end it is told of');
});

t.test('a request while the server stops is the last of its connection', async (t) => {
  const { server, open, waiting, endings } = await serve(t);
  const [first, kept] = [open(get('/slow')), open(get('/'))];
  await until(() => waiting.length === 1 && kept.text.endsWith('answer'), 'what was asked before');
  t.notMatch(kept.text, /Connection: close/i);
  const second = open(get('/slow'));
  await until(() => waiting.length === 2, 'another');
  let isDrained = false;
  const drained = server.drain(60_000).then(() => {
    isDrained = true;
  });
  waiting[0]?.();
  await first.ended();
  t.match(first.text, /connection: close/i);
  await settle();
  t.notOk(isDrained);
  t.equal(endings[1]?.aborted, false, 'nothing is ended that may yet end by itself');
  waiting[1]?.();
  await drained;
  await second.ended();
  t.equal(endings[1]?.aborted, true);
});

t.test('a drain without clients is over at once', async (t) => {
  const { server } = await serve(t);
  await server.drain(2 ** 30);
  await server.drain(2 ** 30, new AbortController().signal);
});

t.test('a request that is refused before the app is in the log with why', async (t) => {
  const { open, lines } = await serve(t);
  const client = open('GET / HTTP/1.1\r\nHost: other\r\n\r\n');
  await client.ended();
  t.match(client.text, /^HTTP\/1.1 403 .*connection: close/is);
  t.match(lines, [{ level: 30, reason: /^host "other"/, msg: 'request refused' }]);
  const waiting = open(get('/slow', '1.1', 'Expect: 100-continue\r\n'));
  await until(() => waiting.text.includes('100 Continue'), 'an interim answer');
});

t.test('an HTTP/1.0 client gets no interim response', async (t) => {
  let reads = 0;
  const { open, waiting } = await serve(t, {
    readPeers: async () => {
      reads += 1;
      return () => undefined;
    },
  });
  const old = open();
  old.socket.end(get('/slow', '1.0'));
  const young = open();
  young.socket.end(get('/slow'));
  await until(() => young.text.includes('100 Continue'), 'it is asked after');
  t.ok(reads >= 4);
  t.equal(old.text, '');
  for (const finish of waiting) finish();
  await Promise.all([old.ended(), young.ended()]);
  t.match(old.text, /^HTTP\/1.1 200 /);
});

t.test('a client with too many pipelined requests is disconnected, with and without Expect', async (t) => {
  for (const expect of ['', 'Expect: 100-continue\r\n', 'Expect: magic\r\n']) {
    const { open, waiting } = await serve(t);
    const client = open(get('/slow').repeat(MAX_PIPELINED_REQUESTS));
    await until(() => waiting.length === MAX_PIPELINED_REQUESTS, 'all that may wait');
    client.write(get('/slow', '1.1', expect));
    await client.ended();
    await settle();
    t.equal(waiting.length, MAX_PIPELINED_REQUESTS);
    t.equal(client.text, '');
  }
});
