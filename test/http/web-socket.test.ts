// Interactive exec over a WebSocket.
import t, { type Test } from 'tap';
import { WebSocket } from 'ws';
import { until } from '../support/until.ts';
import { BODY, head, serveCat, stdin, stdinClose } from './cat.ts';
import { decodeFrames, RawClient, summarize } from './support.ts';

/** A WebSocket client that collects what it gets. */
function openSocket(t: Test, port: number, path: string, options = {}) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, options);
  const received: Buffer[] = [];
  socket.on('message', (data: Buffer) => void received.push(data));
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }));
  });
  const refused = new Promise<{ status: number | undefined; headers: object }>((resolve) => {
    socket.on('unexpected-response', (_request, response) => {
      resolve({ status: response.statusCode, headers: response.headers });
      socket.terminate();
    });
  });
  socket.on('error', () => {});
  t.teardown(() => socket.terminate());
  const opened = new Promise((resolve) => socket.on('open', resolve));
  return { socket, opened, closed, refused, frames: () => decodeFrames(Buffer.concat(received)) };
}

t.test('a WebSocket carries the same frames, split and packed anyhow', async (t) => {
  const { port, id } = await serveCat(t);
  for (const first of [BODY, Buffer.from(BODY)]) {
    const client = openSocket(t, port, `/sandboxes/${id}/exec`);
    await client.opened;
    client.socket.send(first);
    const bytes = Buffer.concat([stdin('ab'), stdin('cd'), stdinClose]);
    for (const byte of bytes.subarray(0, 11)) client.socket.send(Uint8Array.of(byte));
    client.socket.send(bytes.subarray(11));
    t.same(await client.closed, { code: 1000, reason: '' });
    t.match(summarize(client.frames()), { stdout: 'abcd', result: { exit_code: 4 } });
  }
});

t.test('the first frame of a WebSocket has the id of the command if the client asks', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  sandboxes.script = (exec) => {
    exec.id = 'cmd_0123456789abc';
    exec.output('stdout', 'x');
    exec.exit();
  };
  const client = openSocket(t, port, `/sandboxes/${id}/exec?command_id=1`);
  await client.opened;
  client.socket.send(BODY);
  t.equal((await client.closed).code, 1000);
  const [first] = client.frames();
  t.same([first?.type, String(first?.payload)], [10, '{"id":"cmd_0123456789abc"}']);
  t.match(summarize(client.frames()), { stdout: 'x', result: { exit_code: 0 } });
  const other = openSocket(t, port, `/sandboxes/${id}/exec`);
  await other.opened;
  other.socket.send(BODY);
  await other.closed;
  t.same(
    other.frames().map(({ type }) => type),
    [1, 3],
    'clients that know less get no other frame',
  );
});

t.test('WebSockets that go wrong are closed with the code that says how', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  const path = `/sandboxes/${id}/exec`;
  const closeOf = async (...messages: (string | Buffer)[]) => {
    const client = openSocket(t, port, path);
    await client.opened;
    for (const message of messages) client.socket.send(message);
    return client.closed;
  };
  t.match(await closeOf('{"cmd":[]}'), { code: 1008, reason: /^cmd must be/ });
  t.match(await closeOf('{'), { code: 1008, reason: /not valid JSON/ });
  t.match(await closeOf(''), { code: 1008, reason: /^cmd must be/ });
  t.match(await closeOf('['.repeat(500_000)), { code: 1008, reason: /nested more than 100 levels/ });
  t.match(await closeOf(BODY, 'text'), { code: 1003, reason: /only binary/ });
  t.match(await closeOf(Buffer.alloc(2 ** 20 + 1)), { code: 1009 });
  t.match(await closeOf(BODY, Buffer.alloc(2 ** 20 + 1)), { code: 1009 });
  await until(() => sandboxes.execs.every(({ isCancelled }) => isCancelled), 'the end of every command');
  const leaver = openSocket(t, port, path);
  await leaver.opened;
  leaver.socket.send(BODY);
  await until(() => sandboxes.execs.length === 3, 'the command');
  leaver.socket.terminate();
  await until(() => sandboxes.execs[2]!.isCancelled, 'its end');
  sandboxes.script = (exec) => exec.exit({ exitCode: -1, error: 'the guest was lost', isLost: true });
  t.match(await closeOf(BODY), { code: 1011, reason: 'the guest was lost' });
  const raw = new RawClient(t, port);
  raw.write(head(id) + BODY);
  await raw.ended();
  t.match(
    raw.text,
    /^HTTP\/1.1 502 .*\{"error":"the guest was lost","code":"guest_unreachable"\}$/s,
    'over the raw socket, too',
  );
  sandboxes.exec = () => {
    throw new Error('internal detail');
  };
  t.match(await closeOf(BODY), { code: 1011, reason: 'internal error' });
});

