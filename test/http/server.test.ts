// The listening side, where sockets are the point: malformed HTTP, sizes, clients that leave or dawdle, the end.

import { setTimeout as sleep } from 'node:timers/promises';
import { MIN_BODY_BYTES_PER_S } from '@sandboxd/api';
import { pino } from 'pino';
import t from 'tap';
import { HttpServer } from '../../host-agent/src/http/index.ts';
import { until } from '../support/until.ts';
import { decodeFrames, makeApp, RawClient, serve, summarize, UNGUARDED } from './support.ts';

const HEAD = 'Host: x\r\n';

/** Status, headers by lower-case name and parsed body of the first response received. */
function parseAnswer(text: string) {
  const [head = '', body = ''] = text.split('\r\n\r\n', 2);
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = new Map(lines.map((line) => [line.split(': ')[0]!.toLowerCase(), line.split(': ')[1]!]));
  const isJson = headers.get('content-type') === 'application/json';
  return { status: Number(statusLine.split(' ')[1]), headers, body: isJson ? JSON.parse(body) : body };
}

t.test('ordinary requests over one kept connection', async (t) => {
  const { port, sandboxes } = await serve(t);
  sandboxes.add();
  const client = new RawClient(t, port);
  for (let i = 1; i <= 3; i++) {
    client.write(`GET /sandboxes HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => client.text.split('"sandboxes"').length === i + 1, 'an answer');
  }
  client.write(`DELETE /sandboxes/sbx_0123456789abc HTTP/1.1\r\n${HEAD}\r\n`);
  await until(() => client.text.includes('404 Not Found'), 'the last answer');
  t.equal(client.isEnded, false);
});

t.test('malformed HTTP gets JSON, too', async (t) => {
  const { port } = await serve(t);
  const cases: [string, number, RegExp][] = [
    ['garbage\r\n\r\n', 400, /^malformed http request: /],
    ['\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, /^malformed http request: /],
    [`FOO /healthz HTTP/1.1\r\n${HEAD}\r\n`, 400, /^malformed http request: /],
    [`GET /healthz HTTP/9.9\r\n${HEAD}\r\n`, 400, /^malformed http request: /],
    ['GET /healthz HTTP/1.1\r\n\r\n', 400, /host header is missing/],
    // Bare line ends: a proxy may read the head otherwise.
    ['GET /healthz HTTP/1.1\nHost: x\n\n', 400, /^malformed http request: /],
    ['GET /healthz HTTP/1.1\r\nHost: x\nA: b\r\n\r\n', 400, /^malformed http request: /],
    ['GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n', 400, /^malformed http request: /],
    ['GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n', 400, /^malformed http request: /],
    [`GET /healthz HTTP/1.1\r\n${HEAD}a: ${'b'.repeat(20_000)}\r\n\r\n`, 431, /over 16384 bytes/],
    [`GET /${'b'.repeat(20_000)} HTTP/1.1\r\n${HEAD}\r\n`, 431, /over 16384 bytes/],
    [`GET /healthz HTTP/1.1\r\n${HEAD}Expect: magic\r\n\r\n`, 417, /^expectation "magic" is not known/],
    [
      `POST /sandboxes HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
      400,
      /^malformed http request: /,
    ],
    [`POST /sandboxes HTTP/1.1\r\n${HEAD}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`, 400, /^malformed/],
    [`POST /sandboxes HTTP/1.1\r\n${HEAD}Content-Length: -1\r\n\r\n`, 400, /^malformed http request: /],
    [`CONNECT a:1 HTTP/1.1\r\n${HEAD}\r\n`, 405, /^CONNECT is not allowed/],
    [`TRACE /healthz HTTP/1.1\r\n${HEAD}\r\n`, 405, /^TRACE is not allowed/],
    [`OPTIONS * HTTP/1.1\r\n${HEAD}\r\n`, 400, /^malformed http request: /],
    [`GET \\x HTTP/1.1\r\n${HEAD}\r\n`, 400, /^malformed http request: /],
  ];
  for (const [bytes, status, pattern] of cases) {
    const client = new RawClient(t, port);
    client.write(Buffer.from(bytes, 'latin1'));
    await until(
      () => /\r\n\r\n\{.*\}$/s.test(client.text),
      `the answer to ${JSON.stringify(bytes.slice(0, 40))}`,
    );
    const answer = parseAnswer(client.text);
    t.equal(answer.status, status, bytes.slice(0, 60));
    t.match(answer.body.error, pattern);
    t.match(answer.headers.get('x-request-id'), /^req_/);
    client.socket.destroy();
  }
  const old = new RawClient(t, port);
  old.write('GET /healthz HTTP/1.0\r\n\r\n');
  await old.ended();
  t.equal(parseAnswer(old.text).status, 200, 'HTTP/1.0 needs no host');
  const h2c = new RawClient(t, port);
  h2c.write(
    `GET /healthz HTTP/1.1\r\n${HEAD}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n`,
  );
  await until(() => h2c.text.includes('"ok"'), 'the answer to an upgrade nobody takes');
  t.equal(parseAnswer(h2c.text).status, 200);
});

