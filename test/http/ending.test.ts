// Ends: of a WebSocket by its Close frame, of connections that HTTP gave away, of everything when the daemon stops.
import { createHash, randomBytes } from 'node:crypto';
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { type HttpApp, HttpServer } from '../../host-agent/src/http/index.ts';
import { until } from '../support/until.ts';
import type { FakeExec } from './fake-sandboxes.ts';
import { decodeFrames, RawClient, type Served, SHORT_NAME, serve, summarize, UNGUARDED } from './support.ts';

const BODY = '{"cmd":["cat"]}';
const REPLY = 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n';

/** A command that ends only when it is killed. */
function sleeper(exec: FakeExec): void {
  exec.events.started?.(1);
  exec.output('stdout', 'begun');
  exec.on('cancel', () => exec.exit({ exitCode: -1, signal: 'SIGKILL' }));
}

async function serveSleeper(t: Test, changes = {}): Promise<Served & { id: string }> {
  const served = await serve(t, changes);
  served.sandboxes.script = sleeper;
  return { ...served, id: served.sandboxes.add().id };
}

function post(id: string, query = '', body = BODY): string {
  return `POST /sandboxes/${id}/exec${query} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** A client's frame, masked with zeros. */
function webSocketFrame(opcode: number, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
}

/** A WebSocket client that does only what the test says, and never closes TCP. */
async function openByHand(t: Test, { port, id }: { port: number; id: string }): Promise<RawClient> {
  const client = new RawClient(t, port);
  const key = randomBytes(16).toString('base64');
  const upgrade = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n`;
  client.write(`GET /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\n${upgrade}\r\n`);
  const accepted = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  await until(() => client.text.includes(accepted), 'the upgrade');
  return client;
}

t.test('a Close frame ends the command at once, also when TCP stays open', async (t) => {
  const served = await serveSleeper(t);
  const { sandboxes } = served;
  for (const payload of [Buffer.alloc(0), Buffer.from([0x03, 0xe8])]) {
    sandboxes.execs.length = 0;
    const client = await openByHand(t, served);
    client.write(webSocketFrame(1, Buffer.from(BODY)));
    await until(() => client.text.includes('begun'), 'the output');
    client.write(webSocketFrame(8, payload));
    await until(() => sandboxes.execs[0]!.isCancelled, 'the end of the command');
    t.equal(client.socket.destroyed, false);
  }
  sandboxes.execs.length = 0;
  const hasty = await openByHand(t, served);
  hasty.write(Buffer.concat([webSocketFrame(1, Buffer.from(BODY)), webSocketFrame(8, Buffer.alloc(0))]));
  await until(() => sandboxes.execs[0]?.isCancelled === true, 'the end of one that had hardly begun');
});

t.test('a raw exec that ends while its stdin is full gives its connection back', async (t) => {
  const { server, port, id, sandboxes } = await serve(t, { lingerMs: 200 }).then((served) => ({
    ...served,
    id: served.sandboxes.add().id,
  }));
  sandboxes.script = (exec) => {
    exec.isStdinFull = true;
    exec.events.started?.(1);
  };
  const block = encodeExecFrame(EXEC_FRAME.stdin, Buffer.alloc(65_536));
  for (const closes of [true, false]) {
    sandboxes.execs.length = 0;
    const client = new RawClient(t, port);
    client.write(post(id, '?stdin=1'));
    for (let sent = 0; sent < 200; sent++) client.write(block);
    await until(() => (sandboxes.execs[0]?.stdin.length ?? 0) > 0, 'stdin');
    sandboxes.execs[0]!.exit({ exitCode: 5 });
    await until(() => client.isEnded, 'the result');
    const { result } = summarize(decodeFrames(client.received.subarray(REPLY.length)));
    t.equal(result.exit_code, 5, 'the result is not lost in a reset');
    if (closes) client.socket.end();
  }
  // The second client has not closed its side, and never will.
  let isDrained = false;
  void server.drain(20_000).then(() => {
    isDrained = true;
  });
  await until(() => isDrained, 'the drain');
});

t.test('a stop gives every stream its exit frame, or Close 1001, before it ends', async (t) => {
  const { server, port, url, id, sandboxes } = await serveSleeper(t);
  const oneWay = fetch(`${url}/sandboxes/${id}/exec`, { method: 'POST', body: BODY });
  const raw = new RawClient(t, port);
  raw.write(post(id, '?stdin=1'));
  const receive = (socket: WebSocket) => {
    const received: Buffer[] = [];
    socket.on('message', (data: Buffer) => void received.push(data));
    t.teardown(() => socket.terminate());
    return new Promise<{ code: number; reason: string; bytes: Buffer }>((resolve) => {
      socket.on('close', (code, reason) => {
        resolve({ code, reason: reason.toString(), bytes: Buffer.concat(received) });
      });
    });
  };
  const path = `ws://127.0.0.1:${port}/sandboxes/${id}/exec`;
  const running = new WebSocket(path);
  const ran = receive(running);
  running.on('open', () => running.send(BODY));
  const waiting = new WebSocket(path);
  const waited = receive(waiting);
  await new Promise((resolve) => waiting.on('open', resolve));
  await until(() => sandboxes.execs.length === 3, 'the commands');
  await until(() => raw.text.includes('begun'), 'the output');
  await server.drain(50);
  await server.close();
  const expected = {
    stdout: 'begun',
    result: { exit_code: -1, error: 'the daemon stopped while the command ran' },
  };
  t.match(summarize(decodeFrames(new Uint8Array(await (await oneWay).arrayBuffer()))), expected);
  await raw.ended();
  t.match(summarize(decodeFrames(raw.received.subarray(REPLY.length))), expected);
  const { code, bytes } = await ran;
  t.equal(code, 1001);
  t.match(summarize(decodeFrames(bytes)), expected);
  t.match(await waited, { code: 1001, reason: 'the daemon stops' });
  t.ok(sandboxes.execs.every(({ isCancelled }) => isCancelled));
});