t.test('WebSocket requests that cannot be served get an ordinary answer', async (t) => {
  const { port, id } = await serveCat(t);
  const refusal = (path: string, options = {}) => openSocket(t, port, path, options).refused;
  t.match(await refusal('/sandboxes/sbx_bad/exec'), { status: 400 });
  t.match(await refusal('/sandboxes/sbx_0123456789abc/exec'), { status: 404 });
  t.match(await refusal('/healthz'), { status: 200 });
  t.match(await refusal(`/sandboxes/${id}/exec`, { origin: 'http://evil.example' }), { status: 403 });
  const same = openSocket(t, port, `/sandboxes/${id}/exec`, { origin: `http://127.0.0.1:${port}` });
  await same.opened;
  for (const [version, key] of [
    ['13', 'x'],
    ['7', 'dGhlIHNhbXBsZSBub25jZQ=='],
  ]) {
    const bad = new RawClient(t, port);
    const upgrade = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: ${version}\r\nSec-WebSocket-Key: ${key}\r\n`;
    bad.write(`GET /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\n${upgrade}\r\n`);
    await bad.ended();
    t.match(bad.text, /^HTTP\/1.1 400 .*\r\nSec-WebSocket-Version: 13\r\n.*\{"error":"/s);
  }
});

t.test('draining waits for interactive commands, then it ends them', async (t) => {
  const { server, port, id, sandboxes } = await serveCat(t);
  const client = openSocket(t, port, `/sandboxes/${id}/exec`);
  await client.opened;
  client.socket.send(BODY);
  await until(() => sandboxes.execs.length === 1, 'the command');
  let isDrained = false;
  const drained = server.drain(60).then(() => {
    isDrained = true;
  });
  await sleep(20);
  t.equal(isDrained, false);
  await drained;
  await server.close();
  t.equal((await client.closed).code, 1001);
  await until(() => sandboxes.execs[0]!.isCancelled, 'the end of the command');
});

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

t.test('incomplete messages share a bounded amount of memory', async (t) => {
  const { port, id } = await serveCat(t);
  // A frame of 1 MiB whose last byte never comes.
  const frame = Buffer.alloc(14 + (1 << 20) - 1);
  frame.writeUInt16BE(0x81ff);
  frame.writeBigUInt64BE(1n << 20n, 2);
  const clients = Array.from({ length: 80 }, () => openSocket(t, port, `/sandboxes/${id}/exec`));
  let ended = 0;
  for (const client of clients) {
    await client.opened;
    void client.closed.then(() => {
      ended += 1;
    });
    Reflect.get(client.socket, '_socket').write(frame);
  }
  await until(() => ended >= 12);
  t.ok(ended < 30, `${ended} of 80 were closed`);
  for (const { socket } of clients) socket.terminate();
  await Promise.all(clients.map(({ closed }) => closed));
  const next = openSocket(t, port, `/sandboxes/${id}/exec`);
  await next.opened;
  next.socket.send(BODY);
  next.socket.send(stdinClose);
  t.match(await next.closed, { code: 1000 }, 'those that are gone have left their room');
});