t.test('bodies over the limit are 413 however they come', async (t) => {
  const { url, port, sandboxes } = await serve(t, { lingerMs: 300 });
  const large = Buffer.alloc(2 ** 21, 0x20);
  const known = await fetch(`${url}/sandboxes`, { method: 'POST', body: large });
  t.equal(known.status, 413);
  t.match(await known.json(), { error: /^the body is over 1048576 bytes/ });
  const chunked = await fetch(`${url}/sandboxes`, {
    method: 'POST',
    body: new Blob([large]).stream(),
    duplex: 'half',
  });
  t.equal(chunked.status, 413);
  const client = new RawClient(t, port);
  client.write(`POST /sandboxes HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n`);
  let chunks = 0;
  const pump = setInterval(() => {
    if (client.isEnded) return;
    client.write('10000\r\n');
    client.write(Buffer.alloc(65_536, 0x20));
    client.write('\r\n');
    chunks++;
  }, 1);
  t.teardown(() => clearInterval(pump));
  await until(() => client.text.includes('413'), 'the refusal of an endless body');
  await client.ended();
  t.ok(chunks > 16, 'the connection of a client that never ends was ended');
  t.same(sandboxes.created, []);
  const ignored = await fetch(`${url}/sandboxes/x`, { method: 'DELETE', body: large });
  t.equal(ignored.status, 400, 'a body nobody wants does no harm');
});

t.test('slowloris: a slow head or body costs its own request only', async (t) => {
  const { port, url } = await serve(t, { bodyIdleMs: 60, headersTimeoutMs: 1000, lingerMs: 100 });
  const inHeaders = new RawClient(t, port);
  inHeaders.write('GET /healthz HTTP/1.1\r\nHost');
  const inBody = new RawClient(t, port);
  inBody.write(`POST /sandboxes HTTP/1.1\r\n${HEAD}Content-Length: 10\r\n\r\n{`);
  t.equal((await fetch(`${url}/healthz`)).status, 200);
  await Promise.all([inHeaders.ended(), inBody.ended()]);
  t.match(parseAnswer(inHeaders.text), { status: 408, body: { error: /did not come in time/ } });
  t.match(parseAnswer(inBody.text), { status: 408, body: { error: /stopped for 60 ms/ } });
});

t.test('a client that is slow and steady is served, however long it takes', async (t) => {
  const SHARE = 6;
  const PIECES = 8;
  /** The answers, and the longest that any client was silent. */
  const attempt = async (pieceMs: number): Promise<{ statuses: string[]; longestMs: number }> => {
    const { port, sandboxes } = await serve(t, { bodyIdleMs: SHARE * pieceMs });
    const { id } = sandboxes.add();
    sandboxes.onPush = async (_path, read) => {
      let bytes = 0;
      for (let chunk = await read(); chunk !== undefined; chunk = await read()) bytes += chunk.length;
      return { files: 0, bytes };
    };
    let longestMs = 0;
    const pieceBytes = Math.ceil((2 * MIN_BODY_BYTES_PER_S * pieceMs) / 1000);
    const body = '{"cmd":["x"]}'.padEnd(PIECES * pieceBytes);
    const ask = async (path: string): Promise<string> => {
      const client = new RawClient(t, port);
      client.write(
        `POST ${path} HTTP/1.1\r\n${HEAD}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`,
      );
      // In all longer than the limit of silence.
      for (let at = 0; at < body.length; at += pieceBytes) {
        const before = performance.now();
        await sleep(pieceMs);
        longestMs = Math.max(longestMs, performance.now() - before);
        client.write(body.slice(at, at + pieceBytes));
      }
      await client.ended();
      return client.text.split('\r\n', 1)[0] ?? '';
    };
    const paths = ['exec?stdin=1', 'exec', 'files?path=/x'].map((path) => `/sandboxes/${id}/${path}`);
    return { statuses: await Promise.all(paths.map(ask)), longestMs };
  };
  // A machine that stood still itself says nothing; then it is tried again, more slowly.
  for (let pieceMs = 200; ; pieceMs *= 2) {
    const { statuses, longestMs } = await attempt(pieceMs);
    if (longestMs > (pieceMs * SHARE) / 2 && pieceMs < 2000) continue;
    t.same(
      statuses,
      Array.from({ length: 3 }, () => 'HTTP/1.1 200 OK'),
    );
    break;
  }
});