t.test('a stop has an end though a client reads nothing', async (t) => {
  const { server, port, id, sandboxes } = await serveSleeper(t);
  sandboxes.script = (exec) => {
    exec.events.started?.(1);
    exec.output('stdout', Buffer.alloc(8 * 2 ** 20));
  };
  const client = new RawClient(t, port);
  client.socket.pause();
  client.write(post(id));
  await until(() => sandboxes.execs.length === 1, 'the command');
  let isClosed = false;
  void server
    .drain(20)
    .then(() => server.close())
    .then(() => {
      isClosed = true;
    });
  await until(() => isClosed, 'the end of the server');
});

t.test('request smuggling: two hosts, unknown codings, a body behind an upgrade', async (t) => {
  const { port, id } = await serveSleeper(t);
  const answer = async (text: string): Promise<string> => {
    const client = new RawClient(t, port);
    client.write(text);
    await client.ended();
    return client.text;
  };
  const closing = await answer(`GET /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  t.match(closing, /^HTTP\/1.1 426 /);
  t.match(closing, /\r\nUpgrade: websocket\r\n/i);
  t.match(closing, /\r\nConnection: upgrade, close\r\n/i);
  const kept = new RawClient(t, port);
  kept.write(`GET /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\n\r\n`);
  await until(() => kept.text.includes('speaks WebSocket'), 'the answer');
  kept.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  await kept.ended();
  t.match(kept.text, /"ok"/);

  const upgrade =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x\r\n';
  for (const [start, more] of [
    ['GET /healthz', ''],
    [`GET /sandboxes/${id}/exec`, upgrade],
    [`POST /sandboxes/${id}/exec?stdin=1`, 'Content-Length: 2\r\n'],
  ] as const) {
    const text = await answer(`${start} HTTP/1.1\r\nHost: x\r\n${more}host: y\r\n\r\n{}`);
    t.match(text, /^HTTP\/1.1 400 .*malformed http request: there are 2 host headers/s, start);
  }
  for (const coding of ['gzip, chunked', 'identity', 'chunked, chunked', 'gzip'])
    for (const path of ['/sandboxes', `/sandboxes/${id}/exec?stdin=1`]) {
      const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ${coding}\r\n\r\n`;
      t.match(
        await answer(`${head}2\r\n{}\r\n0\r\n\r\n`),
        /^HTTP\/1.1 400 .*\{"error":/s,
        `${coding} ${path}`,
      );
    }
  const websocket = `GET /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\n${upgrade.replace(': x', ': dGhlIHNhbXBsZSBub25jZQ==')}`;
  for (const body of ['Content-Length: 5\r\n\r\nhello', 'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n'])
    t.match(await answer(`${websocket}${body}`), /^HTTP\/1.1 400 .*a websocket request has no body/s);
  const old = 'POST /sandboxes HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
  t.match(await answer(old), /^HTTP\/1.1 400 .*http\/1.0 has no transfer-encoding/s);
  const repeated = 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n';
  t.match(await answer(`POST /sandboxes HTTP/1.1\r\nHost: x\r\n${repeated}\r\n0\r\n\r\n`), /^HTTP\/1.1 400 /);
  t.match(
    await answer(
      'POST /sandboxes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n',
    ),
    /^HTTP\/1.1 201 /,
  );
});

t.test('an unforeseen failure is in the log wherever the answer says so', async (t) => {
  const { port, url, id, sandboxes, lines } = await serveSleeper(t);
  const requestId = (text: string) => /log says more under request id (req_\w+)/.exec(text)?.[1];
  const isLogged = (id: string | undefined) =>
    id !== undefined && lines.some((line) => line.level === 50 && line.requestId === id && line.err);
  sandboxes.exec = () => {
    throw new Error('unforeseen');
  };
  const raw = new RawClient(t, port);
  raw.write(post(id, '?stdin=1'));
  await raw.ended();
  t.ok(isLogged(requestId(raw.text)), raw.text);
  const oneWay = await fetch(`${url}/sandboxes/${id}/exec`, { method: 'POST', body: BODY });
  t.ok(isLogged(requestId(await oneWay.text())));

  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const broken = { fetch: () => Promise.reject(new Error('broken')) } as unknown as HttpApp;
  const server = new HttpServer({ ...UNGUARDED, app: broken, log, allowedHosts: [SHORT_NAME] });
  t.teardown(() => server.close());
  const address = await server.listen({ host: '127.0.0.1', port: 0 });
  for (const text of [post(id, '?stdin=1'), 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n']) {
    const client = new RawClient(t, address.port);
    client.write(text);
    await client.ended();
    t.ok(isLogged(requestId(client.text)), client.text);
  }
});

t.test('a frame over the limit is refused in plain words, with the time it took', async (t) => {
  const { port, id, sandboxes } = await serveSleeper(t);
  const client = new RawClient(t, port);
  client.write(post(id, '?stdin=1'));
  await until(() => client.text.includes('begun'), 'the output');
  await new Promise((resolve) => setTimeout(resolve, 30));
  client.write(Buffer.from([4, 0, 0, 0, 0, 1, 0, 1]));
  await client.ended();
  const { result } = summarize(decodeFrames(client.received.subarray(REPLY.length)));
  t.match(result.error, /^the client sent a frame of 65537 bytes, which is over 65536$/);
  t.ok(result.duration_ms >= 30 && result.duration_ms < 5000, String(result.duration_ms));
  t.equal(sandboxes.execs[0]!.isCancelled, true);
});