t.test('a client that leaves cancels its create', async (t) => {
  const { port, sandboxes } = await serve(t);
  const reasons: unknown[] = [];
  sandboxes.onCreate = (_options, signal) =>
    new Promise((_, reject) => {
      signal?.addEventListener('abort', () => {
        reasons.push(signal.reason);
        reject(signal.reason);
      });
    });
  for (const leave of ['destroy', 'resetAndDestroy'] as const) {
    const before = sandboxes.created.length;
    const client = new RawClient(t, port);
    client.write(`POST /sandboxes HTTP/1.1\r\n${HEAD}\r\n`);
    await until(() => sandboxes.created.length > before, 'the create');
    client.socket[leave]();
    await until(() => reasons.length > before, `the cancellation after ${leave}`);
    t.match(reasons.at(-1), { code: 'cancelled' }, leave);
  }
});

t.test('one-way exec over a socket: streamed, held back, ended with its client', async (t) => {
  const { url, port, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => {
    exec.events.started?.(1);
    exec.output('stdout', 'one');
  };
  const response = await fetch(`${url}/sandboxes/${id}/exec`, { method: 'POST', body: '{"cmd":["x"]}' });
  const reader = response.body!.getReader();
  t.equal(summarize(decodeFrames((await reader.read()).value!)).stdout, 'one', 'output comes before the end');
  sandboxes.execs[0]!.output('stdout', 'two');
  t.equal(summarize(decodeFrames((await reader.read()).value!)).stdout, 'two');
  sandboxes.execs[0]!.exit({ exitCode: 5 });
  t.equal(summarize(decodeFrames((await reader.read()).value!)).result.exit_code, 5);
  t.equal((await reader.read()).done, true);

  const idle = new RawClient(t, port);
  sandboxes.script = (exec) => {
    exec.events.started?.(1);
    const more = () => {
      while (!exec.isCancelled && exec.sentBytes - exec.consumedBytes < 524_288) {
        exec.output('stdout', Buffer.alloc(65_536));
      }
    };
    exec.on('consumed', more);
    more();
  };
  idle.socket.pause();
  const body = '{"cmd":["yes"]}';
  idle.write(`POST /sandboxes/${id}/exec HTTP/1.1\r\n${HEAD}Content-Length: ${body.length}\r\n\r\n${body}`);
  await until(() => sandboxes.execs.length === 2, 'the endless command');
  const endless = sandboxes.execs[1]!;
  let before = -1;
  while (before !== endless.consumedBytes) {
    before = endless.consumedBytes;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  t.ok(before < 16 * 2 ** 20, `a client that does not read stalls its command after ${before} bytes`);
  idle.socket.destroy();
  await until(() => endless.isCancelled, 'the end of the command');
});

t.test('draining finishes running requests, refuses new ones, and is bounded', async (t) => {
  const { server, url, port, sandboxes } = await serve(t);
  let finish = () => {};
  sandboxes.onCreate = () =>
    new Promise((resolve) => {
      finish = resolve;
    });
  const running = fetch(`${url}/sandboxes`, { method: 'POST' });
  const idle = new RawClient(t, port);
  await until(() => sandboxes.created.length === 1, 'the create');
  let isDrained = false;
  const drained = server.drain(5000).then(() => {
    isDrained = true;
  });
  await t.rejects(fetch(`${url}/healthz`), 'no new connection');
  t.equal(isDrained, false);
  finish();
  const response = await running;
  t.equal(response.status, 201);
  t.equal(response.headers.get('connection'), 'close');
  await drained;
  await server.close();
  await idle.ended();

  const stuck = await serve(t);
  stuck.sandboxes.onCreate = (_options, signal) =>
    new Promise((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason));
    });
  const lost = t.rejects(fetch(`${stuck.url}/sandboxes`, { method: 'POST' }));
  await until(() => stuck.sandboxes.created.length === 1, 'the create');
  await stuck.server.drain(20);
  const hurry = new AbortController();
  const hurried = stuck.server.drain(60_000, hurry.signal);
  hurry.abort();
  await hurried;
  await stuck.server.close();
  await lost;
});

t.test('an address that cannot be had is explained', async (t) => {
  const { port } = await serve(t);
  const { app } = makeApp();
  const other = () => new HttpServer({ ...UNGUARDED, app, log: pino({ level: 'silent' }) });
  await t.rejects(other().listen({ host: '127.0.0.1', port }), {
    message: `cannot listen on 127.0.0.1:${port}: address in use; stop what uses it, or choose another with --listen`,
  });
  await t.rejects(other().listen({ host: '127.1.2.3.4', port: 0 }), {
    message: /^cannot listen on 127.1.2.3.4:0: /,
  });
});
